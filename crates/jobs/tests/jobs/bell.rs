//! Stress test of the wait queues: several queues, abandoned turns, dropped waiters, a jumping clock.

use crate::tasks::Tasks;
use crate::world::World;
use mainstay::Fields;
use mainstay_jobs::{ClaimedJob, Submission};
use std::collections::BTreeSet;
// SeqCst in these tests: the counters and flags synchronize with other threads, and speed does not matter.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(1_000_000_000);
const TYPES: [&str; 4] = ["a", "b", "c", "d"];
const ROUNDS: usize = 60;

/// Waiters come and are dropped, with a turn or without. Every submitted job, due now or later, is claimed all the
/// same.
#[test]
fn whatever_is_submitted_is_claimed_by_somebody_who_waits() {
    let world = World::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| write_beside(&world, &is_over));
        scope.spawn(|| move_clock(&world, &is_over));
        let workers = TYPES.map(|of| scope.spawn(|| work(&world, of)));
        for (worker, of) in workers.into_iter().zip(TYPES) {
            assert_eq!(worker.join().unwrap().len(), ROUNDS, "all jobs of {of}, each once");
        }
        is_over.store(true, Ordering::SeqCst);
    });
}

/// Writes keys that no caller waits for.
fn write_beside(world: &World, is_over: &AtomicBool) {
    let fields = Fields::of([("a", "1")]).unwrap();
    while !is_over.load(Ordering::SeqCst) {
        world.db.records().put("mainstay.state.other", &fields, None).unwrap();
    }
}

fn move_clock(world: &World, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        world.pass_ms(3);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn work(world: &World, of: &str) -> BTreeSet<String> {
    let awaited = world.jobs.to_async().unwrap();
    let mut claimed = BTreeSet::new();
    for round in 0..ROUNDS {
        let mut tasks = Tasks::new();
        for _ in 0..4 {
            let awaited = awaited.clone();
            tasks.spawn(async move { awaited.claim_within(of, "w", None, LONG).await.unwrap() });
        }
        tasks.run_once();
        let later_ms = (world.jobs.now_us().unwrap() / 1000 + 20) * u64::from(round % 3 == 0);
        let submission = Submission::new(of, &round.to_string()).run_at_ms(later_ms);
        world.jobs.submit(&submission).unwrap();
        // Some are dropped whether they had a turn or not; the last one stays.
        if round % 2 == 0 {
            tasks.wait_for_call(0);
        }
        (0..3).for_each(|place| tasks.drop_task(place));
        let ended: Vec<Option<ClaimedJob>> = tasks.run_until(|ended| ended == 1);
        claimed.extend(ended.into_iter().flatten().map(|one| one.grant.name.to_string()));
    }
    claimed
}
