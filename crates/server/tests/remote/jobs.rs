//! Jobs and locks through the remote client behave as in the embedded database.

use crate::limited::connect as connect_as;
use crate::proxy::Proxy;
use crate::support::Ours;
use crate::world::{World, user};
use mainstay::remote::{self, AsyncDatabase};
use mainstay::{CellCommand, Code, Database, ErrorKind, Name};
use mainstay_jobs::{AsyncJobs, AsyncLocks, JobName, Jobs, Retry, Settings, State, Submission};
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

const LEASE: Option<Duration> = Some(Duration::from_secs(3600));
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(server: &Ours) -> Database {
    remote::connect(&server.address.to_string()).unwrap()
}

fn jobs(db: &Database) -> Jobs {
    Jobs::open(db, Settings::default()).unwrap()
}

/// Claims and completes jobs until none is left. Returns their ids.
fn work(jobs: &Jobs, worker: &str) -> Vec<String> {
    let mut got = Vec::new();
    while let Some(claimed) = jobs.claim("t", worker, LEASE).unwrap() {
        jobs.step(&claimed.grant, 1, Some(1)).unwrap();
        assert_eq!(jobs.complete(&claimed.grant, Some(b"done")).unwrap(), State::Completed);
        got.push(claimed.grant.name.id().to_owned());
    }
    got
}

#[test]
fn eight_workers_over_connections_claim_each_job_once() {
    let server = Ours::start();
    let clients: Vec<_> = (0..8).map(|_| connect(&server)).collect();
    let submitted = jobs(&clients[0]);
    for n in 0..200 {
        submitted.submit(&Submission::new("t", &n.to_string()).params("x")).unwrap();
    }
    let all: Vec<String> = thread::scope(|scope| {
        let work = |n: usize| {
            let jobs = jobs(&clients[n]);
            scope.spawn(move || work(&jobs, &format!("w{n}")))
        };
        let workers: Vec<_> = (0..8).map(work).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let ids: BTreeSet<_> = all.iter().collect();
    assert_eq!((all.len(), ids.len()), (200, 200));
    assert_eq!(jobs(&server.db).count("t", State::Completed).unwrap(), 200);
}

#[test]
fn whoever_lost_a_job_is_fenced_over_the_wire() {
    let server = Ours::start();
    let first = jobs(&connect(&server));
    let second = jobs(&connect(&server));
    first.submit(&Submission::new("t", "a")).unwrap();
    let lost = first.claim("t", "w1", Some(Duration::from_millis(1))).unwrap().unwrap();
    while second.sweep().unwrap().retried == 0 {}
    let held = second.claim("t", "w2", LEASE).unwrap().unwrap();
    let event = CellCommand::set(Name::new("event").unwrap(), 1);
    let beside = first.with_commands([event.into()]);
    for refused in [
        first.heartbeat(&lost.grant, None),
        first.step(&lost.grant, 1, None),
        beside.complete(&lost.grant, None),
        first.fail(&lost.grant, "no", Retry::Now),
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::Fenced);
    }
    assert_eq!(server.db.cells().get("event").unwrap(), None);
    assert_eq!(second.complete(&held.grant, None).unwrap(), State::Completed);
}

#[test]
fn a_claim_waits_at_the_server_and_is_woken_there() {
    let server = Ours::start();
    let worker = jobs(&connect(&server));
    let here = jobs(&server.db);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| worker.claim_within("t", "w", LEASE, PATIENCE).unwrap());
        here.submit(&Submission::new("t", "a")).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap().grant.name.id(), "a");
    });
    assert!(worker.claim_within("t", "w", LEASE, Duration::from_millis(20)).unwrap().is_none());
}

/// A lost answer leaves a job claimed by one worker, and no job is claimed twice.
#[test]
fn a_connection_lost_in_mid_claim_gives_no_job_to_two() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let broken = jobs(&proxy.options().connect().unwrap());
    let here = jobs(&server.db);
    for n in 0..4 {
        here.submit(&Submission::new("t", &n.to_string())).unwrap();
    }
    // This answer comes first, so that only the answer of the claim is dropped.
    assert_eq!(broken.count("t", State::Pending).unwrap(), 4);
    proxy.swallow(true);
    let outcome = thread::scope(|scope| {
        let claiming = scope.spawn(|| broken.claim("t", "lost", LEASE));
        proxy.wait_until_swallowed();
        proxy.swallow(false);
        proxy.cut();
        claiming.join().unwrap()
    });
    if let Err(error) = &outcome {
        assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{error}");
    }
    let held = here.count("t", State::Claimed).unwrap();
    assert!(held <= 1, "{held} jobs are claimed");
    let rest = work(&here, "w");
    assert_eq!(rest.len() as u64 + held, 4, "the others are there, once each");
}

#[test]
fn locks_fence_over_the_wire() {
    let server = Ours::start();
    let one = jobs(&connect(&server)).locks();
    let two = jobs(&connect(&server)).locks();
    let lease = Duration::from_secs(3600);
    let token = one.take("l", "one", lease).unwrap().unwrap();
    assert_eq!(two.take("l", "two", lease).unwrap(), None);
    assert_eq!(two.renew("l", token + 1, lease).unwrap_err().code(), Code::Fenced);
    assert!(one.free("l", token).unwrap());
    assert!(two.take("l", "two", lease).unwrap().unwrap() > token);
}

async fn connect_async(server: &Ours) -> AsyncDatabase {
    remote::connect_async(&server.address.to_string()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_waiting_futures_get_a_job_each() {
    let server = Ours::start();
    let db = connect_async(&server).await;
    let jobs = AsyncJobs::served(&db, Settings::default(), None).await.unwrap();
    let waiting: Vec<_> = (0..64)
        .map(|n| {
            let jobs = jobs.clone();
            let worker = format!("w{n}");
            tokio::spawn(async move { jobs.claim_within("t", &worker, LEASE, PATIENCE).await })
        })
        .collect();
    for n in 0..64 {
        jobs.submit(&Submission::new("t", &n.to_string())).await.unwrap();
    }
    let mut ids = BTreeSet::new();
    for claimed in waiting {
        let claimed = claimed.await.unwrap().unwrap().expect("there is one for each");
        jobs.complete(&claimed.grant, None).await.unwrap();
        ids.insert(claimed.grant.name);
    }
    assert_eq!(ids.len(), 64);
    let name = JobName::new("t", "0").unwrap();
    assert_eq!(jobs.get(&name).await.unwrap().unwrap().state, State::Completed);
    let locks = AsyncLocks::served(&db, "mainstay.").unwrap();
    assert!(locks.take("l", "o", PATIENCE).await.unwrap().is_some());
}

#[test]
fn a_user_works_on_the_types_whose_keys_it_has() {
    let prefix = "mainstay.state.tasks.t.";
    let world =
        World::with(|settings| settings.users.push(user("worker", &["records"], &[prefix])));
    let own = jobs(&connect_as(&world, "worker"));
    own.submit(&Submission::new("t", "a")).unwrap();
    let claimed = own.claim("t", "w", LEASE).unwrap().unwrap();
    assert_eq!(own.complete(&claimed.grant, None).unwrap(), State::Completed);
    jobs(&world.db).submit(&Submission::new("u", "a")).unwrap();
    assert_eq!(own.claim("u", "w", LEASE).unwrap_err().code(), Code::Forbidden);
    let other = Submission::new("u", "b");
    assert_eq!(own.submit(&other).unwrap_err().code(), Code::Forbidden);
}
