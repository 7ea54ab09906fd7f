//! The child: opens the database and writes until it is killed.

use super::op::{Id, Op, Way, answers};
use super::{
    ACCOUNTS, CAS_CELLS, HOT_CELLS, OWN_CELLS, WRITERS, account, cas_cell, mark_cell, options,
};
use super::{keyed, records, runs};
use mainstay::{
    Code, Database, Durability, Error, ErrorKind, Receipt, Result, SESSION_LEASE_LIMIT_MS,
    SessionOptions, Value,
};
use mainstay_conformance::random::Random;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::exit;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Writes whole lines to the parent; ends the process when the parent is gone.
#[derive(Clone)]
struct Pipe(Arc<File>);

impl Pipe {
    fn say(&self, line: &str) {
        // One call for each line: a line is there as a whole or not at all.
        if (&*self.0).write_all(format!("{line}\n").as_bytes()).is_err() {
            exit(0);
        }
    }

    /// Reports what must never happen and ends the process.
    fn alarm(&self, what: &str, error: &Error) -> ! {
        self.say(&format!("X {what}: {:?}: {error}", error.code()).replace('\n', " "));
        exit(3)
    }
}

/// Runs the child; it comes back only when something is wrong.
pub fn run(directory: &Path, seed: u64, generation: u64) -> Result<()> {
    let out = std::io::stdout().as_fd().try_clone_to_owned();
    let out = out.map_err(|error| Error::new(Code::Io, format!("no standard output: {error}")))?;
    let pipe = Pipe(Arc::new(File::from(out)));
    let db = match options().open(directory) {
        Ok(db) => db,
        Err(error) => pipe.alarm("opening", &error),
    };
    pipe.say(&format!("O {}", db.revision()));
    let mut random = Random::of(&[seed, generation, WRITERS]);
    if let Err(error) = records::declare(&db, &mut random) {
        pipe.alarm("declaring an index", &error);
    }
    if let Err(error) = keyed::declare(&db) {
        pipe.alarm("declaring spaces", &error);
    }
    let writers = (0..WRITERS).map(|thread| {
        let random = Random::of(&[seed, generation, thread]);
        let (db, pipe) = (db.clone(), pipe.clone());
        let mut writer = Writer { branch: None, db, pipe, random, generation, thread };
        thread::spawn(move || writer.run())
    });
    let writers: Vec<_> = writers.collect();
    loop {
        thread::sleep(Duration::from_millis(10 + random.below(150)));
        if writers.iter().any(thread::JoinHandle::is_finished) {
            let error = Error::new(Code::Unsupported, "a writer ended");
            pipe.alarm("panic", &error);
        }
        if let Err(error) = db.trim() {
            pipe.alarm("trimming", &error);
        }
    }
}

struct Writer {
    db: Database,
    pipe: Pipe,
    random: Random,
    generation: u64,
    thread: u64,
    /// The branch this writer has, if any: at most one.
    branch: Option<String>,
}

impl Writer {
    fn run(&mut self) {
        let prefix = format!("branch-{}-", self.thread);
        let mut branches = self.db.branches().into_iter().map(|branch| branch.name);
        self.branch = branches.find(|name| name.starts_with(&prefix));
        self.open_session();
        for seq in 1.. {
            let id = Id { generation: self.generation, thread: self.thread, seq };
            let op = match self.choose(id) {
                Ok(op) => op,
                Err(error) => self.pipe.alarm("reading", &error),
            };
            self.pipe.say(&format!("I {} {seq} {op}", self.thread));
            let end = match self.perform(id, &op) {
                Ok(receipt) => self.report(id, &op, &receipt),
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    format!("F {} {seq} {:?}", self.thread, error.code())
                }
                Err(error) => self.pipe.alarm(&format!("{id} {op}"), &error),
            };
            self.pipe.say(&end);
            if matches!(op, Op::Move { .. }) && end.starts_with('A') && self.random.chance(10) {
                self.tell_again(id);
            }
            if self.random.chance(3) {
                self.seal();
            }
        }
    }

    /// Whoever asks again, days later, finds it.
    fn open_session(&self) {
        let first = Id { generation: self.generation, thread: self.thread, seq: 1 };
        let options = SessionOptions::new().name(&first.session());
        let options = options.lease(Duration::from_millis(SESSION_LEASE_LIMIT_MS));
        if let Err(error) = self.db.sessions().open(options) {
            self.pipe.alarm("opening a session", &error);
        }
    }

    /// As a source does that was not told how far it had been read.
    fn tell_again(&self, id: Id) {
        if let Err(error) = keyed::tell_again(&self.db, id) {
            self.pipe.alarm("telling again", &error);
        }
    }

    /// What waits since processes that are long gone is applied while others write.
    fn seal(&self) {
        if let Err(error) = keyed::seal(&self.db, self.generation) {
            self.pipe.alarm("sealing", &error);
        }
    }

    /// The line that says what came of an operation.
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
        // Mostly small, now and then large enough to cross pages and blocks.
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
