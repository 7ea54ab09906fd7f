//! A soak: hours of work in minutes, at four fifths of what is possible; nothing may grow.
//!
//! ```text
//!   hands, on all contracts ─┐
//!   forks, merges, tags ─────┤──> database on disk: flush, compaction, retention, trims, sweeps all the time
//!   a reader of the feed ────┘        │
//!                                     │ each second: memory, descriptors, disk, latencies, backlog
//!                                     v
//!   samples ──> verdict (second quarter beside the last one) ──> picture
//!                                     │
//!                closed, looked at by the doctor, opened again: everything that was told is there
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

/// How many operations are under way at once, at most.
const HANDS: u64 = 16;
/// The share of the peak that is asked for.
const LOAD_PERCENT: u64 = 80;
/// How long it warms up, and how long the peak is measured, at most.
const MEASURE_LIMIT_SECONDS: u64 = 20;
/// Afterwards everything that expires is over.
const ALL_OVER: Duration = Duration::from_secs(4);

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What all choices come from.
    pub seed: u64,
    /// How long the load lasts; the peak is measured before that.
    pub seconds: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Operations a second that were possible.
    pub peak: u64,
    /// Operations a second that were asked for.
    pub target: u64,
    /// A sample for each second.
    pub samples: Vec<Sample>,
    /// Operations that were left out because they were too late.
    pub shed: u64,
    /// Branches that were made, and those of them that were merged.
    pub branches: (u64, u64),
    /// Changes that the feed told of, and how often its reader was too slow.
    pub followed: (u64, u64),
    /// Both quarters, side by side.
    pub figures: Vec<Figure>,
}

/// What is told on the way.
pub enum News<'a> {
    /// The peak and the load were settled, in operations a second.
    Peak(u64, u64),
    /// A second is over.
    Second(&'a Sample),
}

/// Soaks a new database; what is wrong with its data is an error, what is not flat stands in the report.
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

/// The load, and what goes on beside it.
fn load(
    plan: &Plan,
    db: &Database,
    directory: &Path,
    hands: &mut [Hand],
    tell: &mut dyn FnMut(&News<'_>),
) -> Outcome<(Report, Forks)> {
    let (clock, latencies) = (SystemClock::new(), Histogram::new());
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

/// Closed, healthy, opened again, and everything that was told is there.
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
