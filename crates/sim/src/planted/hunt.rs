//! Looking for bugs that were planted.

use super::list::{Check, check_of, checks_of};
use super::suite;
use crate::disk::Homes;
use crate::drill::Outcome;
use crate::{cuts, failures, flips, history, strace};
use mainstay::planted::{Bug, plant};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A process that hunts may take so long; what hangs is not found by that: checks have their own limits.
const HUNT_LIMIT: Duration = Duration::from_secs(240);

/// So many processes hunt at once.
const HUNTERS: usize = 2;

/// What checks say when they could not be made: that is no find.
const OURS: [&str; 5] =
    ["the disk in memory:", "an image", "no temporary directory", "where am I", "may not trace"];

/// How often it is looked whether a hunt is over.
const LOOK: Duration = Duration::from_millis(20);

/// What came of a hunt.
#[derive(Clone, Debug)]
pub struct Catch {
    /// The bug.
    pub bug: Bug,
    /// The check that was meant for it.
    pub check: Check,
    /// What the check said; nothing: it found nothing.
    pub found: Option<String>,
}

/// Plants a bug in this process and runs its check, or strace: an error is what is wanted.
pub fn hunt(bug: Bug, seed: u64, by_strace: bool) -> Outcome<()> {
    // What a check needs is made before.
    match if by_strace { Check::Strace } else { check_of(bug) } {
        Check::Cuts => {
            plant(Some(bug));
            cuts::run(&plan_of_cuts(seed), |_| {}).map(drop)
        }
        Check::Procedure(procedure) => hunt_in_procedure(procedure, bug, seed),
        Check::Failures => {
            plant(Some(bug));
            let keep = keep();
            failures::run(&failures::Plan { seed, count: Some(1000), keep }, |_| {}).map(drop)
        }
        // Its children have the bug, and this process has not.
        Check::Strace => strace::run(&plan_of_strace(bug, seed)?, |_| {}).map(drop),
        Check::Flips => {
            plant(Some(bug));
            flips::run(&flips::Plan { seed, count: Some(1000) }, |_| {}).map(drop)
        }
        Check::Histories => {
            plant(Some(bug));
            history::run(&history::Plan { seed, operations: 200_000 }).map(drop)
        }
        Check::Suite => {
            plant(Some(bug));
            suite::run()
        }
        Check::Models => Err("models run as tests of the engine".to_owned()),
    }
}

fn plan_of_cuts(seed: u64) -> cuts::Plan {
    cuts::Plan { seed, cuts: 1500, cuts_each: 60, keep: keep(), beside: false }
}

/// Where what was found is kept.
fn keep() -> PathBuf {
    std::env::temp_dir().join(format!("mainstay-planted-{}.json", std::process::id()))
}

fn plan_of_strace(bug: Bug, seed: u64) -> Outcome<strace::Plan> {
    let program = std::env::current_exe().map_err(|error| format!("where am I: {error}"))?;
    Ok(strace::Plan { seed, count: Some(600), program, bug: Some(format!("{bug:?}")) })
}

fn hunt_in_procedure(procedure: cuts::Procedure, bug: Bug, seed: u64) -> Outcome<()> {
    let homes = Homes::make()?;
    let subject = cuts::Subject::make(seed, &homes)?;
    plant(Some(bug));
    cuts::cut_all(procedure, &subject, &homes, (seed, 400)).map(drop)
}

/// Hunts for every bug but those that are found by models, each in a process of this program, some at a time.
pub fn hunt_all(
    program: &Path,
    seed: u64,
    wanted: &[Bug],
    say: impl Fn(&Catch) + Sync,
) -> Outcome<Vec<Catch>> {
    let all = wanted.iter().flat_map(|bug| checks_of(*bug).into_iter().map(|check| (*bug, check)));
    let left = Mutex::new(all.filter(|(_, check)| *check != Check::Models));
    let catches = Mutex::new(Vec::new());
    let hunter = || -> Outcome<()> {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((bug, check)) = next else { return Ok(()) };
            let catch = Catch { bug, check, found: hunt_apart(program, bug, check, seed)? };
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

fn hunt_apart(program: &Path, bug: Bug, check: Check, seed: u64) -> Outcome<Option<String>> {
    let told = |error: std::io::Error| format!("hunting for {bug:?}: {error}");
    let mut command = Command::new(program);
    command.args(["hunt", &format!("{bug:?}"), "--seed", &seed.to_string()]);
    command.args((check == Check::Strace).then_some("--strace"));
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
        // It is gone when it can be; nobody waits for it.
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
        // A panic, or a signal, is a find as well; what the checks say of it they could not say.
        (false, None) if matches!(status.code(), None | Some(101)) => {
            Ok(Some(format!("the process ended: {status}")))
        }
        (false, None) => Err(format!("hunting for {bug:?}: the process ended: {status}")),
    }
}
