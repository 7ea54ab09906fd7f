//! The parent process: starts children, kills them, and checks the database that they leave.

use crate::drill::{Account, Look, Outcome, Run, options};
use mainstay::{Clock, Database, SystemClock};
use mainstay_conformance::random::Random;
use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The number of cycles after which the whole history is checked again.
const EVERYTHING_EVERY: u64 = 25;
/// A child that has not opened the database after this time hangs.
const OPEN_LIMIT: Duration = Duration::from_secs(60);
/// How long an aimed kill waits for an acknowledgement.
const AIM_LIMIT: Duration = Duration::from_secs(1);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of cycles.
    pub cycles: u64,
    /// The seed of all choices.
    pub seed: u64,
    /// The database's directory.
    pub directory: PathBuf,
    /// The program, which runs as the child when it is called with `child`.
    pub program: PathBuf,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of checked cycles.
    pub cycles: u64,
    /// The number of writes that were acknowledged as durable and are present.
    pub acknowledged: u64,
    /// The number of writes without that guarantee that a crash lost.
    pub unsynced_lost: u64,
    /// The number of kills during the recovery from the first kill of a cycle.
    pub second_kills: u64,
    /// The number of kills before the database was open; the first cycle has some extra ones.
    pub during_open: u64,
    /// The number of requests that were retried.
    pub requests: u64,
    /// How often the index had to be rebuilt from the log.
    pub rebuilt: u64,
    /// How often a torn tail of the log was cut off.
    pub cut: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.cycles += other.cycles;
        self.acknowledged += other.acknowledged;
        self.unsynced_lost += other.unsynced_lost;
        self.second_kills += other.second_kills;
        self.during_open += other.during_open;
        self.requests += other.requests;
        self.rebuilt += other.rebuilt;
        self.cut += other.cut;
    }
}

/// Runs the plan. Returns an error that describes a violation.
pub fn run(plan: &Plan, mut say: impl FnMut(&Tally)) -> Outcome<Tally> {
    let mut parent = Parent::new(plan);
    for cycle in 1..=plan.cycles {
        parent.cycle(cycle).map_err(|what| {
            let Plan { seed, directory, .. } = plan;
            format!("cycle {cycle}, seed {seed}, directory {}: {what}", directory.display())
        })?;
        if cycle.is_multiple_of(10) {
            say(&parent.tally);
        }
    }
    Ok(parent.tally)
}

struct Parent<'a> {
    plan: &'a Plan,
    random: Random,
    clock: SystemClock,
    account: Account,
    generation: u64,
    /// The first process of the last cycle. Retried requests are not older.
    since: u64,
    /// The duration of the last opening, in microseconds.
    open_us: u64,
    tally: Tally,
}

impl<'a> Parent<'a> {
    fn new(plan: &'a Plan) -> Parent<'a> {
        Parent {
            plan,
            random: Random::of(&[plan.seed]),
            clock: SystemClock::new(),
            account: Account::new(plan.seed),
            generation: 0,
            since: 0,
            open_us: 20_000,
            tally: Tally::default(),
        }
    }

    fn cycle(&mut self, cycle: u64) -> Outcome<()> {
        let first = self.generation + 1;
        let mut runs = Vec::new();
        // The creation of the first directory is interrupted by kills, too.
        let early = if cycle == 1 { 3 } else { 0 };
        for _ in 0..early {
            let after = Duration::from_micros(self.random.below(self.open_us));
            runs.push(self.kill_early(after)?);
        }
        runs.push(self.kill_late()?);
        if self.random.below(3) == 0 {
            let after = Duration::from_micros(self.random.below(self.open_us + self.open_us / 4));
            runs.push(self.kill_early(after)?);
            self.tally.second_kills += 1;
        }
        let db = options().open(&self.plan.directory);
        let db = db.map_err(|error| format!("LOST: opening after the crash: {error}"))?;
        self.check(&db, cycle, runs)?;
        self.since = first;
        db.close().map_err(|error| format!("closing: {error}"))
    }

    fn check(&mut self, db: &Database, cycle: u64, runs: Vec<Run>) -> Outcome<()> {
        let report = db.open_report();
        self.tally.rebuilt += u64::from(report.rebuilt.is_some());
        self.tally.cut += u64::from(report.cut.is_some());
        let everything = cycle.is_multiple_of(EVERYTHING_EVERY) || cycle == self.plan.cycles;
        let look = Look { everything, since: self.since, generation: self.generation };
        self.tally.requests += self.account.check(db, runs, look)?;
        self.tally.cycles = cycle;
        self.tally.acknowledged = self.account.acknowledged();
        self.tally.unsynced_lost = self.account.unsynced_lost();
        Ok(())
    }

    /// Lets a child write for a while, then kills it.
    fn kill_late(&mut self) -> Outcome<Run> {
        let begun = self.clock.monotonic_us();
        let mut child = self.spawn()?;
        let opened = child.opened.recv_timeout(OPEN_LIMIT).is_ok();
        self.open_us = (self.clock.monotonic_us() - begun).max(1000);
        if opened {
            thread::sleep(Duration::from_millis(5 + self.random.below(396)));
            // Half of the kills come directly after an acknowledgement, when a false one is most likely
            // to show.
            if self.random.chance(50) {
                child.aim();
            }
        }
        let run = child.end()?;
        match run.opened {
            Some(_) => Ok(run),
            None => Err(format!("a child did not open the database in {OPEN_LIMIT:?}")),
        }
    }

    /// Kills a child that is about to open the database or has just opened it.
    fn kill_early(&mut self, after: Duration) -> Outcome<Run> {
        let mut child = self.spawn()?;
        thread::sleep(after);
        let run = child.end()?;
        self.tally.during_open += u64::from(run.opened.is_none());
        Ok(run)
    }

    fn spawn(&mut self) -> Outcome<Running> {
        self.generation += 1;
        let Plan { program, directory, seed, .. } = self.plan;
        Running::spawn(program, directory, *seed, self.generation)
    }
}

/// A running child, and the thread that reads its output.
struct Running {
    child: Arc<Mutex<Child>>,
    /// Set when the reader shall kill the child at the next acknowledgement.
    aimed: Arc<AtomicBool>,
    shot: Receiver<()>,
    generation: u64,
    opened: Receiver<()>,
    reader: Option<JoinHandle<String>>,
}

impl Running {
    fn spawn(program: &Path, directory: &Path, seed: u64, generation: u64) -> Outcome<Running> {
        let mut command = Command::new(program);
        command.arg("child").arg(directory).args([seed.to_string(), generation.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child =
            child.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let out = child.stdout.take().ok_or("the child has no output")?;
        let (tell, opened) = channel();
        let (hit, shot) = channel();
        let child = Arc::new(Mutex::new(child));
        let aimed = Arc::new(AtomicBool::new(false));
        let target = Target { child: child.clone(), aimed: aimed.clone(), hit };
        let reader = Some(thread::spawn(move || read(out, &tell, &target)));
        Ok(Running { child, aimed, shot, generation, opened, reader })
    }

    /// Lets the reader kill the child after the next acknowledgement.
    fn aim(&self) {
        // Release: pairs with the swap in `read`.
        self.aimed.store(true, Ordering::Release);
        // A child without further output is killed later, like any other.
        let _ = self.shot.recv_timeout(AIM_LIMIT);
    }

    /// Kills the child and parses its output.
    fn end(&mut self) -> Outcome<Run> {
        self.kill();
        let text = self.reader.take().map(JoinHandle::join).and_then(Result::ok);
        Run::read(self.generation, &text.ok_or("what the child said cannot be read")?)
    }

    fn kill(&mut self) {
        // It may have ended by itself; its output shows the reason.
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A child to be killed at its next acknowledgement.
struct Target {
    child: Arc<Mutex<Child>>,
    aimed: Arc<AtomicBool>,
    hit: Sender<()>,
}

impl Target {
    fn shoot(&self) {
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).kill();
        let _ = self.hit.send(());
    }
}

/// Reads the output to its end. Signals when the database is open, and kills the child when requested.
fn read(out: ChildStdout, opened: &Sender<()>, target: &Target) -> String {
    let mut out = BufReader::with_capacity(1 << 16, out);
    let mut text = String::new();
    loop {
        let begin = text.len();
        // An error ends the output as well, because the child is dead.
        if !out.read_line(&mut text).is_ok_and(|bytes| bytes > 0) {
            return text;
        }
        let line = &text[begin..];
        // AcqRel: acquires the request of `aim`; the swap kills only once.
        if line.starts_with("A ") && target.aimed.swap(false, Ordering::AcqRel) {
            target.shoot();
        } else if line.starts_with("O ") {
            // The receiver is gone if the child was killed early.
            let _ = opened.send(());
        }
    }
}
