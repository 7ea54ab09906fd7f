//! Many and large records: an operation fits into one transaction, or is rejected before it has to.

use crate::world::{START_MS, World, code, job, name};
use mainstay::{Code, Transaction};
use mainstay_jobs::{Jobs, Settings, State};
use object_store::memory::InMemory;
use std::sync::Arc;

const MIB: usize = 1 << 20;

fn large() -> World {
    World::with(Settings { inline_limit_bytes: MIB, ..Settings::default() })
}

#[test]
fn as_many_may_wait_for_a_job_as_can_be_freed_together() {
    let world = large();
    world.submit("a");
    let waiting = |n: usize| job(&format!("w{n}")).depends_on("a").params(vec![1; MIB]);
    for n in 0..15 {
        world.jobs.submit(&waiting(n)).unwrap();
    }
    let error = world.jobs.submit(&waiting(15)).unwrap_err();
    assert_eq!(error.code(), Code::TransactionTooLarge);
    assert!(error.to_string().contains("object store"), "{error}");
    let graph: Vec<_> = (20..36).map(|n| waiting(n).depends_on("b")).chain([job("b")]).collect();
    assert_eq!(code(world.jobs.submit_all(&graph)), Code::TransactionTooLarge);
    world.jobs.submit(&job("small").depends_on("a")).unwrap();
    world.jobs.complete(&world.claimed().grant, None).unwrap();
    assert_eq!(world.jobs.count("t", State::Pending).unwrap(), 16);
}

#[test]
fn a_completion_that_a_transaction_has_no_room_for_leaves_nothing_in_it() {
    let world = World::new();
    let mut graph: Vec<_> = (0..10_000).map(|n| job(&format!("w{n}")).depends_on("a")).collect();
    graph.push(job("a"));
    world.jobs.submit_all(&graph).unwrap();
    let grant = world.claimed().grant;
    let mut t = world.db.begin().unwrap();
    t.set("before", 1).unwrap();
    assert_eq!(code(world.jobs.on(&mut t).complete(&grant, None)), Code::TransactionTooLarge);
    assert_eq!(t.step_count(), Some(1));
    t.commit().unwrap();
    assert_eq!(world.jobs.complete(&grant, None).unwrap(), State::Completed);
    assert_eq!(world.jobs.count("t", State::Pending).unwrap(), 10_000);
}

#[test]
fn large_jobs_come_due_and_are_swept_in_smaller_steps() {
    let world = large();
    for n in 0..70 {
        let due = job(&format!("j{n:02}")).run_at_ms(START_MS + 1).params(vec![1; MIB]);
        world.jobs.submit(&due).unwrap();
    }
    world.pass_ms(1);
    for n in 0..70 {
        assert_eq!(world.next_id(), Some(format!("j{n:02}")));
    }
    world.pass_ms(30_001);
    let report = world.jobs.sweep().unwrap();
    assert_eq!((report.looked_at, report.retried), (70, 70));
}

/// Swept jobs leave the range: the second page begins where the first did.
#[test]
fn a_sweep_goes_beyond_its_first_page() {
    let world = World::new();
    let stuck = |n: usize| {
        let write = mainstay::RecordWrite::to(&world.jobs.key(&name(&format!("j{n}")))).unwrap();
        let write = write.set("state", "running").unwrap().set("timeout_at", "1").unwrap();
        write.set("task_type", "t").unwrap().set("max_retries", "1").unwrap()
    };
    let all = (0..5_001).fold(Transaction::new(), |all, n| all.step(stuck(n)));
    world.db.execute(all).unwrap();
    let report = world.jobs.sweep().unwrap();
    assert_eq!((report.looked_at, report.retried), (5_001, 5_001));
    assert_eq!(world.jobs.count("t", State::Pending).unwrap(), 5_001);
}

/// A holder that lost its job writes no object for it.
#[test]
fn a_fenced_holder_stores_nothing() {
    let world = World::new();
    let store = Arc::new(InMemory::new());
    let jobs = Jobs::open_with(&world.db, Settings::default(), store).unwrap();
    world.submit("a");
    let lost = world.claimed().grant;
    jobs.cancel(&lost.name).unwrap();
    let result = vec![1; 70_000];
    assert_eq!(code(jobs.complete(&lost, Some(&result))), Code::Fenced);
    assert_eq!(jobs.collect_garbage(std::time::Duration::ZERO).unwrap().examined, 0);
    world.submit("b");
    let grant = world.claimed().grant;
    jobs.complete(&grant, Some(&result)).unwrap();
    assert_eq!(jobs.complete(&grant, Some(&result)).unwrap(), State::Completed);
    // Without an object store, the fence is also checked first.
    assert_eq!(code(world.jobs.complete(&lost, Some(&result))), Code::Fenced);
    let settings = Settings { inline_limit_bytes: MIB + 1, ..Settings::default() };
    assert_eq!(Jobs::open(&world.db, settings).err().unwrap().code(), Code::InvalidArgument);
}
