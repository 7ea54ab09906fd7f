//! Soak testing: sustained load at four fifths of the peak; no resource may grow.
//!
//! ```text
//!   workers, on all contracts ──┐
//!   forks, merges, tags ────────┤──> database on disk: flush, compaction, retention, trims, sweeps all the time
//!   a reader of the feed ───────┘        │
//!                                        │ each second: memory, descriptors, disk, latencies, backlog
//!                                        v
//!   samples ──> verdict (second quarter beside the last one) ──> picture
//!                                        │
//!                   closed, checked by the doctor, opened again: every acknowledged write is present
//! ```

mod follower;
mod forks;
mod histogram;
mod load;
mod pace;
mod picture;
mod sample;
mod verdict;
mod work;

pub(crate) use histogram::Histogram;
pub use histogram::Latencies;
pub use picture::draw;
pub use sample::Sample;
pub use verdict::{Figure, Verdict, judge};

use crate::drill::Outcome;
use follower::Follower;
use forks::Forks;
use load::Load;
use mainstay::{Database, SystemClock, doctor};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use work::Hand;

/// The number of workers, each with one operation in flight at most.
const HANDS: u64 = 16;
/// The share of the peak that the load uses, in percent.
const LOAD_PERCENT: u64 = 80;
/// The most seconds of the warm-up, and of the peak measurement.
const MEASURE_LIMIT_SECONDS: u64 = 20;
/// After this pause everything that expires has expired.
const ALL_OVER: Duration = Duration::from_secs(4);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all choices.
    pub seed: u64,
    /// The duration of the load in seconds. The peak is measured before it.
    pub seconds: u64,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The peak, in operations per second.
    pub peak: u64,
    /// The scheduled load, in operations per second.
    pub target: u64,
    /// One sample per second.
    pub samples: Vec<Sample>,
    /// The number of operations that were skipped because they were too late.
    pub shed: u64,
    /// The number of branches created, and of branches merged.
    pub branches: (u64, u64),
    /// The number of changes that the feed delivered, and how often its reader was too slow.
    pub followed: (u64, u64),
    /// The comparison of both quarters.
    pub figures: Vec<Figure>,
}

/// A progress report.
pub enum News<'a> {
    /// The peak and the load, in operations per second.
    Peak(u64, u64),
    /// The sample of a second.
    Second(&'a Sample),
}

/// Runs a soak on a new database. Wrong data is an error; growth is part of the report.
pub fn run(plan: &Plan, mut tell: impl FnMut(&News<'_>)) -> Outcome<Report> {
    let told = |error: mainstay::Error| format!("preparing: {error}");
    let home = tempfile::tempdir().map_err(|error| format!("a directory: {error}"))?;
    let db = work::options().open(home.path()).map_err(told)?;
    work::prepare(&db).map_err(told)?;
    let hands = (0..HANDS).map(|number| Hand::new(&db, plan.seed, number, HANDS));
    let mut hands: Vec<Hand> = hands.collect::<mainstay::Result<_>>().map_err(told)?;
    let (report, forks) = load(plan, &db, home.path(), &mut hands, &mut tell)?;
    check(db, home.path(), &hands, &forks)?;
    Ok(report)
}

/// Runs the load with the branch load and the feed consumer beside it.
fn load(
    plan: &Plan,
    db: &Database,
    directory: &Path,
    hands: &mut [Hand],
    tell: &mut dyn FnMut(&News<'_>),
) -> Outcome<(Report, Forks)> {
    let clock = SystemClock::new();
    let latencies = Histogram::new();
    let load = Load { clock, directory, latencies, over: AtomicBool::new(false) };
    let give_up = |_: &String| load.over.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        let forks = scope.spawn(|| forks::run(db, plan.seed, &load.over).inspect_err(give_up));
        let follower = scope.spawn(|| follower::run(db, &load.over).inspect_err(give_up));
        let report = soak(plan, &load, hands, tell);
        load.over.store(true, Ordering::Relaxed);
        let forks: Forks = joined(forks.join())?;
        let follower: Follower = joined(follower.join())?;
        let report = Report {
            branches: (forks.made, forks.merged),
            followed: (follower.seen, follower.lagged),
            ..report?
        };
        Ok((report, forks))
    })
}

fn joined<T>(ended: thread::Result<Outcome<T>>) -> Outcome<T> {
    ended.unwrap_or_else(|_| Err("a thread panicked".to_owned()))
}

fn soak(
    plan: &Plan,
    load: &Load<'_>,
    hands: &mut [Hand],
    tell: &mut dyn FnMut(&News<'_>),
) -> Outcome<Report> {
    let measured = Duration::from_secs((plan.seconds / 5).clamp(1, MEASURE_LIMIT_SECONDS));
    let peak = load.peak(hands, measured, measured)?;
    let target = peak * LOAD_PERCENT / 100;
    tell(&News::Peak(peak, target));
    let mut tell = |sample: &Sample| tell(&News::Second(sample));
    let (samples, shed) = load.open(hands, (plan.seconds, target), &mut tell)?;
    let figures = judge(&samples);
    Ok(Report { peak, target, samples, shed, figures, ..Report::default() })
}

/// Closes the database, checks it with the doctor, opens it again, and checks that every acknowledged
/// write is present.
fn check(db: Database, directory: &Path, hands: &[Hand], forks: &Forks) -> Outcome<()> {
    let failure = db.stats().last_failure;
    failure.map_or(Ok(()), |failure| Err(format!("in the background: {failure}")))?;
    db.close().map_err(|error| format!("closing: {error}"))?;
    drop(db);
    let found = doctor::inspect(directory).map_err(|error| format!("the doctor: {error}"))?;
    if !found.is_healthy() {
        return Err(format!("the doctor found: {found}"));
    }
    thread::sleep(ALL_OVER);
    let db = work::options().open(directory).map_err(|error| format!("opening again: {error}"))?;
    work::check(&db, hands)?;
    forks.check(&db)
}
