//! A workflow of three steps whose workers crash, and a second attempt from the middle on a fork.
//!
//! ```text
//!   main:  RunStarted, reserve, charge started ─┬─ charge failed, RunFailed
//!                                               │
//!   fixed:                                      └─ charge completed with another card, ship, RunCompleted
//! ```
//!
//! A worker crashes after each of its writes, the database is reopened each time, and the next worker
//! restarts from the beginning with the same idempotency keys. Every event is appended once, every step takes
//! effect once, and every message is sent. Then the run is forked at the event before the failure and
//! finished on the fork. `main` does not change.
//!
//! Run it with `cargo run --example workflow`.

use mainstay::{
    Branch, CanonicalEvent, Database, ManualClock, NewEvent, Options, Result, RunSnapshot,
    RunStatus, StepStatus,
};
use mainstay_runs::relay::{MemoryTransport, Relay, RelaySettings};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const RUN: &str = "order-7";
const STEPS: [&str; 3] = ["reserve", "charge", "ship"];
/// The version of the plan. The same step of the same plan always has the same idempotency key.
const PLAN: &str = "3";
/// 2026-11-15, 09:00. A manual clock makes the output reproducible.
const BEGIN_US: u64 = 1_794_733_200_000_000;

/// A worker that crashes after this many writes.
struct Worker<'d> {
    branch: &'d Branch,
    clock: &'d ManualClock,
    card: &'d str,
    writes_left: u32,
}

/// The end of a worker.
#[derive(PartialEq, Eq)]
enum WorkerEnd {
    Crashed,
    Finished,
}

/// Runs the example. A test calls it too.
pub fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let clock = ManualClock::new(BEGIN_US);
    let crashes = work_until_finished(directory.path(), &clock)?;
    let db = open(directory.path(), &clock)?;
    println!("The worker crashed {crashes} times, and the database was opened anew each time.\n");

    let before = show("main", &db.branch("main")?)?;
    assert_eq!(before.1.status, RunStatus::Failed);
    once_each(&db, &before.0)?;
    deliver(&db)?;

    let fork = fork_before_failure(&db, &before.0)?;
    let worker = Worker { branch: &fork, clock: &clock, card: "the other card", writes_left: 99 };
    assert!(worker.run()? == WorkerEnd::Finished, "it has more writes than it needs");
    let fixed = show("fixed", &fork)?;
    assert_eq!(fixed.1.status, RunStatus::Completed);
    assert!(fixed.1.steps.values().all(|step| step.status == StepStatus::Success));

    let after = read(&db.branch("main")?)?;
    assert_eq!((&after.0, after.1.hash()), (&before.0, before.1.hash()), "main is untouched");
    println!("main still has its {} events and is {:?}.", after.0.len(), after.1.status);
    Ok(())
}

fn open(path: &Path, clock: &Arc<ManualClock>) -> Result<Database> {
    Options::new().clock(clock.clone()).open(path)
}

/// The first worker crashes after its first write, the next one after its second, and so on.
fn work_until_finished(path: &Path, clock: &Arc<ManualClock>) -> Result<u32> {
    for writes_left in 1.. {
        let db = open(path, clock)?;
        let branch = db.branch("main")?;
        let end = Worker { branch: &branch, clock, card: "an old card", writes_left }.run()?;
        db.close()?;
        if end == WorkerEnd::Finished {
            return Ok(writes_left - 1);
        }
    }
    unreachable!("every worker comes further than the one before it")
}

impl Worker<'_> {
    /// Does the whole run from its beginning. Work done before is found by its keys and not repeated.
    fn run(mut self) -> Result<WorkerEnd> {
        if !self.tell(NewEvent::new(RUN, "RunStarted").plan(PLAN))? {
            return Ok(WorkerEnd::Crashed);
        }
        for step in STEPS {
            if !self.tell(event("StepStarted", step))? {
                return Ok(WorkerEnd::Crashed);
            }
            if let Some(failure) = self.failure_of(step) {
                let failed = self.tell(event("StepFailed", step).value(failure))?;
                return self.finish(failed, "RunFailed");
            }
            // A retried event must have the same content. Only the failed step is repeated with another card.
            let done = match step {
                "charge" => self.card,
                _ => "as planned",
            };
            if !self.tell(event("StepCompleted", step).value(done))? {
                return Ok(WorkerEnd::Crashed);
            }
        }
        self.finish(true, "RunCompleted")
    }

    fn finish(&mut self, is_alive: bool, how: &str) -> Result<WorkerEnd> {
        let told = is_alive && self.tell(NewEvent::new(RUN, how).plan(PLAN))?;
        Ok(if told { WorkerEnd::Finished } else { WorkerEnd::Crashed })
    }

    fn failure_of(&self, step: &str) -> Option<&'static str> {
        (step == "charge" && self.card == "an old card").then_some("the card has expired")
    }

    /// Writes an event, the step's effect and a message about it in one transaction. Returns whether the
    /// worker is still alive afterwards.
    fn tell(&mut self, event: NewEvent) -> Result<bool> {
        self.clock.advance(Duration::from_secs(1));
        self.branch.transaction(|t| {
            let appended = t.append(event.clone())?;
            assert!(!appended.conflict, "an event that is told again says the same");
            // A retry: the work was done before.
            if appended.persisted {
                let what =
                    format!("{} {}", event.event_type, event.step_id.as_deref().unwrap_or(RUN));
                t.incr(&format!("done/{what}"), 1)?;
                t.put_message("orders", what, Some(RUN))?;
            }
            Ok(())
        })?;
        self.writes_left -= 1;
        Ok(self.writes_left > 0)
    }
}

fn event(kind: &str, step: &str) -> NewEvent {
    NewEvent::new(RUN, kind).step(step).plan(PLAN)
}

fn read(branch: &Branch) -> Result<(Vec<CanonicalEvent>, RunSnapshot)> {
    let snapshot = branch.runs().snapshot(RUN)?.expect("the run is there");
    let projected = branch.runs().project(RUN)?.expect("the run is there");
    assert_eq!(snapshot.hash(), projected.hash(), "what is kept is what the log says");
    Ok((branch.runs().fetch(RUN, 0, 1_000)?, snapshot))
}

/// Shows the run's timeline and its snapshot.
fn show(name: &str, branch: &Branch) -> Result<(Vec<CanonicalEvent>, RunSnapshot)> {
    let (events, snapshot) = read(branch)?;
    println!("Run {RUN} on branch {name}:");
    for event in &events {
        let time = event.emitted_at.as_str().get(11..19).unwrap_or_default();
        let step = event.step_id.as_deref().unwrap_or("");
        let data = event.event_data.as_str().unwrap_or("");
        println!("  {:>2}  {time}  {:<14} {step:<8} {data}", event.run_seq, event.event_type);
    }
    println!("  is {:?} behind event {}:", snapshot.status, snapshot.last_event_seq);
    for (step, known) in &snapshot.steps {
        println!("    {step:<8} {:?}", known.status);
    }
    println!("  hash {}\n", &snapshot.hash()[..16]);
    Ok((events, snapshot))
}

/// Checks that every event exists once and took effect once, however often it was retried.
fn once_each(db: &Database, events: &[CanonicalEvent]) -> Result<()> {
    for (place, event) in events.iter().enumerate() {
        assert_eq!(event.run_seq, place as u64 + 1, "sequences have no gaps");
        let what = format!("{} {}", event.event_type, event.step_id.as_deref().unwrap_or(RUN));
        assert_eq!(
            db.cells().get(&format!("done/{what}"))?,
            Some(1.into()),
            "{what} was done once"
        );
    }
    Ok(())
}

/// Sends the messages that were written with the events.
fn deliver(db: &Database) -> Result<()> {
    let waiting = db.outbox().state()?.pending;
    let transport = MemoryTransport::new();
    let relay = Relay::new(db, transport.clone(), RelaySettings::default())?.start()?;
    let messages = transport.wait_for(usize::try_from(waiting).unwrap_or(usize::MAX));
    let stats = relay.stop();
    assert_eq!((stats.delivered, db.outbox().state()?.pending), (waiting, 0));
    assert!(messages.is_sorted_by_key(|message| message.id), "messages of a run keep their order");
    println!("The relay sent {} messages of the outbox, in order:", messages.len());
    for message in &messages {
        println!(
            "  {:>2}  {}: {}",
            message.id,
            message.subject,
            String::from_utf8_lossy(&message.payload)
        );
    }
    println!();
    Ok(())
}

/// Forks a branch at the event before the failure.
fn fork_before_failure(db: &Database, events: &[CanonicalEvent]) -> Result<Branch> {
    let failed = events.iter().find(|event| event.event_type == "StepFailed").expect("it failed");
    let before = failed.run_seq - 1;
    db.fork_at_event("fixed", "main", RUN, before)?;
    println!(
        "Forked at event {before}, before the failure. The worker goes on there with another card.\n"
    );
    let fork = db.branch("fixed")?;
    assert_eq!(fork.outbox().state()?.pending, 0, "what was inherited is sent on main alone");
    Ok(fork)
}
