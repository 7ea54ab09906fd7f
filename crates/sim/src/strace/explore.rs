//! Failures at the calls that an undisturbed child makes.

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

/// No case needs so long; the child has a shorter limit of its own.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What all choices come from, but for the order in which threads run.
    pub seed: u64,
    /// How many failures; nothing: one at every call, in every way.
    pub count: Option<u64>,
    /// The program that is the child when it is called with `traced`.
    pub program: PathBuf,
    /// The bug that children have on purpose.
    pub bug: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cases that there are to be run.
    pub planned: u64,
    /// Cases that were run.
    pub cases: u64,
    /// Those in which the failure came to pass.
    pub met: u64,
    /// Calls that failed, by kind.
    pub calls: BTreeMap<Call, u64>,
    /// By how they failed.
    pub errors: BTreeMap<Errno, u64>,
    /// Which files they were on, without their numbers.
    pub places: BTreeSet<String>,
    /// Children that failed before they came to their database.
    pub astray: u64,
    /// How often opening was refused.
    pub refused: u64,
    /// How often writing was refused until it was opened again.
    pub latched: u64,
    /// How many bytes were forgotten because a sync of them failed.
    pub forgotten_bytes: u64,
    /// Acknowledged writes that were looked for.
    pub acknowledged: u64,
}

/// Runs the plan; the error says what was violated.
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
    // Where nothing was met nothing was shown.
    match tally.met > 0 && tally.acknowledged > 0 {
        true => Ok(tally),
        false => Err(format!("too little failed, or nothing was looked for: {tally:?}")),
    }
}

impl Tally {
    /// Counts what a child has met.
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
