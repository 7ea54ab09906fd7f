use crate::tasks::Tasks;
use crate::world::{job, name};
use mainstay::{Database, Durability, Options};
use mainstay_jobs::{AsyncJobs, Jobs, Settings, Submission};
use std::collections::BTreeSet;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

fn open(durability: Durability) -> (Database, Jobs, AsyncJobs) {
    let db = Options::new().durability(durability).memory().unwrap();
    let jobs = Jobs::open(&db, Settings::default()).unwrap();
    let awaited = jobs.to_async().unwrap();
    (db, jobs, awaited)
}

/// Sixty-four tasks wait without threads. Each job wakes one of them, and no other one tries.
#[test]
fn one_job_wakes_one_of_those_who_wait() {
    for durability in [Durability::Memory, Durability::Sync] {
        let (_db, jobs, awaited) = open(durability);
        let mut tasks = Tasks::new();
        for n in 0..64 {
            let awaited = awaited.clone();
            let worker = format!("w{n}");
            tasks.spawn(async move { awaited.claim_within("t", &worker, None, LONG).await });
        }
        tasks.run_until(|_| jobs.stats().claimed_nothing == 64);
        let mut claimed = BTreeSet::new();
        for n in 0..64 {
            jobs.submit(&job(&format!("j{n}"))).unwrap();
            let ended = tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap().unwrap();
            assert_eq!(ended.grant.name, name(&format!("j{n}")));
            assert!(claimed.insert(ended.job.worker.unwrap()), "each worker got one");
            assert_eq!(jobs.stats().claimed_nothing, 64, "nobody was woken for nothing");
        }
    }
}

#[test]
fn many_jobs_at_once_wake_as_many() {
    let (_db, jobs, awaited) = open(Durability::Memory);
    let mut tasks = Tasks::new();
    for _ in 0..64 {
        tasks.spawn(awaited.claim_within("t", "w", None, LONG));
    }
    tasks.run_until(|_| jobs.stats().claimed_nothing == 64);
    let all: Vec<_> = (0..40).map(|n| job(&format!("j{n}"))).collect();
    jobs.submit_all(&all).unwrap();
    let ended = tasks.run_until(|ended| ended == 40);
    let names: BTreeSet<_> =
        ended.into_iter().map(|one| one.unwrap().unwrap().grant.name).collect();
    assert_eq!(names.len(), 40, "each job was claimed once");
    assert_eq!(jobs.stats().claimed_nothing, 64, "nobody was woken for nothing");
}

/// If a waiter with a turn is dropped without trying, the job goes to the next one.
#[test]
fn a_turn_that_is_given_up_goes_to_the_next() {
    let (_db, jobs, awaited) = open(Durability::Memory);
    let mut tasks = Tasks::new();
    for n in 1..=2 {
        tasks.spawn(awaited.claim_within("t", "w", None, LONG));
        tasks.run_until(|_| jobs.stats().claimed_nothing == n);
    }
    jobs.submit(&job("a")).unwrap();
    tasks.wait_for_call(0);
    tasks.drop_task(0);
    let ended = tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap();
    assert_eq!(ended.expect("it went to the second").grant.name, name("a"));
}

#[test]
fn who_waits_hears_of_what_is_due_and_of_the_end_of_its_time() {
    let (_db, jobs, awaited) = open(Durability::Memory);
    let mut tasks = Tasks::new();
    tasks.spawn(awaited.claim_within("t", "late", None, Duration::from_millis(20)));
    assert_eq!(tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap(), None);
    tasks.spawn(awaited.claim_within("t", "w", None, LONG));
    tasks.spawn(awaited.claim_within("z", "w", None, LONG));
    tasks.run_until(|_| jobs.stats().claimed_nothing == 3);
    let now_ms = jobs.now_us().unwrap() / 1000;
    // A later job first: a known due time must not hide an earlier one.
    jobs.submit(&job("later").run_at_ms(now_ms + 3_000_000)).unwrap();
    // Queues are probed in order: when this waiter gets its turn, the other queue was probed.
    jobs.submit(&Submission::new("z", "1")).unwrap();
    assert!(tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap().is_some());
    jobs.submit(&job("soon").run_at_ms(now_ms + 200)).unwrap();
    let claimed = tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap().unwrap();
    assert_eq!(claimed.grant.name, name("soon"));
    assert!(jobs.now_us().unwrap() / 1000 >= now_ms + 200, "not before its time");
}

#[test]
fn who_waits_hears_that_the_database_is_closed() {
    let (db, jobs, awaited) = open(Durability::Memory);
    let mut tasks = Tasks::new();
    tasks.spawn(awaited.claim_within("t", "w", None, LONG));
    tasks.run_until(|_| jobs.stats().claimed_nothing == 1);
    db.close().unwrap();
    let ended = tasks.run_until(|ended| ended == 1).pop().unwrap();
    assert_eq!(ended.unwrap_err().code(), mainstay::Code::Closed);
}

/// A lock passes from one waiter to the next, without a thread for each.
#[test]
fn locks_are_taken_in_turn() {
    let (_db, jobs, awaited) = open(Durability::Memory);
    let locks = jobs.locks();
    let awaited = awaited.locks();
    let lease = Duration::from_secs(600);
    let mut token = locks.take("l", "first", lease).unwrap().unwrap();
    let mut tasks = Tasks::new();
    for n in 0..16 {
        let awaited = awaited.clone();
        let owner = format!("o{n}");
        tasks.spawn(async move { awaited.take_within("l", &owner, lease, LONG).await });
    }
    for _ in 0..16 {
        assert!(locks.free("l", token).unwrap());
        let next = tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap().unwrap();
        assert!(next > token);
        token = next;
    }
}

#[test]
fn all_of_it_runs_on_a_runtime() {
    let (_db, jobs, awaited) = open(Durability::Sync);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let workers: Vec<_> = (0..64)
        .map(|n| {
            let jobs = awaited.clone();
            runtime.spawn(async move {
                let worker = format!("w{n}");
                let claimed = jobs.claim_within("t", &worker, None, LONG).await.unwrap().unwrap();
                jobs.step(&claimed.grant, 1, Some(2)).await.unwrap();
                jobs.complete(&claimed.grant, Some(b"out")).await.unwrap();
                claimed.grant.name
            })
        })
        .collect();
    let submitted = async {
        for n in 0..64 {
            awaited.submit(&job(&format!("j{n}"))).await.unwrap();
        }
    };
    runtime.block_on(submitted);
    let names: BTreeSet<_> =
        workers.into_iter().map(|worker| runtime.block_on(worker).unwrap()).collect();
    assert_eq!(names.len(), 64, "each job was claimed once");
    assert_eq!(jobs.stats().completed, 64);
}

/// Writes a record that is not a job at the position of a due job.
fn put_strange(db: &Database, key: &str, rank: u128) {
    let rank = rank.to_string();
    let strange = [("task_type", "t"), ("state", "pending"), ("rank", &rank), ("priority", "x")];
    db.records().put(key, &mainstay::Fields::of(strange).unwrap(), None).unwrap();
}

/// A probe must not promise a job that a claim cannot take, or waiters would retry again and again.
#[test]
fn a_record_that_is_no_job_wakes_nobody() {
    let (db, jobs, awaited) = open(Durability::Memory);
    put_strange(&db, "mainstay.state.tasks.t.a", 10_u128.pow(28) + 1);
    let mut tasks = Tasks::new();
    for n in 1..=3 {
        tasks.spawn(awaited.claim_within("t", "w", None, LONG));
        tasks.run_until(|_| jobs.stats().claimed_nothing == n);
    }
    for n in 0..20 {
        jobs.submit(&Submission::new("z", &format!("{n}"))).unwrap();
        assert!(jobs.claim_within("z", "w", None, LONG).unwrap().is_some());
    }
    jobs.submit(&job("b")).unwrap();
    let claimed = tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap().unwrap();
    assert_eq!(claimed.grant.name, name("b"));
    assert_eq!(jobs.stats().claimed_nothing, 3, "nobody was woken for nothing");
}

/// A lock that can never be taken is an error, not an endless wait.
#[test]
fn a_lock_without_a_token_is_an_error_for_those_who_wait() {
    let (db, jobs, _) = open(Durability::Memory);
    let strange = mainstay::Fields::of([("owner", "a")]).unwrap();
    db.records().put("mainstay.state.locks.l", &strange, None).unwrap();
    let taken = jobs.locks().take_within("l", "b", LONG, LONG);
    assert_eq!(taken.unwrap_err().code(), mainstay::Code::CorruptData);
}

/// Together they exceed the size of one answer.
#[test]
fn large_jobs_that_wait_for_their_time_keep_nobody_from_waiting() {
    let db = Options::new().durability(Durability::Memory).memory().unwrap();
    let settings = Settings { inline_limit_bytes: 1 << 20, ..Settings::default() };
    let jobs = Jobs::open(&db, settings).unwrap();
    let now_ms = jobs.now_us().unwrap() / 1000;
    for n in 0..135 {
        let large = job(&format!("large{n}")).params(vec![0; 1 << 20]);
        jobs.submit(&large.run_at_ms(now_ms + 1_000_000 + n)).unwrap();
    }
    let awaited = jobs.to_async().unwrap();
    let mut tasks = Tasks::new();
    tasks.spawn(awaited.claim_within("t", "w", None, LONG));
    tasks.run_until(|_| jobs.stats().claimed_nothing == 1);
    jobs.submit(&job("small")).unwrap();
    let claimed = tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap().unwrap();
    assert_eq!(claimed.grant.name, name("small"));
    assert_eq!(jobs.stats().claimed_nothing, 1, "nobody was woken for nothing");
}

#[test]
fn who_waits_on_a_branch_hears_that_it_is_gone() {
    let (db, jobs, _) = open(Durability::Memory);
    db.fork("try", "main", mainstay::At::Latest).unwrap();
    let locks = jobs.locks().on_branch("try").unwrap();
    locks.take("l", "a", LONG).unwrap().unwrap();
    let awaited = locks.to_async().unwrap();
    let mut tasks = Tasks::new();
    tasks.spawn(awaited.take_within("l", "b", LONG, LONG));
    tasks.run_once();
    db.delete_branch("try").unwrap();
    let ended = tasks.run_until(|ended| ended == 1).pop().unwrap();
    assert_eq!(ended.unwrap_err().code(), mainstay::Code::BranchNotFound);
}
