//! Moments: one branch as of one revision, whatever its names hold.
//!
//! ```text
//!   commands that only read --+
//!                             +--> Moment { branch, revision, time } --> answers that belong together
//!   names of several kinds  --+
//! ```
//!
//! This is for those who serve a database: they have commands as values, and to some of their clients a
//! name is one thing, be it a cell or a record.

use crate::core::Core;
use crate::db::Database;
use crate::pins::PinGuard;
use crate::snapshot::Snapshot;
use crate::spaces;
use mainstay_model::{
    Answer, At, CellCommand, Code, Command, Contract, Error, Name, Page, RecordCommand, Result,
    Scales, SmallVec, Stamp, StateKey, StringCommand,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A branch as of one revision.
pub struct Moment {
    snapshot: Snapshot,
    _pin: Option<PinGuard>,
}

impl Database {
    /// Answers commands that only read, all as of the newest moment; and that moment's time. The database
    /// has to be in this process.
    ///
    /// ```
    /// use mainstay::{Answer, Command, Database, Name, StringCommand};
    /// let db = Database::memory()?;
    /// db.cells().set("a", "text")?;
    /// let get = Command::from(StringCommand::Get { name: Name::new("a")? });
    /// let (answers, _) = db.look("main", &[get])?;
    /// assert!(matches!(&answers[0], Answer::Cell(Some(cell)) if cell.value == "text".into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn look(
        &self,
        branch: &str,
        commands: &[Command],
    ) -> Result<(SmallVec<[Answer; 1]>, Stamp)> {
        let core = self.place.here("a look at several kinds of state")?;
        // What retention passed by meanwhile is looked at again.
        loop {
            let moment = Moment { snapshot: Snapshot::new(core, branch, At::Latest)?, _pin: None };
            match moment.answers(commands) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                answers => return answers.map(|answers| (answers, moment.now())),
            }
        }
    }

    /// What a record takes now, in bytes; nothing where there is none. The database has to be in this
    /// process.
    pub fn record_bytes(&self, branch: &str, key: &Name) -> Result<usize> {
        let core = self.place.here("the size of a record")?;
        Snapshot::new(core, branch, At::Latest)?.record_bytes(key)
    }

    /// What keys of a space take now, in bytes. The database has to be in this process.
    pub fn state_bytes(&self, branch: &str, space: &Name, keys: &[StateKey]) -> Result<usize> {
        let core = self.place.here("the size of states")?;
        Snapshot::new(core, branch, At::Latest)?.state_bytes(space, keys)
    }

    /// A moment of a branch, for as long as the handle lives (an hour at most). The database has to be
    /// in this process.
    pub fn moment(&self, branch: &str, at: At) -> Result<Moment> {
        Moment::pinned(self.place.here("a moment of several kinds of state")?, branch, at)
    }
}

impl Moment {
    fn pinned(core: &Arc<Core>, branch: &str, at: At) -> Result<Moment> {
        let mut snapshot = Snapshot::new(core, branch, at)?;
        snapshot.fresh = false;
        // Pinned first, checked second: what is readable now stays so.
        let pin = core.pins.hold("reader", core.clock.monotonic_us(), snapshot.revision);
        core.index().check_any_reach(snapshot.revision)?;
        Ok(Moment { snapshot, _pin: Some(pin) })
    }

    /// The revision it shows.
    pub fn revision(&self) -> u64 {
        self.snapshot.revision
    }

    /// Its time, at which expiry is judged.
    pub fn now(&self) -> Stamp {
        self.snapshot.now
    }

    /// Answers commands that only read; together their answers have a limit.
    pub fn answers(&self, commands: &[Command]) -> Result<SmallVec<[Answer; 1]>> {
        if let [command] = commands {
            return Ok(SmallVec::from_iter([self.answer(command)?]));
        }
        let mut scales = Scales::default();
        let weighed = |command| {
            let answer = self.answer(command)?;
            scales.add(&answer)?;
            Ok(answer)
        };
        commands.iter().map(weighed).collect()
    }

    /// Answers a command that only reads.
    pub fn answer(&self, command: &Command) -> Result<Answer> {
        let snapshot = &self.snapshot;
        match command {
            Command::Cell(CellCommand::Get { name }) => snapshot.get(name).map(Answer::Cell),
            Command::Cell(CellCommand::List { prefix, after, limit }) => {
                snapshot.list(prefix, after.as_deref(), *limit).map(Answer::Names)
            }
            Command::Cell(CellCommand::History { name, limit, before }) => {
                snapshot.history(name, *limit, *before).map(Answer::History)
            }
            Command::String(StringCommand::Get { name }) => snapshot.text(name).map(Answer::Cell),
            Command::Hash(command) if command.is_read() => snapshot.hash(command),
            Command::Record(RecordCommand::Get { key, fields }) => {
                snapshot.record(key, fields.as_deref()).map(Answer::Record)
            }
            Command::Record(RecordCommand::Scan { prefix, filters, after, limit }) => {
                snapshot.scan(prefix, filters, after.as_deref(), *limit).map(Answer::Records)
            }
            Command::Record(RecordCommand::Count { prefix, filters }) => {
                snapshot.count(prefix, filters).map(Answer::Count)
            }
            Command::Record(RecordCommand::History { key, limit, before }) => {
                snapshot.record_history(key, *limit, *before).map(Answer::RecordHistory)
            }
            Command::Run(command) if command.is_read() => {
                Ok(Answer::Run(Box::new(snapshot.runs(command)?)))
            }
            Command::Outbox(command) if command.is_read() => snapshot.outbox(command),
            Command::State(command) if command.is_read() => snapshot.state(command),
            Command::Key(command) if command.is_read() => snapshot.key_names(command),
            other => Err(no_read(other)),
        }
    }

    /// Names of these kinds of state in byte order, each once: those that begin with `prefix` and come
    /// behind `after`.
    pub fn names(
        &self,
        kinds: &[Contract],
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page> {
        let (mut all, mut more) = (BTreeSet::new(), false);
        for kind in kinds {
            let page = self.snapshot.names(spaces::of(*kind)?, prefix, after, limit)?;
            more |= page.next.is_some();
            all.extend(page.names);
        }
        // The first so many of all are among the first so many of each.
        let more = more || all.len() > limit;
        let names: Vec<String> = all.into_iter().take(limit).collect();
        let next = names.last().filter(|_| more).cloned();
        Ok(Page { names, next })
    }
}

#[cold]
fn no_read(command: &Command) -> Error {
    let message = format!("{command:?} does not only read: execute it in a transaction");
    Error::new(Code::Unsupported, message)
}
