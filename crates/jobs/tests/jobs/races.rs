use crate::world::{job, name};
use mainstay::{CellCommand, Code, Database, Durability, Name, Options, Revision};
use mainstay_jobs::{Jobs, Retry, Settings, State};
use std::collections::BTreeSet;
use std::time::Duration;

fn open() -> (Database, Jobs) {
    let db = Options::new().durability(Durability::Memory).memory().unwrap();
    let jobs = Jobs::open(&db, Settings::default()).unwrap();
    (db, jobs)
}

fn on_threads<T: Send>(count: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|n| {
                scope.spawn({
                    let run = &run;
                    move || run(n)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn of_racing_claimers_each_job_goes_to_one() {
    let (_db, jobs) = open();
    let all: Vec<_> = (0..400).map(|n| job(&format!("j{n}"))).collect();
    jobs.submit_all(&all).unwrap();
    let claims = on_threads(8, |n| {
        std::iter::from_fn(|| {
            jobs.claim("t", &format!("w{n}"), None).unwrap().map(|claimed| claimed.grant)
        })
        .map(|grant| (grant.name, grant.token))
        .collect::<Vec<_>>()
    });
    let claims: Vec<_> = claims.into_iter().flatten().collect();
    let names: BTreeSet<_> = claims.iter().map(|(name, _)| name).collect();
    let tokens: BTreeSet<Revision> = claims.iter().map(|(_, token)| *token).collect();
    assert_eq!((claims.len(), names.len(), tokens.len()), (400, 400, 400));
}

/// Every acknowledged completion stays and is counted once, while the sweeper runs concurrently.
#[test]
fn sweeping_beside_completing_workers_loses_and_doubles_nothing() {
    let (db, jobs) = open();
    let all: Vec<_> = (0..200).map(|n| job(&format!("j{n}")).max_retries(1_000_000)).collect();
    jobs.submit_all(&all).unwrap();
    let counted = CellCommand::Incr { name: Name::new("done").unwrap(), by: 1.into() };
    let work = |_| {
        let mut done = 0;
        let mut fenced = 0;
        while jobs.count("t", State::Completed).unwrap() < 200 {
            // So short that the sweeper is often faster.
            let lease = Some(Duration::from_millis(1));
            let Some(claimed) = jobs.claim("t", "w", lease).unwrap() else { continue };
            match jobs.with_commands([counted.clone().into()]).complete(&claimed.grant, None) {
                Ok(_) => done += 1,
                Err(error) => {
                    assert_eq!(error.code(), Code::Fenced);
                    fenced += 1;
                }
            }
        }
        (done, fenced)
    };
    let ended = on_threads(5, |n| match n {
        0 => {
            while jobs.count("t", State::Completed).unwrap() < 200 {
                assert_eq!(jobs.sweep().unwrap().failed, 0);
            }
            (0, 0)
        }
        _ => work(n),
    });
    assert_eq!(ended.iter().map(|(done, _)| done).sum::<i32>(), 200);
    assert_eq!(db.cells().get("done").unwrap(), Some(200.into()));
}

#[test]
fn the_last_of_racing_completions_frees_the_dependent_once() {
    for _ in 0..20 {
        let (_db, jobs) = open();
        let mut last = job("last");
        for n in 0..8 {
            jobs.submit(&job(&format!("j{n}"))).unwrap();
            last = last.depends_on(&format!("j{n}"));
        }
        on_threads(9, |n| match n {
            // Submitted while its dependency is being completed.
            0 => drop(jobs.submit(&last).unwrap()),
            _ => {
                let grant = jobs.claim("t", "w", None).unwrap().unwrap().grant;
                if grant.name != name("last") {
                    jobs.complete(&grant, None).unwrap();
                }
            }
        });
        let last = jobs.get(&name("last")).unwrap().unwrap();
        assert_eq!((last.state, last.blocked_by), (State::Pending, 0));
    }
}

#[test]
fn of_racing_ends_of_a_job_one_counts() {
    for _ in 0..50 {
        let (_db, jobs) = open();
        jobs.submit(&job("a")).unwrap();
        let grant = jobs.claim("t", "w", None).unwrap().unwrap().grant;
        let ends = on_threads(3, |n| match n {
            0 => jobs.complete(&grant, None),
            1 => jobs.fail(&grant, "no", Retry::Never),
            _ => jobs.cancel(&grant.name),
        });
        let state = jobs.get(&grant.name).unwrap().unwrap().state;
        let told: Vec<State> = ends.iter().flatten().copied().collect();
        assert!(told.contains(&state) && told.iter().all(|one| *one == state), "{ends:?}");
    }
}

/// A job that is submitted while its dependency completes must not wait forever.
#[test]
fn submitting_beside_the_completion_of_a_dependency_forgets_nobody() {
    let (_db, jobs) = open();
    for n in 0..400 {
        let first = format!("a{n}");
        let second = format!("b{n}");
        jobs.submit(&job(&first).priority(1)).unwrap();
        let grant = jobs.claim("t", "w", None).unwrap().unwrap().grant;
        let (new, start) = (job(&second).depends_on(&first), std::sync::Barrier::new(2));
        on_threads(2, |n| {
            start.wait();
            match n {
                0 => jobs.submit(&new).unwrap(),
                _ => jobs.complete(&grant, None).unwrap(),
            }
        });
        let second = jobs.get(&name(&second)).unwrap().unwrap();
        assert_eq!((second.state, second.blocked_by), (State::Pending, 0));
    }
}

#[test]
fn of_many_who_begin_to_wait_for_a_job_none_is_forgotten() {
    for _ in 0..20 {
        let (_db, jobs) = open();
        jobs.submit(&job("a")).unwrap();
        on_threads(8, |n| {
            for m in 0..4 {
                jobs.submit(&job(&format!("w{n}.{m}")).depends_on("a")).unwrap();
            }
        });
        jobs.complete(&jobs.claim("t", "w", None).unwrap().unwrap().grant, None).unwrap();
        assert_eq!(jobs.count("t", State::Pending).unwrap(), 32);
    }
}

/// A job retried while its dependency completes becomes pending and waits for nothing.
#[test]
fn a_retry_beside_the_completion_of_a_dependency_does_not_wait_for_ever() {
    let (_db, jobs) = open();
    for n in 0..200 {
        let first = format!("a{n}");
        let second = format!("b{n}");
        jobs.submit(&job(&first).priority(1)).unwrap();
        jobs.submit(&job(&second).depends_on(&first)).unwrap();
        jobs.cancel(&name(&second)).unwrap();
        let grant = jobs.claim("t", "w", None).unwrap().unwrap().grant;
        let start = std::sync::Barrier::new(2);
        on_threads(2, |n| {
            start.wait();
            match n {
                0 => jobs.retry(&name(&second)).unwrap(),
                _ => jobs.complete(&grant, None).unwrap(),
            }
        });
        let second = jobs.get(&name(&second)).unwrap().unwrap();
        assert_eq!((second.state, second.blocked_by), (State::Pending, 0));
    }
}

/// The job's own lease is set by a second write. A worker whose job was cancelled before that write is
/// fenced later.
#[test]
fn a_claim_beside_a_cancellation_is_a_claim() {
    let (_db, jobs) = open();
    for n in 0..200 {
        let id = format!("j{n}");
        jobs.submit(&job(&id).timeout_ms(12_345)).unwrap();
        let start = std::sync::Barrier::new(2);
        on_threads(2, |n| {
            start.wait();
            match n {
                0 => drop(jobs.claim("t", "w", None).unwrap()),
                _ => drop(jobs.cancel(&name(&id)).unwrap()),
            }
        });
        assert_eq!(jobs.get(&name(&id)).unwrap().unwrap().state, State::Cancelled);
    }
}
