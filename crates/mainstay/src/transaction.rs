//! Interactive transactions: optimistic concurrency over a snapshot, validated at commit.
//!
//! An embedded database uses [`OpenTransaction`]. For a served database, the server holds the transaction.

use crate::backend::Backend;
use mainstay_client::{AsyncInteractive, wait};
use mainstay_engine::lifecycle::engine::Engine;
use mainstay_engine::read::open_transaction::{self, OpenTransaction};
use mainstay_model::build::{self, StateCommands};
use mainstay_model::{
    Answer, Appended, CanonicalEvent, CellCommand, Code, Command, Condition, Contract, Durability,
    Error, ExpireOnly, Guard, HistoryEntry, Kept, KeyCommand, Name, NewEvent, Number, Page,
    Receipt, Record, RecordCommand, RecordHistoryEntry, RecordPage, RecordWrite, Result, Revision,
    RunAnswer, RunCommand, RunSnapshot, Stamp, State, StateCommand, StateWrite, Transaction, Ttl,
    Value, Versioned, Where, Wrote,
};
use std::sync::Arc;

use std::time::Duration;

/// An open interactive transaction. It reads from a snapshot plus its own writes. Dropping it rolls it
/// back.
pub struct InteractiveTransaction(TransactionBackend);

enum TransactionBackend {
    Here(Box<OpenTransaction>),
    There(AsyncInteractive),
}

impl InteractiveTransaction {
    pub(crate) fn begin(place: &Backend, branch: &str) -> Result<InteractiveTransaction> {
        Ok(InteractiveTransaction(match place {
            Backend::Local(core) => {
                TransactionBackend::Here(Box::new(OpenTransaction::begin(core, branch)?))
            }
            Backend::Remote(link) => {
                TransactionBackend::There(wait(AsyncInteractive::begin(link, branch))?)
            }
        }))
    }

    /// Runs a closure in a transaction while the writer waits, so that it never conflicts. Returns the
    /// closure's value and the receipt. If a guard fails, the receipt shows it and nothing is written.
    pub(crate) fn alone<T>(
        core: &Arc<Engine>,
        branch: &str,
        guards: Vec<Guard>,
        body: impl FnOnce(&mut InteractiveTransaction) -> Result<T>,
    ) -> Result<(T, Receipt)> {
        OpenTransaction::alone(core, branch, guards, |open| {
            let mut open = InteractiveTransaction(TransactionBackend::Here(open));
            let value = body(&mut open)?;
            match open.0 {
                TransactionBackend::Here(open) => Ok((value, open)),
                TransactionBackend::There(_) => {
                    Err(Error::new(Code::Unsupported, "the database is served"))
                }
            }
        })
    }

    /// The name of the branch that it works on.
    pub fn branch(&self) -> &str {
        match &self.0 {
            TransactionBackend::Here(open) => open.branch(),
            TransactionBackend::There(open) => open.branch(),
        }
    }

    /// The revision of its snapshot.
    pub fn revision(&self) -> Revision {
        match &self.0 {
            TransactionBackend::Here(open) => open.revision(),
            TransactionBackend::There(open) => open.revision(),
        }
    }

    /// The time at which it judges expiry, which does not advance. `None` for a served database, where only
    /// the server knows it.
    pub fn now(&self) -> Option<Stamp> {
        match &self.0 {
            TransactionBackend::Here(open) => Some(open.now()),
            TransactionBackend::There(_) => None,
        }
    }

    /// Overrides the database's durability for the commit.
    pub fn durability(&mut self, durability: Durability) {
        match &mut self.0 {
            TransactionBackend::Here(open) => open.durability(durability),
            TransactionBackend::There(open) => open.durability(durability),
        }
    }

    /// Returns whether it has anything to commit. Committing a read-only transaction uses no revision.
    /// Always true for a served database, where only the server knows it.
    pub fn has_steps(&self) -> bool {
        match &self.0 {
            TransactionBackend::Here(open) => open.step_count() > 0,
            TransactionBackend::There(_) => true,
        }
    }

    /// The number of steps so far, which is the index of the next write's final answer in the receipt.
    /// `None` for a served database, where only the server knows it.
    pub fn step_count(&self) -> Option<usize> {
        match &self.0 {
            TransactionBackend::Here(open) => Some(open.step_count()),
            TransactionBackend::There(_) => None,
        }
    }

    /// The number of keys and ranges in its read set, of at most 10,000. `None` for a served database,
    /// where only the server knows it.
    pub fn guard_count(&self) -> Option<usize> {
        match &self.0 {
            TransactionBackend::Here(open) => Some(open.guard_count()),
            TransactionBackend::There(_) => None,
        }
    }

    /// Approximate memory of its commands, write set and read set, in bytes. 0 for a served database, where
    /// the server holds them.
    pub fn held_bytes(&self) -> usize {
        match &self.0 {
            TransactionBackend::Here(open) => open.held_bytes(),
            TransactionBackend::There(_) => 0,
        }
    }

    /// The time until it expires if it stays idle. `None` once it was given up, and for a served database,
    /// where only the server knows it.
    pub fn time_left(&self) -> Option<Duration> {
        match &self.0 {
            TransactionBackend::Here(open) => open.time_left(),
            TransactionBackend::There(_) => None,
        }
    }

    /// Frees its memory if it has expired. The handle stays usable, but every later call fails with
    /// `TransactionExpired`.
    ///
    /// ```
    /// use mainstay::{Code, Options};
    /// use std::time::Duration;
    /// let db = Options::new().transaction_limits(Duration::ZERO, Duration::ZERO).memory()?;
    /// let mut t = db.begin()?;
    /// std::thread::sleep(Duration::from_millis(2));
    /// t.give_up_if_expired();
    /// assert_eq!(t.held_bytes(), 0);
    /// assert_eq!(t.set("a", 1).unwrap_err().code(), Code::TransactionExpired);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn give_up_if_expired(&mut self) {
        if let TransactionBackend::Here(open) = &mut self.0 {
            open.give_up_if_expired();
        }
    }

    /// Frees its memory. Every later call fails with the given error. Does nothing for a served database.
    pub fn give_up(&mut self, why: Error) {
        if let TransactionBackend::Here(open) = &mut self.0 {
            open.give_up(why);
        }
    }

    /// Runs a command on data: a read, a write, or both. A command that fails has no effect and leaves the
    /// transaction open, but its reads stay in the read set.
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
        match &mut self.0 {
            TransactionBackend::Here(open) => open.run(command.into()),
            TransactionBackend::There(open) => wait(open.run(command)),
        }
    }

    /// Runs a command like [`InteractiveTransaction::run`], and executes it once more at commit, even a
    /// read. The receipt holds the final answer, with the revision and the time of the commit, at the index
    /// that [`InteractiveTransaction::step_count`] returned before the call. For a served database, a read
    /// is answered only here.
    pub fn run_as_step(&mut self, command: impl Into<Command>) -> Result<Answer> {
        match &mut self.0 {
            TransactionBackend::Here(open) => open.run_as_step(command.into()),
            TransactionBackend::There(open) => wait(open.run(command)),
        }
    }

    /// Returns the value of a cell, or `None` if it is absent.
    pub fn get(&mut self, name: &str) -> Result<Option<Value>> {
        Ok(self.get_versioned(name)?.map(|cell| cell.value))
    }

    /// Returns the value of a cell with its counter, or `None` if the cell is absent. The revision is 0 for
    /// a value that this transaction wrote.
    pub fn get_versioned(&mut self, name: &str) -> Result<Option<Versioned>> {
        self.run(CellCommand::Get { name: Name::new(name)? })?.into_cell()
    }

    /// Lists the versions of a cell, newest first. The revision is 0 for a version that this transaction
    /// wrote.
    ///
    /// ```
    /// let db = mainstay::Database::memory()?;
    /// db.cells().set("a", 1)?;
    /// let mut t = db.begin()?;
    /// t.set("a", 2)?;
    /// let values: Vec<_> = t.history("a", 10, None)?.into_iter().map(|version| version.value).collect();
    /// assert_eq!(values, [Some(2.into()), Some(1.into())]);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn history(
        &mut self,
        name: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<HistoryEntry>> {
        let name = Name::new(name)?;
        match self.run(CellCommand::History { name, limit, before })? {
            Answer::History(versions) => Ok(versions),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Lists the versions of a record, newest first. The revision is 0 for a version that this transaction
    /// wrote.
    pub fn record_history(
        &mut self,
        key: &str,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        let key = Name::new(key)?;
        match self.run(RecordCommand::History { key, limit, before })? {
            Answer::RecordHistory(versions) => Ok(versions),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Returns the revision that wrote an event, or 0 for an event that this transaction appended.
    pub fn revision_of(&mut self, run: &str, seq: u64) -> Result<Option<Revision>> {
        match self.run(RunCommand::Revision { run: Name::new(run)?, seq })?.into_run()? {
            RunAnswer::Revision(revision) => Ok(revision),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Lists the names of cells and records in byte order, each name once, including this transaction's
    /// writes.
    pub fn names(&mut self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let kinds = vec![Contract::Cells, Contract::Records];
        let prefix = prefix.to_owned();
        let after = after.map(str::to_owned);
        let hidden = Vec::new();
        self.run(KeyCommand::Names { kinds, prefix, after, limit, hidden })?.into_names()
    }

    /// Lists cell names in byte order, including this transaction's writes.
    pub fn list(&mut self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let prefix = prefix.to_owned();
        let after = after.map(str::to_owned);
        self.run(CellCommand::List { prefix, after, limit })?.into_names()
    }

    /// Writes the cell only if it is absent. Returns its counter in both cases.
    pub fn init(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        let name = Name::new(name)?;
        self.run(CellCommand::Init { name, value: value.into() })?.into_counter()
    }

    /// Writes a cell. Returns the provisional counter.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        self.set_with(name, value, Ttl::Clear)
    }

    /// Writes a cell with a time to live. Returns the provisional counter.
    pub fn set_with(&mut self, name: &str, value: impl Into<Value>, ttl: Ttl) -> Result<u64> {
        let name = Name::new(name)?;
        self.run(CellCommand::Set { name, value: value.into(), ttl })?.into_counter()
    }

    /// Compare-and-swap: writes if the counter equals `expected` (`None`: if the cell is absent). Returns
    /// the provisional counter, or `None` if the counter differs.
    pub fn cas(
        &mut self,
        name: &str,
        expected: Option<u64>,
        value: impl Into<Value>,
    ) -> Result<Option<u64>> {
        let name = Name::new(name)?;
        self.run(CellCommand::Cas { name, expected, value: value.into() })?.into_maybe_counter()
    }

    /// Deletes a cell. Returns whether it existed.
    pub fn delete(&mut self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        self.run(CellCommand::Delete { name, counter: None })?.into_did()
    }

    /// Deletes a cell if its counter equals `counter`. Returns whether it was deleted.
    pub fn delete_if(&mut self, name: &str, counter: u64) -> Result<bool> {
        let name = Name::new(name)?;
        self.run(CellCommand::Delete { name, counter: Some(counter) })?.into_did()
    }

    /// Adds `by` to a number. Returns the sum and the provisional counter.
    pub fn incr(&mut self, name: &str, by: impl Into<Number>) -> Result<(Value, u64)> {
        let name = Name::new(name)?;
        self.run(CellCommand::Incr { name, by: by.into() })?.into_number()
    }

    /// Changes a cell's time to live. Returns whether the cell exists.
    pub fn expire(&mut self, name: &str, ttl: Ttl) -> Result<bool> {
        let name = Name::new(name)?;
        self.run(CellCommand::Expire { name, ttl })?.into_did()
    }

    /// Returns a record with its fields and counter, or `None` if it is absent. The revision is 0 for a
    /// record that this transaction wrote.
    ///
    /// ```
    /// use mainstay::{Database, RecordWrite};
    /// let db = Database::memory()?;
    /// db.records().set_field("job", "state", "pending")?;
    /// // A claim and a cell are written together, or not at all.
    /// db.transaction(|t| {
    ///     let job = t.get_record("job")?.expect("it is there");
    ///     assert_eq!(job.fields.text("state"), Some("pending"));
    ///     t.write_record(RecordWrite::to("job")?.set("state", "claimed")?)?;
    ///     t.incr("claimed", 1).map(drop)
    /// })?;
    /// assert_eq!(db.records().get_field("job", "state")?.as_deref(), Some(&b"claimed"[..]));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn get_record(&mut self, key: &str) -> Result<Option<Record>> {
        self.run(RecordCommand::Get { key: Name::new(key)?, fields: None })?.into_record()
    }

    /// Applies a conditional write. Returns the provisional counter, or `None` if a condition does not
    /// hold. A field that will hold the transaction's revision
    /// ([`FieldValue::Revision`](crate::FieldValue::Revision)) reads as 0 before the commit.
    pub fn write_record(&mut self, write: RecordWrite) -> Result<Option<u64>> {
        self.run(write)?.into_maybe_counter()
    }

    /// Deletes a record if all conditions hold. Returns whether it was deleted.
    pub fn delete_record(&mut self, key: &str, when: Vec<Condition>) -> Result<bool> {
        self.run(RecordCommand::Delete { key: Name::new(key)?, when })?.into_did()
    }

    /// Changes a record's time to live. Returns whether the record exists.
    pub fn expire_record(&mut self, key: &str, ttl: Ttl) -> Result<bool> {
        let key = Name::new(key)?;
        let only = ExpireOnly::Always;
        self.run(RecordCommand::Expire { key, ttl, only })?.into_did()
    }

    /// Scans records in byte order of their keys, including this transaction's writes.
    pub fn scan_records(
        &mut self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        let prefix = prefix.to_owned();
        let filters = filters.to_vec();
        let after = after.map(str::to_owned);
        self.run(RecordCommand::Scan { prefix, filters, after, limit })?.into_records()
    }

    /// Counts the records whose keys begin with `prefix` and that pass all filters, including this
    /// transaction's writes.
    pub fn count_records(&mut self, prefix: &str, filters: &[Where]) -> Result<u64> {
        let prefix = prefix.to_owned();
        let filters = filters.to_vec();
        self.run(RecordCommand::Count { prefix, filters })?.into_count()
    }

    /// Appends an event to a run. The returned event id and the flag for a new event are final once the
    /// commit succeeds: if another transaction appended the same event first, the commit fails with
    /// `Conflict`. The sequence number is provisional, because others may append meanwhile. The time is
    /// that of the commit. The receipt holds both final values.
    ///
    /// ```
    /// use mainstay::{Database, NewEvent};
    /// let db = Database::memory()?;
    /// // The event, the resulting state and the message about it: all or nothing.
    /// db.transaction(|t| {
    ///     t.append(NewEvent::new("order-7", "RunCompleted").plan("1"))?;
    ///     t.set("orders/7", "done")?;
    ///     t.put_message("orders.done", "order-7", Some("order-7")).map(drop)
    /// })?;
    /// assert_eq!(db.runs().fetch("order-7", 0, 10)?.len(), 1);
    /// assert_eq!(db.outbox().state()?.pending, 1);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn append(&mut self, event: NewEvent) -> Result<Appended> {
        self.run(build::run_append(event, None)?)?.into_run()?.into_appended()
    }

    /// Appends an event to a run if its last sequence number equals `expected_seq`. Otherwise fails with
    /// `SequenceMoved`.
    pub fn append_expecting(&mut self, event: NewEvent, expected_seq: u64) -> Result<Appended> {
        self.run(build::run_append(event, Some(expected_seq))?)?.into_run()?.into_appended()
    }

    /// Returns at most `limit` events of a run after `after_seq`, including those that this transaction
    /// appended.
    pub fn fetch_events(
        &mut self,
        run: &str,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<CanonicalEvent>> {
        let fetch = build::run_fetch(run, after_seq, limit)?;
        self.run(fetch)?.into_run()?.into_events()
    }

    /// Returns the fold of a run's events, including those that this transaction appended.
    pub fn run_snapshot(&mut self, run: &str) -> Result<Option<RunSnapshot>> {
        let command = RunCommand::Snapshot { run: Name::new(run)?, seq: None };
        self.run(command)?.into_run()?.into_snapshot()
    }

    /// Deletes a whole run. Returns whether it existed.
    pub fn delete_run(&mut self, run: &str) -> Result<bool> {
        self.run(RunCommand::Delete { run: Name::new(run)? })?.into_did()
    }

    /// Writes an outbox message that is delivered after the transaction commits. Returns its provisional
    /// number.
    pub fn put_message(
        &mut self,
        subject: &str,
        payload: impl Into<Vec<u8>>,
        run: Option<&str>,
    ) -> Result<u64> {
        let put = build::outbox_put(subject, payload, run)?;
        self.run(put)?.into_outbox()?.into_number()
    }

    /// Writes to a space of keyed state. Returns the outcome of each write. The commit fails with
    /// `Conflict` if another transaction writes to one of these keys meanwhile.
    ///
    /// ```
    /// use mainstay::{Database, StateWrite};
    /// let db = Database::memory()?;
    /// // A state, the source position that it belongs to, and a message about it: all or nothing.
    /// db.transaction(|t| {
    ///     t.write_states("counts", vec![StateWrite::put("a", "1", 7), StateWrite::advance("orders", 8)])?;
    ///     t.put_message("counted", "a", None).map(drop)
    /// })?;
    /// assert_eq!(db.keyed("counts")?.positions()?, [("orders".to_owned(), 8)]);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn write_states(&mut self, space: &str, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        let space = Name::new(space)?;
        self.run(StateCommand::Write { space, writes })?.into_state()?.into_wrote()
    }

    /// Returns a key's state, including this transaction's writes, or `None` if the key is absent.
    pub fn get_state(&mut self, space: &str, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        let look = StateCommands(&Name::new(space)?).look(&[key.as_ref()]);
        Ok(self.run(look)?.into_state()?.into_kept()?.pop().flatten().and_then(Kept::into_state))
    }

    /// Commits and blocks until the outcome is as durable as configured. Fails with `Conflict` if the read
    /// set, or a state that an answer depended on, has changed.
    pub fn commit(self) -> Result<Receipt> {
        match self.0 {
            TransactionBackend::Here(open) => open.commit(),
            TransactionBackend::There(open) => wait(open.commit()),
        }
    }

    /// Returns the transaction that [`InteractiveTransaction::commit`] would execute, so that it can be
    /// executed together with others ([`Database::execute_all`](crate::Database::execute_all)).
    ///
    /// It succeeds and fails as `commit` does, except that a changed read set is reported as `GuardFailed`,
    /// which is of the same kind as `Conflict`. A read-only transaction becomes an empty one. The read
    /// snapshot is no longer pinned against retention.
    pub fn into_transaction(self) -> Result<Transaction> {
        match self.0 {
            TransactionBackend::Here(open) => open.into_transaction(),
            TransactionBackend::There(open) => wait(open.into_transaction()),
        }
    }

    /// Turns the error of a transaction that [`InteractiveTransaction::into_transaction`] made into the
    /// error that [`InteractiveTransaction::commit`] returns: `GuardFailed` becomes `Conflict`.
    pub fn refusal(error: Error) -> Error {
        open_transaction::refusal(error)
    }

    /// Discards all of its writes.
    pub fn rollback(self) {}
}
