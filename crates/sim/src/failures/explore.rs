//! Injects a failure at each call in turn.

use super::case::{Case, Patient, Shown};
use crate::cuts::{Recording, Start};
use crate::disk::{Action, Fault, Homes};
use crate::drill::{Outcome, Work, options};
use crate::effort;
use crate::watchdog::Watchdog;
use mainstay_conformance::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The time limit of a case.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all choices except the order of threads.
    pub seed: u64,
    /// The number of failures; `None` injects one at every call, in every way.
    pub count: Option<u64>,
    /// One kind of call and one way to fail, lasting; `None` means all.
    pub only: Option<(Action, Fault)>,
    /// The number of cases that run in parallel.
    pub jobs: usize,
    /// The file that a violation is written to.
    pub keep: PathBuf,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The number of planned cases.
    pub planned: u64,
    /// The number of finished cases.
    pub cases: u64,
    /// The number of cases in which the failure occurred.
    pub hits: u64,
    /// The number of failures by kind of call.
    pub actions: BTreeMap<Action, u64>,
    /// The files that failed, without their numbers.
    pub places: BTreeSet<String>,
    /// How often opening was refused while the disk failed.
    pub refused: u64,
    /// How often writes were refused until the database was reopened.
    pub latched: u64,
    /// The number of acknowledged writes that were checked.
    pub acknowledged: u64,
}

/// Runs the plan. Returns an error that describes a violation.
pub fn run(plan: &Plan, say: impl FnMut(&Tally) + Send) -> Outcome<Tally> {
    let homes = Homes::make()?;
    let patient = patient(plan, &homes)?;
    let cases = cases(&patient, plan, &homes)?;
    let tally = Tally { planned: cases.len() as u64, ..Tally::default() };
    let round = Mutex::new(Round { left: cases.into_iter(), tally, say });
    let jobs = plan.jobs.max(1);
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..jobs).map(|_| scope.spawn(|| suffer_all(plan, &patient, &round))).collect();
        let ended = workers.into_iter().map(|worker| worker.join().map_err(|_| "a panic")?);
        ended.collect::<Outcome<()>>()
    })?;
    let tally = round.into_inner().unwrap_or_else(PoisonError::into_inner).tally;
    // Thread scheduling varies, so some calls are not made. If too few failures occurred, the run
    // proves little.
    if tally.hits * 2 >= tally.cases && tally.acknowledged > 0 {
        Ok(tally)
    } else {
        Err(format!("too little failed, or nothing was looked for: {tally:?}"))
    }
}

/// The remaining cases, and the results of the finished ones.
struct Round<S> {
    left: std::vec::IntoIter<Case>,
    tally: Tally,
    say: S,
}

/// Runs cases one after the other until none is left or one finds a violation.
fn suffer_all<S: FnMut(&Tally)>(
    plan: &Plan,
    patient: &Patient,
    round: &Mutex<Round<S>>,
) -> Outcome<()> {
    let round = || round.lock().unwrap_or_else(PoisonError::into_inner);
    let homes = Homes::make()?;
    let dog = Watchdog::new(CASE_LIMIT);
    loop {
        let Some(case) = round().left.next() else { return Ok(()) };
        effort::step()?;
        dog.watch(format!("seed {}: {case}", plan.seed));
        let shown = patient.suffer(case, plan.seed, &homes).map_err(|what| {
            round().left = Vec::new().into_iter();
            format!("seed {}: {case}: {what}", plan.seed)
        })?;
        let Round { tally, say, .. } = &mut *round();
        tally.count(case, &shown);
        if tally.cases.is_multiple_of(50) {
            say(tally);
        }
    }
}

/// Returns a database that two processes have written to.
fn patient(plan: &Plan, homes: &Homes) -> Outcome<Patient> {
    let seed = plan.seed;
    let mut start = Start::default();
    // Half of the databases keep only the log that they need, so that a damaged index cannot be
    // rebuilt.
    let options = match seed % 2 {
        0 => options(),
        _ => options().feed_retention(Duration::ZERO, 0),
    };
    for generation in 1..=2 {
        let work = Work { seed, generation, writers: 4, operations: 40, faulty: false };
        start = Recording::make(start, work, options.clone(), &homes.mounted)?.after_all();
    }
    Ok(Patient { image: start.base, said: start.before, options, keep: plan.keep.clone() })
}

/// Returns all possible cases: one per call that an undisturbed process makes, in each way.
fn cases(patient: &Patient, plan: &Plan, homes: &Homes) -> Outcome<Vec<Case>> {
    let never = Case { action: Action::Make, n: u64::MAX / 2, many: 1, fault: Fault::Io };
    let Shown { calls, .. } = patient.suffer(never, plan.seed, homes)?;
    let mut all = Vec::new();
    for (action, count) in calls {
        for fault in faults(action) {
            let each = (0..count).flat_map(|n| [1, u64::MAX].map(|many| (n, many)));
            all.extend(each.map(|(n, many)| Case { action, n, many, fault: *fault }));
        }
    }
    if let Some(only) = plan.only {
        all.retain(|case| (case.action, case.fault) == only && case.many > 1);
    }
    if let Some(count) = plan.count {
        all = some(all, count, &mut Random::of(&[plan.seed]));
    }
    Ok(all)
}

/// Returns `count` cases, evenly distributed over the kinds of calls as far as possible.
fn some(all: Vec<Case>, count: u64, random: &mut Random) -> Vec<Case> {
    let mut kinds: BTreeMap<(Action, Fault), Vec<Case>> = BTreeMap::new();
    all.into_iter().for_each(|case| kinds.entry((case.action, case.fault)).or_default().push(case));
    let mut chosen = Vec::new();
    while (chosen.len() as u64) < count && !kinds.is_empty() {
        for cases in kinds.values_mut().take((count as usize) - chosen.len()) {
            chosen.push(cases.swap_remove(random.below(cases.len() as u64) as usize));
        }
        kinds.retain(|_, cases| !cases.is_empty());
    }
    chosen
}

/// Returns the ways in which a call can fail.
fn faults(action: Action) -> &'static [Fault] {
    match action {
        Action::Make => &[Fault::Io, Fault::Full],
        Action::Read | Action::Remove => &[Fault::Io],
        Action::Write => &[Fault::Io, Fault::Full, Fault::Short, Fault::Half, Fault::After],
        Action::Sync => &[Fault::Io, Fault::Half, Fault::After],
        Action::Rename => &[Fault::Io, Fault::Full, Fault::Half, Fault::After],
        Action::SyncDir => &[Fault::Io, Fault::After],
    }
}

impl Tally {
    fn count(&mut self, case: Case, shown: &Shown) {
        self.cases += 1;
        *self.actions.entry(case.action).or_default() += 1;
        self.hits += u64::from(shown.hit.is_some());
        self.refused += u64::from(shown.refused);
        self.latched += u64::from(shown.latched);
        self.acknowledged += shown.acknowledged;
        let numbers = |c: char| c.is_ascii_digit();
        self.places.extend(shown.hit.as_ref().map(|hit| hit.replace(numbers, "#")));
    }
}
