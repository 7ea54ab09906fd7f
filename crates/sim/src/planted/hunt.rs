//! Mutation testing: hunts for injected faults.

use super::list::{Check, checks_of};
use super::suite;
use crate::disk::Homes;
use crate::drill::Outcome;
use crate::effort;
use crate::{cuts, failures, flips, history, strace, world};
use mainstay::fault_points::{InjectedFault, plant};
use mainstay::{Clock, SystemClock};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The time limit of a hunting process. A timeout does not count as a find, because checks have limits
/// of their own.
const HUNT_LIMIT: Duration = Duration::from_secs(600);

/// The number of processes that hunt at once.
const HUNTERS: usize = 2;

/// The number of worlds that are simulated.
pub(super) const WORLDS: u64 = 400;

/// How often a procedure is run and cut off, because the choice of cuts is random.
const ROUNDS: u64 = 3;

/// The prefix of an error that a check found without the fault.
const NO_BUG: &str = "also without the bug:";

/// Messages of checks that could not run, which are no finds.
const OURS: [&str; 19] = [
    NO_BUG,
    "the disk in memory:",
    "an image",
    "temporary directory",
    "where am I",
    "may not trace",
    "too little failed",
    "too little was tried",
    "no trace",
    "cannot start strace",
    "the directory of a child",
    "copying what was left",
    "forgetting:",
    "looking for what was damaged",
    "this hangs",
    "nothing was recorded",
    "a child that nothing fails for",
    "backing up:",
    // Drills trim as well, and a fault may prevent it.
    "making it lean:",
];

/// How often the end of a hunt is polled.
const LOOK: Duration = Duration::from_millis(20);

/// The result of a hunt.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The injected fault.
    pub bug: InjectedFault,
    /// The check that should find it.
    pub check: Check,
    /// The finding of the check; `None` if it found nothing.
    pub found: Option<String>,
    /// The duration, including the run without the fault.
    pub took: Duration,
}

/// Injects a fault into this process and runs one of its checks, which should return an error. The same
/// check must find nothing without the fault.
pub fn hunt(bug: InjectedFault, seed: u64, nth: usize) -> Outcome<()> {
    let check = *checks_of(bug).get(nth).ok_or("it has no such check")?;
    let found = run(check, Some(bug), seed);
    if found.is_ok() {
        return Ok(());
    }
    effort::go_as_far_again();
    match run(check, None, seed) {
        Err(what) if !what.ends_with(effort::ENOUGH) => Err(format!("{NO_BUG} {what}")),
        _ => found,
    }
}

/// Runs a check with or without a fault.
fn run(check: Check, bug: Option<InjectedFault>, seed: u64) -> Outcome<()> {
    // The preparation of procedures runs without the fault. For strace only the traced children have
    // it.
    let here = bug.filter(|_| !matches!(check, Check::Procedure(_) | Check::Strace));
    plant(here);
    match check {
        Check::Cuts => cuts::run(&plan_of_cuts(seed), |_| {}).map(drop),
        Check::Procedure(procedure) => hunt_in_procedure(procedure, bug, seed),
        Check::Failures(action, fault) => {
            let only = Some((action, fault));
            let plan = failures::Plan { seed, count: Some(1000), only, jobs: 1, keep: keep() };
            failures::run(&plan, |_| {}).map(drop)
        }
        Check::Strace => strace::run(&plan_of_strace(bug, seed)?, |_| {}).map(drop),
        Check::Flips => flips::run(&flips::Plan { seed, count: Some(1000) }, |_| {}).map(drop),
        Check::Worlds => {
            let plan = world::Plan { from: seed, seeds: WORLDS, print: false };
            // Before the violation the message contains the whole trace.
            world::run(&plan, |_| {})
                .map(drop)
                .map_err(|told| told.lines().rev().nth(1).unwrap_or(&told).to_owned())
        }
        Check::Histories => history::run(&history::Plan { seed, operations: 200_000 }).map(drop),
        Check::Suite => suite::run(),
        Check::Models => Err("models run as tests of the engine".to_owned()),
    }
}

fn plan_of_cuts(seed: u64) -> cuts::Plan {
    cuts::Plan { seed, cuts: 1500, cuts_each: 60, keep: keep(), beside: false }
}

/// Returns the path where a violation is written.
fn keep() -> PathBuf {
    std::env::temp_dir().join(format!("mainstay-planted-{}.json", std::process::id()))
}

fn plan_of_strace(bug: Option<InjectedFault>, seed: u64) -> Outcome<strace::Plan> {
    let program = std::env::current_exe().map_err(|error| format!("where am I: {error}"))?;
    Ok(strace::Plan { seed, count: Some(600), program, bug: bug.map(|bug| format!("{bug:?}")) })
}

fn hunt_in_procedure(
    procedure: cuts::Procedure,
    bug: Option<InjectedFault>,
    seed: u64,
) -> Outcome<()> {
    let homes = Homes::make()?;
    let subject = cuts::Subject::make(seed, &homes)?;
    plant(bug);
    (0..ROUNDS).try_for_each(|round| {
        let cut = cuts::cut_all(procedure, &subject, &homes, (seed + round, 400));
        cut.map_err(|broken| broken.what).map(drop)
    })
}

/// Hunts for every fault except those that models find. Each hunt is a process of this program, and
/// some run at a time.
pub fn hunt_all(
    program: &Path,
    seed: u64,
    wanted: &[InjectedFault],
    say: impl Fn(&Catch) + Sync,
) -> Outcome<Vec<Catch>> {
    let all = wanted.iter().flat_map(|bug| {
        let checks = checks_of(*bug).into_iter().enumerate();
        checks.map(|(nth, check)| (*bug, nth, check))
    });
    let left = Mutex::new(all.filter(|(_, _, check)| *check != Check::Models));
    let catches = Mutex::new(Vec::new());
    let hunter = || -> Outcome<()> {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((bug, nth, check)) = next else { return Ok(()) };
            let clock = SystemClock::new();
            let found = hunt_apart(program, bug, nth, seed)?;
            let took = Duration::from_micros(clock.monotonic_us());
            let catch = Catch { bug, check, found, took };
            say(&catch);
            catches.lock().unwrap_or_else(PoisonError::into_inner).push(catch);
        }
    };
    thread::scope(|scope| {
        let hunters: Vec<_> = (0..HUNTERS).map(|_| scope.spawn(hunter)).collect();
        let ended =
            hunters.into_iter().map(|hunter| hunter.join().map_err(|_| "a hunter panicked")?);
        ended.collect::<Outcome<()>>()
    })?;
    Ok(catches.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn hunt_apart(
    program: &Path,
    bug: InjectedFault,
    nth: usize,
    seed: u64,
) -> Outcome<Option<String>> {
    let told = |error: std::io::Error| format!("hunting for {bug:?}: {error}");
    let mut command = Command::new(program);
    command.args(["hunt", &format!("{bug:?}"), "--seed", &seed.to_string()]);
    command.args(["--nth", &nth.to_string()]);
    let said = tempfile::NamedTempFile::new().map_err(told)?;
    let out = said.reopen().map_err(told)?;
    let mut child =
        command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn().map_err(told)?;
    let mut waited = Duration::ZERO;
    let ended = loop {
        match child.try_wait().map_err(told)? {
            Some(status) => break Some(status),
            None if waited >= HUNT_LIMIT => break None,
            None => thread::sleep(LOOK),
        }
        waited += LOOK;
    };
    let Some(status) = ended else {
        // Killed if possible, without waiting for its end.
        let _ = child.kill();
        return Ok(None);
    };
    let said = std::fs::read_to_string(said.path()).map_err(told)?;
    let violation = said.lines().find_map(|line| line.strip_prefix("VIOLATION: "));
    match (status.success(), violation) {
        (true, _) => Ok(None),
        (false, Some(what)) if OURS.iter().any(|ours| what.contains(ours)) => {
            Err(format!("hunting for {bug:?}: {what}"))
        }
        (false, Some(what)) => Ok(Some(what.to_owned())),
        // A panic or a signal, of unknown cause.
        (false, None) => Err(format!("hunting for {bug:?}: the process ended: {status}")),
    }
}
