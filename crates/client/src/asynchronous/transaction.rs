//! Async client: interactive transactions, held open by the server on a dedicated connection.

use crate::connection_pool::ConnectionPool;
use crate::dedicated::DedicatedConnection;
use mainstay_model::build::{self, StateCommands};
use mainstay_model::wire::{TransactionReply, TransactionRequest};
use mainstay_model::{
    Answer, Appended, CanonicalEvent, CellCommand, Command, Condition, Durability, ExpireOnly,
    Kept, Name, NewEvent, Number, Page, Receipt, Record, RecordCommand, RecordPage, RecordWrite,
    Result, Revision, RunCommand, RunSnapshot, State, StateCommand, StateWrite, Transaction, Ttl,
    Value, Versioned, Where, Wrote,
};

/// An open interactive transaction. It reads from a snapshot plus its own writes. Dropping it rolls it
/// back.
pub struct AsyncInteractive {
    seat: DedicatedConnection,
    branch: String,
    revision: Revision,
    durability: Option<Durability>,
}

impl AsyncInteractive {
    #[doc(hidden)]
    pub async fn begin(link: &ConnectionPool, branch: &str) -> Result<AsyncInteractive> {
        let branch = branch.to_owned();
        let (seat, revision) =
            link.hold(&TransactionRequest::Begin { branch: branch.clone() }).await?;
        Ok(AsyncInteractive { seat, branch, revision, durability: None })
    }

    /// The name of the branch that it works on.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The revision of its snapshot.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Overrides the database's durability for the commit.
    pub fn durability(&mut self, durability: Durability) {
        self.durability = Some(durability);
    }

    /// Runs a command on data: a read, a write, or both. A command that fails has no effect and leaves the
    /// transaction open, but its reads stay in the read set.
    pub async fn run(&mut self, command: impl Into<Command>) -> Result<Answer> {
        match self.seat.act_held(&TransactionRequest::Run(command.into())).await? {
            TransactionReply::Answered(answer) => Ok(answer),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Returns the value of a cell, or `None` if it is absent.
    pub async fn get(&mut self, name: &str) -> Result<Option<Value>> {
        Ok(self.get_versioned(name).await?.map(|cell| cell.value))
    }

    /// Returns the value of a cell with its counter, or `None` if the cell is absent. The revision is 0 for
    /// a value that this transaction wrote.
    pub async fn get_versioned(&mut self, name: &str) -> Result<Option<Versioned>> {
        self.run(CellCommand::Get { name: Name::new(name)? }).await?.into_cell()
    }

    /// Lists cell names in byte order, including this transaction's writes.
    pub async fn list(&mut self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let prefix = prefix.to_owned();
        let after = after.map(str::to_owned);
        self.run(CellCommand::List { prefix, after, limit }).await?.into_names()
    }

    /// Writes the cell only if it is absent. Returns its counter in both cases.
    pub async fn init(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        let name = Name::new(name)?;
        let value = value.into();
        self.run(CellCommand::Init { name, value }).await?.into_counter()
    }

    /// Writes a cell. Returns the provisional counter.
    pub async fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        self.set_with(name, value, Ttl::Clear).await
    }

    /// Writes a cell with a time to live. Returns the provisional counter.
    pub async fn set_with(&mut self, name: &str, value: impl Into<Value>, ttl: Ttl) -> Result<u64> {
        let name = Name::new(name)?;
        let value = value.into();
        self.run(CellCommand::Set { name, value, ttl }).await?.into_counter()
    }

    /// Compare-and-swap: writes if the counter equals `expected` (`None`: if the cell is absent). Returns
    /// the provisional counter, or `None` if the counter differs.
    pub async fn cas(
        &mut self,
        name: &str,
        expected: Option<u64>,
        value: impl Into<Value>,
    ) -> Result<Option<u64>> {
        let name = Name::new(name)?;
        let value = value.into();
        self.run(CellCommand::Cas { name, expected, value }).await?.into_maybe_counter()
    }

    /// Deletes a cell. Returns whether it existed.
    pub async fn delete(&mut self, name: &str) -> Result<bool> {
        self.run(CellCommand::Delete { name: Name::new(name)?, counter: None }).await?.into_did()
    }

    /// Deletes a cell if its counter equals `counter`. Returns whether it was deleted.
    pub async fn delete_if(&mut self, name: &str, counter: u64) -> Result<bool> {
        let name = Name::new(name)?;
        let counter = Some(counter);
        self.run(CellCommand::Delete { name, counter }).await?.into_did()
    }

    /// Adds `by` to a number. Returns the sum and the provisional counter.
    pub async fn incr(&mut self, name: &str, by: impl Into<Number>) -> Result<(Value, u64)> {
        let name = Name::new(name)?;
        let by = by.into();
        self.run(CellCommand::Incr { name, by }).await?.into_number()
    }

    /// Changes a cell's time to live. Returns whether the cell exists.
    pub async fn expire(&mut self, name: &str, ttl: Ttl) -> Result<bool> {
        self.run(CellCommand::Expire { name: Name::new(name)?, ttl }).await?.into_did()
    }

    /// Returns a record with its fields and counter, or `None` if it is absent. The revision is 0 for a
    /// record that this transaction wrote.
    pub async fn get_record(&mut self, key: &str) -> Result<Option<Record>> {
        self.run(RecordCommand::Get { key: Name::new(key)?, fields: None }).await?.into_record()
    }

    /// Applies a conditional write. Returns the provisional counter, or `None` if a condition does not
    /// hold. A field that will hold the transaction's revision
    /// ([`FieldValue::Revision`](mainstay_model::FieldValue::Revision)) reads as 0 before the commit.
    pub async fn write_record(&mut self, write: RecordWrite) -> Result<Option<u64>> {
        self.run(write).await?.into_maybe_counter()
    }

    /// Deletes a record if all conditions hold. Returns whether it was deleted.
    pub async fn delete_record(&mut self, key: &str, when: Vec<Condition>) -> Result<bool> {
        self.run(RecordCommand::Delete { key: Name::new(key)?, when }).await?.into_did()
    }

    /// Changes a record's time to live. Returns whether the record exists.
    pub async fn expire_record(&mut self, key: &str, ttl: Ttl) -> Result<bool> {
        let key = Name::new(key)?;
        let only = ExpireOnly::Always;
        self.run(RecordCommand::Expire { key, ttl, only }).await?.into_did()
    }

    /// Scans records in byte order of their keys, including this transaction's writes.
    pub async fn scan_records(
        &mut self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        let prefix = prefix.to_owned();
        let filters = filters.to_vec();
        let after = after.map(str::to_owned);
        self.run(RecordCommand::Scan { prefix, filters, after, limit }).await?.into_records()
    }

    /// Counts the records whose keys begin with `prefix` and that pass all filters, including this
    /// transaction's writes.
    pub async fn count_records(&mut self, prefix: &str, filters: &[Where]) -> Result<u64> {
        let prefix = prefix.to_owned();
        let filters = filters.to_vec();
        self.run(RecordCommand::Count { prefix, filters }).await?.into_count()
    }

    /// Appends an event to a run. The returned event id and the flag for a new event are final once the
    /// commit succeeds: if another transaction appended the same event first, the commit fails with
    /// `Conflict`. The sequence number is provisional, because others may append meanwhile. The time is
    /// that of the commit. The receipt holds both final values.
    pub async fn append(&mut self, event: NewEvent) -> Result<Appended> {
        self.run(build::run_append(event, None)?).await?.into_run()?.into_appended()
    }

    /// Appends an event to a run if its last sequence number equals `expected_seq`. Otherwise fails with
    /// `SequenceMoved`.
    pub async fn append_expecting(
        &mut self,
        event: NewEvent,
        expected_seq: u64,
    ) -> Result<Appended> {
        self.run(build::run_append(event, Some(expected_seq))?).await?.into_run()?.into_appended()
    }

    /// Returns at most `limit` events of a run after `after_seq`, including those that this transaction
    /// appended.
    pub async fn fetch_events(
        &mut self,
        run: &str,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<CanonicalEvent>> {
        let fetch = build::run_fetch(run, after_seq, limit)?;
        self.run(fetch).await?.into_run()?.into_events()
    }

    /// Returns the fold of a run's events, including those that this transaction appended.
    pub async fn run_snapshot(&mut self, run: &str) -> Result<Option<RunSnapshot>> {
        let command = RunCommand::Snapshot { run: Name::new(run)?, seq: None };
        self.run(command).await?.into_run()?.into_snapshot()
    }

    /// Deletes a whole run. Returns whether it existed.
    pub async fn delete_run(&mut self, run: &str) -> Result<bool> {
        self.run(RunCommand::Delete { run: Name::new(run)? }).await?.into_did()
    }

    /// Writes an outbox message that is delivered after the transaction commits. Returns its provisional
    /// number.
    pub async fn put_message(
        &mut self,
        subject: &str,
        payload: impl Into<Vec<u8>>,
        run: Option<&str>,
    ) -> Result<u64> {
        let put = build::outbox_put(subject, payload, run)?;
        self.run(put).await?.into_outbox()?.into_number()
    }

    /// Writes to a space of keyed state. Returns the outcome of each write. The commit fails with
    /// `Conflict` if another transaction writes to one of these keys meanwhile.
    pub async fn write_states(
        &mut self,
        space: &str,
        writes: Vec<StateWrite>,
    ) -> Result<Vec<Wrote>> {
        let space = Name::new(space)?;
        self.run(StateCommand::Write { space, writes }).await?.into_state()?.into_wrote()
    }

    /// Returns a key's state, including this transaction's writes, or `None` if the key is absent.
    pub async fn get_state(&mut self, space: &str, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        let look = StateCommands(&Name::new(space)?).look(&[key.as_ref()]);
        Ok(self
            .run(look)
            .await?
            .into_state()?
            .into_kept()?
            .pop()
            .flatten()
            .and_then(Kept::into_state))
    }

    /// Commits and waits until the outcome is as durable as configured. Fails with `Conflict` if the read
    /// set, or a state that an answer depended on, has changed.
    pub async fn commit(mut self) -> Result<Receipt> {
        match self.seat.act(&TransactionRequest::Commit { durability: self.durability }).await? {
            TransactionReply::Committed(receipt) => Ok(receipt),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Returns the transaction that [`AsyncInteractive::commit`] would execute, so that it can be
    /// executed together with others (`Database::execute_all`).
    ///
    /// It succeeds and fails as `commit` does, except that a changed read set is reported as `GuardFailed`,
    /// which is of the same kind as `Conflict`. A read-only transaction becomes an empty one. The read
    /// snapshot is no longer pinned against retention.
    pub async fn into_transaction(mut self) -> Result<Transaction> {
        match self.seat.act(&TransactionRequest::Take { durability: self.durability }).await? {
            TransactionReply::Taken(transaction) => Ok(*transaction),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Discards all of its writes.
    pub fn rollback(self) {}
}
