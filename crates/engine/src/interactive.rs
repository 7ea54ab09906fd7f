//! Interactive transactions: read a snapshot, write aside, commit if nothing read has changed.
//!
//! ```text
//!   begin -> snapshot + overlay
//!     reads   -> answered from both, remembered as guards (keys, absences, ranges)
//!     writes  -> applied to the overlay, remembered as steps
//!   commit -> Transaction { guards, steps } through the sequencer
//! ```
//!
//! Answers inside the transaction are provisional; the receipt has the final ones. A blind write is no
//! read and never conflicts; commands whose answer tells something of the cell count as reads.

use crate::apply::{cells, guards, strings};
use crate::candidates::Submitted;
use crate::cells::{cell, counter, did, maybe_counter, number, page};
use crate::core::Core;
use crate::overlay::Overlay;
use crate::pins::PinGuard;
use crate::snapshot::Snapshot;
use crate::spaces::CELLS;
use crate::view::Origin;
use mainstay_model::limits::GUARD_LIMIT;
use mainstay_model::{
    Answer, At, CellCommand, Code, Command, Durability, Error, Guard, Name, Number, Page, Receipt,
    Result, Revision, SmallVec, Stamp, Step, StringCommand, Transaction, Ttl, Value, Versioned,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An open transaction. Dropping it rolls it back.
pub struct Interactive {
    snapshot: Snapshot,
    branch: String,
    overlay: Overlay,
    steps: SmallVec<[Step; 1]>,
    /// Cells that were read, with their expiry as seen.
    read: BTreeMap<Name, Option<Stamp>>,
    ranges: Vec<Guard>,
    durability: Option<Durability>,
    began_us: u64,
    used_us: u64,
    _pin: PinGuard,
}

impl Interactive {
    pub(crate) fn begin(core: &Arc<Core>, branch: &str) -> Result<Interactive> {
        let mut snapshot = Snapshot::new(core, branch, At::Latest)?;
        snapshot.fresh = false;
        let began_us = core.clock.monotonic_us();
        let pin = core.pins.hold("transaction", began_us, snapshot.revision);
        core.index().check_all_reach(snapshot.revision)?;
        Ok(Interactive {
            snapshot,
            branch: branch.to_owned(),
            overlay: Overlay::default(),
            steps: SmallVec::new(),
            read: BTreeMap::new(),
            ranges: Vec::new(),
            durability: None,
            began_us,
            used_us: began_us,
            _pin: pin,
        })
    }

    /// The branch it works on.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The revision it reads.
    pub fn revision(&self) -> Revision {
        self.snapshot.revision
    }

    /// Overrides the database's durability for the commit.
    pub fn durability(&mut self, durability: Durability) {
        self.durability = Some(durability);
    }

    /// Refuses to go on after too long a pause, or in all.
    fn touch(&mut self) -> Result<()> {
        let core = &self.snapshot.core;
        let now = core.clock.monotonic_us();
        let us = |limit: std::time::Duration| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        let idle = now.saturating_sub(self.used_us) > us(core.options.idle_limit);
        let old = now.saturating_sub(self.began_us) > us(core.options.transaction_limit);
        if idle || old {
            let what = if idle { "idle" } else { "open" };
            let message = format!("the transaction was {what} for too long: begin again");
            return Err(Error::new(Code::TransactionExpired, message));
        }
        self.used_us = now;
        Ok(())
    }

    /// Remembers that a cell was read, unless this transaction wrote it first.
    fn note_read(&mut self, name: &Name) -> Result<()> {
        if self.read.contains_key(name) {
            return Ok(());
        }
        let view = self.snapshot.view();
        let (key, hash) = view.key(CELLS, name.as_bytes());
        let found = view.find(&self.overlay, &key, hash, |head, _| Ok(head))?;
        let head = match found {
            // Its own value says nothing about others, its counter and existence might.
            Some((_, Origin::Overlay)) => {
                view.find_stored(&key, hash, |head, _| Ok(head))?.map(|(head, _)| head)
            }
            found => found.map(|(head, _)| head),
        };
        let live = head.filter(|head| head.is_live(view.now));
        if self.read.len() + self.ranges.len() >= GUARD_LIMIT {
            let message = format!("the transaction reads more than {GUARD_LIMIT} keys and ranges");
            return Err(Error::new(Code::TransactionTooLarge, message));
        }
        self.read.insert(name.clone(), live.and_then(|head| head.expires));
        Ok(())
    }

    /// Runs a command on cells: a read, a write, or both. One that fails leaves the transaction open
    /// and is forgotten, though what it read counts as read.
    ///
    /// ```
    /// use mainstay::{Answer, Database, Name, StringCommand};
    /// let db = Database::memory()?;
    /// let mut t = db.begin()?;
    /// let append = StringCommand::Append { name: Name::new("log")?, text: b"one".to_vec() };
    /// assert_eq!(t.run(append)?, Answer::Count(3));
    /// t.commit()?;
    /// assert_eq!(db.cells().get("log")?, Some("one".into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn run(&mut self, command: impl Into<Command>) -> Result<Answer> {
        self.touch()?;
        match command.into() {
            Command::Cell(CellCommand::Get { name }) => self.look(&name).map(Answer::Cell),
            Command::Cell(CellCommand::List { prefix, after, limit }) => {
                self.walk(prefix, after, limit).map(Answer::Names)
            }
            command => self.change(command),
        }
    }

    fn change(&mut self, command: Command) -> Result<Answer> {
        for name in told(&command) {
            self.note_read(name)?;
        }
        let view = self.snapshot.view();
        let answer = match &command {
            Command::Cell(command) => cells::run(&view, &mut self.overlay, command)?,
            Command::String(command) => strings::run(&view, &mut self.overlay, command)?,
            _ => return Err(not_on_cells()),
        };
        self.steps.push(command.into());
        Ok(answer)
    }

    fn look(&mut self, name: &Name) -> Result<Option<Versioned>> {
        let (key, hash) = self.snapshot.view().key(CELLS, name.as_bytes());
        if self.overlay.find(hash, &key).is_none() {
            self.note_read(name)?;
        }
        let found = cells::get(&self.snapshot.view(), &self.overlay, name)?;
        self.snapshot.core.index().check_reach(&key, self.snapshot.revision)?;
        Ok(found)
    }

    fn walk(&mut self, prefix: String, after: Option<String>, limit: usize) -> Result<Page> {
        let view = self.snapshot.view();
        let since = self.snapshot.revision;
        let (page, expires) =
            cells::list_until(&view, &self.overlay, &prefix, after.as_deref(), limit)?;
        self.snapshot.core.index().check_all_reach(since)?;
        let upto = page.next.clone();
        self.ranges.push(Guard::RangeUnchanged { prefix, after, upto, since, expires });
        Ok(page)
    }

    /// The value of a cell.
    pub fn get(&mut self, name: &str) -> Result<Option<Value>> {
        Ok(self.get_versioned(name)?.map(|cell| cell.value))
    }

    /// The value of a cell with its counter; the revision of an own write is 0.
    pub fn get_versioned(&mut self, name: &str) -> Result<Option<Versioned>> {
        cell(self.run(CellCommand::Get { name: Name::new(name)? })?)
    }

    /// Names in byte order, own writes included.
    pub fn list(&mut self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        page(self.run(CellCommand::List { prefix, after, limit })?)
    }

    /// Writes when the cell is absent; gives its counter either way.
    pub fn init(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        let name = Name::new(name)?;
        counter(self.run(CellCommand::Init { name, value: value.into() })?)
    }

    /// Writes; gives the provisional counter.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        self.set_with(name, value, Ttl::Clear)
    }

    /// Writes with a time to live; gives the provisional counter.
    pub fn set_with(&mut self, name: &str, value: impl Into<Value>, ttl: Ttl) -> Result<u64> {
        let name = Name::new(name)?;
        counter(self.run(CellCommand::Set { name, value: value.into(), ttl })?)
    }

    /// Writes when the counter is the expected one (`None`: when absent).
    pub fn cas(
        &mut self,
        name: &str,
        expected: Option<u64>,
        value: impl Into<Value>,
    ) -> Result<Option<u64>> {
        let name = Name::new(name)?;
        maybe_counter(self.run(CellCommand::Cas { name, expected, value: value.into() })?)
    }

    /// Deletes; says whether the cell existed.
    pub fn delete(&mut self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        did(self.run(CellCommand::Delete { name, counter: None })?)
    }

    /// Deletes when the counter is this one.
    pub fn delete_if(&mut self, name: &str, counter: u64) -> Result<bool> {
        let name = Name::new(name)?;
        did(self.run(CellCommand::Delete { name, counter: Some(counter) })?)
    }

    /// Adds to a number; gives the sum and the provisional counter.
    pub fn incr(&mut self, name: &str, by: impl Into<Number>) -> Result<(Value, u64)> {
        let name = Name::new(name)?;
        number(self.run(CellCommand::Incr { name, by: by.into() })?)
    }

    /// Changes a cell's time to live; says whether the cell exists.
    pub fn expire(&mut self, name: &str, ttl: Ttl) -> Result<bool> {
        let name = Name::new(name)?;
        did(self.run(CellCommand::Expire { name, ttl })?)
    }

    /// Commits, or fails with `Conflict` when something that was read has changed.
    pub fn commit(mut self) -> Result<Receipt> {
        self.touch()?;
        if self.steps.is_empty() {
            return Ok(self.read_only());
        }
        let core = self.snapshot.core.clone();
        let transaction = self.take();
        // The writer checks only what comes after this.
        let checked = core.sequencer.published();
        let (branch, trail) = (self.snapshot.branch, &core.state.trail);
        if !guards::ranges_hold(&transaction.guards, branch, trail, checked)? {
            return Err(conflict());
        }
        let submitted = Submitted { transaction, checked, candidates: None };
        core.sequencer.execute(submitted).map_err(|error| match error.code() {
            Code::GuardFailed => conflict(),
            _ => error,
        })
    }

    /// A snapshot is consistent in itself: who only reads need not ask anyone.
    fn read_only(&self) -> Receipt {
        Receipt {
            revision: self.snapshot.revision,
            stamp: self.snapshot.now,
            held: true,
            repeated: false,
            answers: SmallVec::new(),
        }
    }

    /// What [`Interactive::commit`] would execute, to be executed beside others
    /// ([`Database::execute_all`](crate::Database::execute_all)).
    ///
    /// It succeeds and fails as `commit` does, only that what was read and has changed is
    /// `GuardFailed`, an error of the same kind as `Conflict`. Of one that only read, it is an empty
    /// transaction. What it read is no longer held back from retention.
    pub fn into_transaction(mut self) -> Result<Transaction> {
        self.touch()?;
        if self.steps.is_empty() {
            return Ok(Transaction { durability: self.durability, ..Transaction::new() });
        }
        Ok(self.take())
    }

    /// What it did, behind guards for what it read.
    fn take(&mut self) -> Transaction {
        let since = self.snapshot.revision;
        let mut transaction = Transaction::on(&self.branch);
        transaction.branch_id = Some(self.snapshot.branch);
        transaction.durability = self.durability;
        transaction.steps = std::mem::take(&mut self.steps);
        transaction.guards = std::mem::take(&mut self.ranges);
        let read = std::mem::take(&mut self.read).into_iter();
        let unchanged = read.map(|(name, expires)| Guard::Unchanged { name, since, expires });
        transaction.guards.extend(unchanged);
        transaction
    }

    /// Forgets everything it wrote.
    pub fn rollback(self) {}
}

/// The cells of which the answer of a command tells something; a blind write tells nothing but its
/// counter, which is provisional.
fn told(command: &Command) -> SmallVec<[&Name; 1]> {
    match command {
        Command::Cell(CellCommand::Set { .. } | CellCommand::Restore { .. }) => SmallVec::new(),
        Command::Cell(command) => command.name().into_iter().collect(),
        Command::String(StringCommand::SetAll { pairs, only_absent: true }) => {
            pairs.iter().map(|(name, _)| name).collect()
        }
        Command::String(command) => command.name().into_iter().collect(),
        _ => SmallVec::new(),
    }
}

#[cold]
fn not_on_cells() -> Error {
    let message = "only commands on cells stand in an open transaction: run this one by itself";
    Error::new(Code::InvalidArgument, message)
}

#[cold]
fn conflict() -> Error {
    let message = "something the transaction read has changed since it began: begin again";
    Error::new(Code::Conflict, message)
}
