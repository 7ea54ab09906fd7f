//! Job queue example: workers crash at random, and every job finishes exactly once.
//!
//! ```text
//!   submitter --> jobs <--claim, step, complete-- 8 workers, each of which crashes at random
//!                  ^
//!                  '--retries the jobs of crashed workers-- sweeper
//! ```
//!
//! A crashed worker forgets its grant. Sometimes it was only slow: then it resumes, tries to write and is
//! fenced. Run it with `cargo run -p mainstay-jobs --example jobs [jobs]`.

use mainstay::{
    CellCommand, Clock, Code, Database, Durability, Name, Options, Result, SystemClock,
};
use mainstay_jobs::{ClaimedJob, Grant, Jobs, Settings, State, Submission, Sweeper};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const WORKERS: usize = 8;
const LEASE: Duration = Duration::from_millis(50);
const STEPS: u64 = 3;

#[derive(Default)]
struct Tally {
    crashes: AtomicU64,
    fenced: AtomicU64,
    /// Grants of crashed workers, which some worker later resumes with.
    lost: Mutex<Vec<Grant>>,
}

fn main() -> Result<()> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(500);
    let db = Options::new().durability(Durability::Interval).memory()?;
    let jobs = Jobs::open(&db, Settings { max_retries: u32::MAX, ..Settings::default() })?;
    submit(&jobs, count)?;
    let sweeper = Sweeper::start(&jobs, Duration::from_millis(20))?;
    let tally = Tally::default();
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let jobs = &jobs;
            let tally = &tally;
            scope.spawn(move || work(jobs, worker, count, tally));
        }
    });
    let swept = sweeper.stop().total;
    report(&db, &jobs, count, &tally)?;
    println!("the sweeper gave back {} and failed {}", swept.retried, swept.failed);
    Ok(())
}

/// Every tenth job depends on the one before it.
fn submit(jobs: &Jobs, count: u64) -> Result<()> {
    for n in 0..count {
        let mut job = Submission::new("email", &format!("job_{n}")).params(format!("letter {n}"));
        if n % 10 == 9 {
            job = job.depends_on(&format!("job_{}", n - 1));
        }
        jobs.submit(&job.priority(i32::from(n % 7 == 0)))?;
    }
    Ok(())
}

fn work(jobs: &Jobs, worker: usize, count: u64, tally: &Tally) {
    let mut chance = Chance(SystemClock::new().wall_us() ^ (worker as u64) << 48 | 1);
    while jobs.count("email", State::Completed).is_ok_and(|done| done < count) {
        let claimed = jobs.claim_within("email", &format!("worker {worker}"), Some(LEASE), LEASE);
        match claimed {
            Ok(Some(claimed)) => run(jobs, &claimed, &mut chance, tally),
            Ok(None) => come_back(jobs, tally),
            Err(error) => panic!("a claim failed: {error}"),
        }
    }
}

/// Executes the steps of a job, unless the worker crashes.
fn run(jobs: &Jobs, claimed: &ClaimedJob, chance: &mut Chance, tally: &Tally) {
    for step in 1..=STEPS {
        if chance.is_one_in(15) {
            tally.crashes.fetch_add(1, Ordering::Relaxed);
            return tally.lost.lock().expect("nobody panics with it").push(claimed.grant.clone());
        }
        if !went_well(jobs.step(&claimed.grant, step, Some(STEPS)), tally) {
            return;
        }
    }
    finish(jobs, &claimed.grant, tally);
}

/// A worker that was only slow writes with its old grant.
fn come_back(jobs: &Jobs, tally: &Tally) {
    let lost = tally.lost.lock().expect("nobody panics with it").pop();
    if let Some(grant) = lost {
        finish(jobs, &grant, tally);
    }
}

/// Completes the job and counts its letter in one transaction.
fn finish(jobs: &Jobs, grant: &Grant, tally: &Tally) {
    let letter = Name::new(&format!("sent/{}", grant.name.id())).expect("a short name");
    let event = CellCommand::Incr { name: letter, by: 1.into() };
    went_well(jobs.with_commands([event.into()]).complete(grant, Some(b"sent")), tally);
}

/// Returns false if the worker lost its job, so that it stops working on it.
fn went_well(result: Result<State>, tally: &Tally) -> bool {
    match result {
        Ok(_) => true,
        Err(error) if error.code() == Code::Fenced => {
            tally.fenced.fetch_add(1, Ordering::Relaxed);
            false
        }
        Err(error) => panic!("a write failed: {error}"),
    }
}

fn report(db: &Database, jobs: &Jobs, count: u64, tally: &Tally) -> Result<()> {
    for n in 0..count {
        let sent = db.cells().get(&format!("sent/job_{n}"))?;
        assert_eq!(sent, Some(1.into()), "letter {n} was sent once");
    }
    assert_eq!(jobs.count("email", State::Completed)?, count);
    println!("{count} jobs finished exactly once by {WORKERS} workers");
    let crashes = &tally.crashes;
    let fenced = &tally.fenced;
    println!("they crashed {} times", crashes.load(Ordering::Relaxed));
    println!("{} writes of those who came back were fenced", fenced.load(Ordering::Relaxed));
    Ok(())
}

/// Pseudo-random numbers (xorshift).
struct Chance(u64);

impl Chance {
    fn is_one_in(&mut self, many: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.is_multiple_of(many)
    }
}
