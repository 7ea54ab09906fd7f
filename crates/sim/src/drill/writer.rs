//! Writers: threads that write to a database and journal their operations.

use super::op::{Id, Op, Way, answers};
use super::{ACCOUNTS, CAS_CELLS, HOT_CELLS, OWN_CELLS, account, cas_cell, mark_cell};
use super::{keyed, records, runs};
use mainstay::{
    Database, Durability, Error, ErrorKind, Receipt, Result, SESSION_LEASE_LIMIT_MS,
    SessionOptions, Value,
};
use mainstay_conformance::random::Random;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The journal output of writers.
pub trait Voice: Send + Sync {
    /// Writes a journal line.
    fn say(&self, line: &str);

    /// Writes a line for an error that must never happen.
    fn alarm(&self, what: &str, error: &Error) {
        self.say(&format!("X {what}: {:?}: {error}", error.code()).replace('\n', " "));
    }
}

/// Parameters of the writers.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Seed of all random choices.
    pub seed: u64,
    /// The number of the process, or of a simulated process.
    pub generation: u64,
    /// Number of writer threads.
    pub writers: u64,
    /// Number of operations per writer.
    pub operations: u64,
    /// True if the disk may fail, so that a failed operation is not a violation.
    pub faulty: bool,
}

/// Declares indexes and keyed-state spaces, then starts the writers. A thread ends when it has finished or
/// cannot continue.
pub fn write(db: &Database, voice: &Arc<dyn Voice>, work: Work) -> Vec<JoinHandle<()>> {
    voice.say(&format!("O {}", db.open_report().revision));
    let mut random = Random::of(&[work.seed, work.generation, super::WRITERS]);
    let declared = records::declare(db, &mut random).and_then(|()| keyed::declare(db));
    if let Err(error) = declared {
        if !work.faulty {
            voice.alarm("declaring", &error);
        }
        return Vec::new();
    }
    let writer = |thread| {
        let random = Random::of(&[work.seed, work.generation, thread]);
        let db = db.clone();
        let voice = voice.clone();
        let mut writer = Writer { branch: None, db, voice, random, work, thread };
        thread::spawn(move || writer.run())
    };
    (0..work.writers).map(writer).collect()
}

struct Writer {
    db: Database,
    voice: Arc<dyn Voice>,
    random: Random,
    work: Work,
    thread: u64,
    /// The branch of this writer, if any. A writer has at most one.
    branch: Option<String>,
}

impl Writer {
    fn run(&mut self) {
        let prefix = format!("branch-{}-", self.thread);
        let mut branches = self.db.branches().into_iter().map(|branch| branch.name);
        self.branch = branches.find(|name| name.starts_with(&prefix));
        if let Err(error) = self.open_session() {
            return self.stop("opening a session", &error);
        }
        for seq in 1..=self.work.operations {
            if let Err((what, error)) = self.step(self.id(seq)) {
                return self.stop(&what, &error);
            }
        }
    }

    fn id(&self, seq: u64) -> Id {
        Id { generation: self.work.generation, thread: self.thread, seq }
    }

    /// Stops the writer. This is a violation unless the disk may fail.
    fn stop(&self, what: &str, error: &Error) {
        if !self.work.faulty {
            self.voice.alarm(what, error);
        }
    }

    fn step(&mut self, id: Id) -> std::result::Result<(), (String, Error)> {
        let told = |what: &str| {
            let what = what.to_owned();
            move |error| (what, error)
        };
        let op = self.choose(id).map_err(told("reading"))?;
        self.voice.say(&format!("I {} {} {op}", self.thread, id.seq));
        let end = match self.perform(id, &op) {
            Ok(receipt) => self.report(id, &op, &receipt),
            Err(error) if self.did_nothing(&error) => {
                let line = format!("F {} {} {:?}", self.thread, id.seq, error.code());
                self.voice.say(&line);
                return match error.kind() {
                    ErrorKind::ReadOnly | ErrorKind::Closed => Err((op.to_string(), error)),
                    _ => Ok(()),
                };
            }
            Err(error) => return Err((format!("{id} {op}"), error)),
        };
        self.voice.say(&end);
        if matches!(op, Op::Move { .. }) && end.starts_with('A') && self.random.chance(10) {
            // Simulates a source that never received its position and sends its items again.
            keyed::tell_again(&self.db, id).map_err(told("telling again"))?;
        }
        if self.random.chance(3) {
            // Seals waiting writes of old processes while other writers run.
            keyed::seal(&self.db, self.work.generation).map_err(told("sealing"))?;
        }
        Ok(())
    }

    /// Returns whether the error is allowed and means that nothing was written.
    fn did_nothing(&self, error: &Error) -> bool {
        match error.kind() {
            ErrorKind::Conflict => true,
            ErrorKind::UnknownOutcome => false,
            _ => self.work.faulty,
        }
    }

    /// Opens the writer's session with the maximum lease, so that requests can be repeated days later.
    fn open_session(&self) -> Result<()> {
        let options = SessionOptions::new().name(&self.id(1).session());
        let options = options.lease(Duration::from_millis(SESSION_LEASE_LIMIT_MS));
        self.db.sessions().open(options).map(drop)
    }

    /// The journal line with the outcome of an operation.
    fn report(&mut self, id: Id, op: &Op, receipt: &Receipt) -> String {
        let Id { thread, seq, .. } = id;
        let Some(answers) = answers(receipt) else { return format!("F {thread} {seq} nothing") };
        match op {
            Op::Fork { branch } => self.branch = Some(branch.clone()),
            Op::Drop { .. } => self.branch = None,
            _ => {}
        }
        let words = [vec![receipt.revision.to_string(), receipt.stamp.to_string()], answers];
        format!("A {thread} {seq} {}", words.concat().join(" "))
    }

    fn choose(&mut self, id: Id) -> Result<Op> {
        let random = &mut self.random;
        let durability = match random.below(10) {
            0 => Durability::Memory,
            1 => Durability::Interval,
            _ => Durability::Sync,
        };
        // Usually small, sometimes large enough to cross pages and blocks.
        let filler = if random.chance(5) { random.below(8000) } else { random.below(300) };
        let k = random.below(OWN_CELLS);
        Ok(match random.below(100) {
            0..30 => Op::Set { k, filler, durability, request: random.chance(20) },
            30..36 => Op::Delete { k, durability },
            36..58 => Op::Hot { k: random.below(HOT_CELLS), durability },
            58..70 => {
                let k = random.below(CAS_CELLS);
                let expected = self.db.cells().get_versioned(&cas_cell(k))?;
                Op::Cas { k, expected: expected.map(|cell| cell.counter), filler }
            }
            70..92 => {
                let from = random.below(ACCOUNTS);
                let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
                let way = match random.below(4) {
                    0 => Way::Blind,
                    1 => Way::Request,
                    2 => Way::Session,
                    _ => Way::Interactive,
                };
                Op::Move { from, to, amount: 1 + random.below(100) as i64, way, durability }
            }
            92..99 => self.choose_on_branch(id, k, filler),
            _ => Op::Sync,
        })
    }

    fn choose_on_branch(&mut self, id: Id, k: u64, filler: u64) -> Op {
        let Some(branch) = self.branch.clone() else {
            return Op::Fork {
                branch: format!("branch-{}-{}-{}", id.thread, id.generation, id.seq),
            };
        };
        match self.random.below(10) {
            0..6 => Op::Put { branch, k, filler },
            6..8 => Op::Merge { branch },
            _ => Op::Drop { branch },
        }
    }

    fn perform(&self, id: Id, op: &Op) -> Result<Receipt> {
        match (op, op.transaction(id)?) {
            (_, Some(transaction)) => self.db.execute(transaction),
            (Op::Move { from, to, amount, durability, .. }, None) => {
                self.transfer(id, (*from, *to, *amount), *durability)
            }
            (_, None) => {
                let revision = self.db.sync()?;
                let answers = Default::default();
                Ok(Receipt { revision, stamp: 0, held: true, repeated: false, answers })
            }
        }
    }

    fn transfer(
        &self,
        id: Id,
        (from, to, amount): (u64, u64, i64),
        durability: Durability,
    ) -> Result<Receipt> {
        let mut open = self.db.begin()?;
        open.durability(durability);
        for (k, by) in [(from, -amount), (to, amount)] {
            let name = account(k);
            let balance = open.get(&name)?.as_ref().and_then(Value::as_i64).unwrap_or(0);
            open.set(&name, balance + by)?;
        }
        open.set(&mark_cell(id.thread), id.value(0))?;
        open.append(runs::event(id))?;
        let (subject, payload, run) = runs::message(id);
        open.put_message(subject, payload, Some(&run))?;
        for command in keyed::commands(id)? {
            open.run(command)?;
        }
        open.commit()
    }
}
