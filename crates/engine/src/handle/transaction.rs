//! Interactive transactions: read a snapshot, write aside, commit if nothing read has changed.
//!
//! In this process that is [`OpenTransaction`], on a served database the server's.

use crate::handle::backend::Backend;
use crate::handle::keyed::Ask;
use crate::handle::outbox;
use crate::handle::runs;
use crate::lifecycle::engine::Engine;
use crate::read::open_transaction::{self, OpenTransaction};
use crate::remote::{AsyncInteractive, wait};
use mainstay_model::{
    Answer, Appended, CanonicalEvent, CellCommand, Code, Command, Condition, Contract, Durability,
    Error, ExpireOnly, Guard, HistoryEntry, Kept, KeyCommand, Name, NewEvent, Number, Page,
    Receipt, Record, RecordCommand, RecordHistoryEntry, RecordPage, RecordWrite, Result, Revision,
    RunAnswer, RunCommand, RunSnapshot, Stamp, State, StateCommand, StateWrite, Transaction, Ttl,
    Value, Versioned, Where, Wrote,
};
use std::sync::Arc;

use std::time::Duration;

/// An open transaction. Dropping it rolls it back.
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

    /// Runs a closure in a transaction while the writer waits, so that it never conflicts. Gives the value of the closure and
    /// the receipt; if one of the guards fails, the receipt says so and nothing is written.
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

    /// The branch it works on.
    pub fn branch(&self) -> &str {
        match &self.0 {
            TransactionBackend::Here(open) => open.branch(),
            TransactionBackend::There(open) => open.branch(),
        }
    }

    /// The revision it reads.
    pub fn revision(&self) -> Revision {
        match &self.0 {
            TransactionBackend::Here(open) => open.revision(),
            TransactionBackend::There(open) => open.revision(),
        }
    }

    /// Its time, which stands still: expiry is judged at it. On a served database only the server knows.
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

    /// Whether it has something to commit; of one that only read, the commit takes no revision. On a
    /// served database only the server knows, and this is true.
    pub fn has_steps(&self) -> bool {
        match &self.0 {
            TransactionBackend::Here(open) => open.step_count() > 0,
            TransactionBackend::There(_) => true,
        }
    }

    /// How many steps it has, which is where the next write's answer stands among the final ones of the
    /// receipt. On a served database only the server knows.
    pub fn step_count(&self) -> Option<usize> {
        match &self.0 {
            TransactionBackend::Here(open) => Some(open.step_count()),
            TransactionBackend::There(_) => None,
        }
    }

    /// How many keys and ranges it has read, of the 10,000 that it may. On a served database only the server knows.
    pub fn guard_count(&self) -> Option<usize> {
        match &self.0 {
            TransactionBackend::Here(open) => Some(open.guard_count()),
            TransactionBackend::There(_) => None,
        }
    }

    /// The memory that it holds, about: its commands, writes and reads. On a served database the
    /// server holds it, and this is 0.
    pub fn held_bytes(&self) -> usize {
        match &self.0 {
            TransactionBackend::Here(open) => open.held_bytes(),
            TransactionBackend::There(_) => 0,
        }
    }

    /// How long it stays open if nothing more is asked of it; nothing once it was given up, and on a served database, where
    /// only the server knows.
    pub fn time_left(&self) -> Option<Duration> {
        match &self.0 {
            TransactionBackend::Here(open) => open.time_left(),
            TransactionBackend::There(_) => None,
        }
    }

    /// Frees its memory if its time is over. It stays an open transaction to its caller, and says
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

    /// Frees its memory. Every later call fails with this error. On a served database this does
    /// nothing.
    pub fn give_up(&mut self, why: Error) {
        if let TransactionBackend::Here(open) = &mut self.0 {
            open.give_up(why);
        }
    }

    /// Runs a command on data: a read, a write, or both. One that fails leaves the transaction open
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
        match &mut self.0 {
            TransactionBackend::Here(open) => open.run(command.into()),
            TransactionBackend::There(open) => wait(open.run(command)),
        }
    }

    /// As [`InteractiveTransaction::run`], and the commit answers it once more, a read too: the answer in the receipt, at the place that
    /// [`InteractiveTransaction::step_count`] told before, has the revision and the time of the commit. On a served database a read is
    /// answered here alone.
    pub fn run_as_step(&mut self, command: impl Into<Command>) -> Result<Answer> {
        match &mut self.0 {
            TransactionBackend::Here(open) => open.run_as_step(command.into()),
            TransactionBackend::There(open) => wait(open.run(command)),
        }
    }

    /// The value of a cell.
    pub fn get(&mut self, name: &str) -> Result<Option<Value>> {
        Ok(self.get_versioned(name)?.map(|cell| cell.value))
    }

    /// The value of a cell with its counter; the revision of an own write is 0.
    pub fn get_versioned(&mut self, name: &str) -> Result<Option<Versioned>> {
        self.run(CellCommand::Get { name: Name::new(name)? })?.into_cell()
    }

    /// The versions of a cell, newest first; the revision of an own write is 0.
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

    /// The versions of a record, newest first; the revision of an own write is 0.
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

    /// The revision that brought an event; 0 for an own one.
    pub fn revision_of(&mut self, run: &str, seq: u64) -> Result<Option<Revision>> {
        match self.run(RunCommand::Revision { run: Name::new(run)?, seq })?.into_run()? {
            RunAnswer::Revision(revision) => Ok(revision),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Names of cells and records in byte order, each once, own writes included.
    pub fn names(&mut self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let kinds = vec![Contract::Cells, Contract::Records];
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        let hidden = Vec::new();
        self.run(KeyCommand::Names { kinds, prefix, after, limit, hidden })?.into_names()
    }

    /// Names in byte order, own writes included.
    pub fn list(&mut self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.run(CellCommand::List { prefix, after, limit })?.into_names()
    }

    /// Writes when the cell is absent; gives its counter either way.
    pub fn init(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        let name = Name::new(name)?;
        self.run(CellCommand::Init { name, value: value.into() })?.into_counter()
    }

    /// Writes; gives the provisional counter.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        self.set_with(name, value, Ttl::Clear)
    }

    /// Writes with a time to live; gives the provisional counter.
    pub fn set_with(&mut self, name: &str, value: impl Into<Value>, ttl: Ttl) -> Result<u64> {
        let name = Name::new(name)?;
        self.run(CellCommand::Set { name, value: value.into(), ttl })?.into_counter()
    }

    /// Writes when the counter is the expected one (`None`: when absent).
    pub fn cas(
        &mut self,
        name: &str,
        expected: Option<u64>,
        value: impl Into<Value>,
    ) -> Result<Option<u64>> {
        let name = Name::new(name)?;
        self.run(CellCommand::Cas { name, expected, value: value.into() })?.into_maybe_counter()
    }

    /// Deletes; says whether the cell existed.
    pub fn delete(&mut self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        self.run(CellCommand::Delete { name, counter: None })?.into_did()
    }

    /// Deletes when the counter is this one.
    pub fn delete_if(&mut self, name: &str, counter: u64) -> Result<bool> {
        let name = Name::new(name)?;
        self.run(CellCommand::Delete { name, counter: Some(counter) })?.into_did()
    }

    /// Adds to a number; gives the sum and the provisional counter.
    pub fn incr(&mut self, name: &str, by: impl Into<Number>) -> Result<(Value, u64)> {
        let name = Name::new(name)?;
        self.run(CellCommand::Incr { name, by: by.into() })?.into_number()
    }

    /// Changes a cell's time to live; says whether the cell exists.
    pub fn expire(&mut self, name: &str, ttl: Ttl) -> Result<bool> {
        let name = Name::new(name)?;
        self.run(CellCommand::Expire { name, ttl })?.into_did()
    }

    /// A record with its fields and counter; the revision of an own write is 0.
    ///
    /// ```
    /// use mainstay::{Database, RecordWrite};
    /// let db = Database::memory()?;
    /// db.records().set_field("job", "state", "pending")?;
    /// // A claim and a cell, both or none.
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

    /// Writes as told; gives the provisional counter, or nothing when a condition does not hold. What
    /// becomes the transaction's revision ([`FieldValue::Revision`](crate::FieldValue::Revision)) reads
    /// as 0 before the commit.
    pub fn write_record(&mut self, write: RecordWrite) -> Result<Option<u64>> {
        self.run(write)?.into_maybe_counter()
    }

    /// Deletes a record if all conditions hold; says whether it did.
    pub fn delete_record(&mut self, key: &str, when: Vec<Condition>) -> Result<bool> {
        self.run(RecordCommand::Delete { key: Name::new(key)?, when })?.into_did()
    }

    /// Changes a record's time to live; says whether the record exists.
    pub fn expire_record(&mut self, key: &str, ttl: Ttl) -> Result<bool> {
        let (key, only) = (Name::new(key)?, ExpireOnly::Always);
        self.run(RecordCommand::Expire { key, ttl, only })?.into_did()
    }

    /// Records in byte order of their keys, own writes included.
    pub fn scan_records(
        &mut self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        let (prefix, filters) = (prefix.to_owned(), filters.to_vec());
        let after = after.map(str::to_owned);
        self.run(RecordCommand::Scan { prefix, filters, after, limit })?.into_records()
    }

    /// How many records there are that begin with `prefix` and pass all filters, own writes included.
    pub fn count_records(&mut self, prefix: &str, filters: &[Where]) -> Result<u64> {
        let (prefix, filters) = (prefix.to_owned(), filters.to_vec());
        self.run(RecordCommand::Count { prefix, filters })?.into_count()
    }

    /// Appends an event to a run. Its name and whether it was new are so once the transaction has committed: where
    /// another has told the same event first, that is a `Conflict`. Its sequence is provisional, as others may append
    /// meanwhile, and its time is that of the commit: the receipt has both.
    ///
    /// ```
    /// use mainstay::{Database, NewEvent};
    /// let db = Database::memory()?;
    /// // What happened, the state it leaves and the message about it: all or nothing.
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
        self.run(runs::append(event, None)?)?.into_run()?.into_appended()
    }

    /// Appends an event to a run if its last sequence is this one.
    pub fn append_expecting(&mut self, event: NewEvent, expected_seq: u64) -> Result<Appended> {
        self.run(runs::append(event, Some(expected_seq))?)?.into_run()?.into_appended()
    }

    /// Events of a run behind one of them, own ones included.
    pub fn fetch_events(
        &mut self,
        run: &str,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<CanonicalEvent>> {
        let fetch = runs::fetch(run, after_seq, limit)?;
        self.run(fetch)?.into_run()?.into_events()
    }

    /// What the events of a run add up to, own ones included.
    pub fn run_snapshot(&mut self, run: &str) -> Result<Option<RunSnapshot>> {
        let command = RunCommand::Snapshot { run: Name::new(run)?, seq: None };
        self.run(command)?.into_run()?.into_snapshot()
    }

    /// Deletes a whole run; says whether there was one.
    pub fn delete_run(&mut self, run: &str) -> Result<bool> {
        self.run(RunCommand::Delete { run: Name::new(run)? })?.into_did()
    }

    /// Writes a message that is sent once the transaction is committed; its number is provisional.
    pub fn put_message(
        &mut self,
        subject: &str,
        payload: impl Into<Vec<u8>>,
        run: Option<&str>,
    ) -> Result<u64> {
        let put = outbox::put(subject, payload, run)?;
        self.run(put)?.into_outbox()?.into_number()
    }

    /// Writes to a space of keyed state; says what became of each. Where another writes to one of these keys meanwhile,
    /// that is a `Conflict`.
    ///
    /// ```
    /// use mainstay::{Database, StateWrite};
    /// let db = Database::memory()?;
    /// // A state, the position that it belongs to, and what is told of it: all or nothing.
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

    /// A key's state, own writes included.
    pub fn get_state(&mut self, space: &str, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        let look = Ask(&Name::new(space)?).look(&[key.as_ref()]);
        Ok(self.run(look)?.into_state()?.into_kept()?.pop().flatten().and_then(Kept::into_state))
    }

    /// Commits, or fails with `Conflict` when something that was read, or that an answer told of, has changed.
    pub fn commit(self) -> Result<Receipt> {
        match self.0 {
            TransactionBackend::Here(open) => open.commit(),
            TransactionBackend::There(open) => wait(open.commit()),
        }
    }

    /// Returns the transaction that [`InteractiveTransaction::commit`] would execute, to be executed beside others
    /// ([`Database::execute_all`](crate::Database::execute_all)).
    ///
    /// It succeeds and fails as `commit` does, only that what was read and has changed is
    /// `GuardFailed`, an error of the same kind as `Conflict`. Of one that only read, it is an empty
    /// transaction. What it read is no longer held back from retention.
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

    /// Forgets everything it wrote.
    pub fn rollback(self) {}
}
