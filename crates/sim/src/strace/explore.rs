//! Injects failures into the calls that an undisturbed child makes.

use super::call::{Call, Errno};
use super::case::Case;
use super::trace::Event;
use super::tracer::{Life, is_ours};
use super::ward::Ward;
use crate::drill::Outcome;
use crate::effort;
use crate::watchdog::Watchdog;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time limit of a case; the child has a shorter limit of its own.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all choices except the order of threads.
    pub seed: u64,
    /// The number of failures; `None` injects one at every call, in every way.
    pub count: Option<u64>,
    /// The program, which runs as the child when it is called with `traced`.
    pub program: PathBuf,
    /// The fault that is injected into the children's database.
    pub bug: Option<String>,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The number of planned cases.
    pub planned: u64,
    /// The number of finished cases.
    pub cases: u64,
    /// The number of cases in which the failure occurred.
    pub met: u64,
    /// The number of failed calls by kind.
    pub calls: BTreeMap<Call, u64>,
    /// The number of failed calls by error.
    pub errors: BTreeMap<Errno, u64>,
    /// The files that failed, without their numbers.
    pub places: BTreeSet<String>,
    /// The number of children that failed before they reached their database.
    pub astray: u64,
    /// How often opening was refused.
    pub refused: u64,
    /// How often writes were refused until the database was reopened.
    pub latched: u64,
    /// The number of bytes that were dropped because their sync failed.
    pub forgotten_bytes: u64,
    /// The number of acknowledged writes that were checked.
    pub acknowledged: u64,
}

/// Runs the plan. Returns an error that describes a violation.
pub fn run(plan: &Plan, mut say: impl FnMut(&Tally)) -> Outcome<Tally> {
    let mut ward = Ward::make(plan)?;
    let dog = Watchdog::new(CASE_LIMIT);
    let cases = ward.cases()?;
    let mut tally = Tally { planned: cases.len() as u64, ..Tally::default() };
    for case in cases {
        effort::step()?;
        dog.watch(format!("seed {}: {case}", plan.seed));
        let done = ward.suffer(case, &mut tally);
        done.map_err(|what| ward.keep(&format!("seed {}: {case}: {what}", plan.seed)))?;
        if tally.cases.is_multiple_of(50) {
            say(&tally);
        }
    }
    // A run without failures proves nothing.
    if tally.met > 0 && tally.acknowledged > 0 {
        Ok(tally)
    } else {
        Err(format!("too little failed, or nothing was looked for: {tally:?}"))
    }
}

impl Tally {
    /// Counts the failures of a child.
    pub(super) fn count(&mut self, case: Case, life: &Life, directory: &Path) {
        self.cases += 1;
        self.astray += u64::from(!life.begun);
        self.refused += u64::from(life.refused.is_some());
        self.latched += u64::from(life.latched);
        let hits = || life.hits().filter(|event| is_ours(event, directory));
        self.met += u64::from(hits().next().is_some());
        *self.calls.entry(case.call).or_default() += hits().count() as u64;
        *self.errors.entry(case.error).or_default() += hits().count() as u64;
        let numbers = |c: char| c.is_ascii_digit();
        let place = |event: &Event| {
            let path = event.path.strip_prefix(directory).unwrap_or(Path::new(".."));
            format!("{} of {}", event.call, path.display()).replace(numbers, "#")
        };
        self.places.extend(hits().map(place));
    }
}
