//! Interactive transactions on a served database: open on the server, on a connection of their own.

use crate::handle::keyed::Ask;
use crate::handle::outbox;
use crate::handle::runs;
use crate::remote::connection_pool::ConnectionPool;
use crate::remote::dedicated::DedicatedConnection;
use crate::wire::{TransactionReply, TransactionRequest};
use mainstay_model::{
    Answer, Appended, CanonicalEvent, CellCommand, Command, Condition, Durability, ExpireOnly,
    Kept, Name, NewEvent, Number, Page, Receipt, Record, RecordCommand, RecordPage, RecordWrite,
    Result, Revision, RunCommand, RunSnapshot, State, StateCommand, StateWrite, Transaction, Ttl,
    Value, Versioned, Where, Wrote,
};

/// An open transaction. Dropping it rolls it back.
pub struct AsyncInteractive {
    seat: DedicatedConnection,
    branch: String,
    revision: Revision,
    durability: Option<Durability>,
}

impl AsyncInteractive {
    pub(crate) async fn begin(link: &ConnectionPool, branch: &str) -> Result<AsyncInteractive> {
        let branch = branch.to_owned();
        let (seat, revision) =
            link.hold(&TransactionRequest::Begin { branch: branch.clone() }).await?;
        Ok(AsyncInteractive { seat, branch, revision, durability: None })
    }

    /// The branch it works on.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The revision it reads.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Overrides the database's durability for the commit.
    pub fn durability(&mut self, durability: Durability) {
        self.durability = Some(durability);
    }

    /// Runs a command on data: a read, a write, or both. One that fails leaves the transaction open
    /// and is forgotten, though what it read counts as read.
    pub async fn run(&mut self, command: impl Into<Command>) -> Result<Answer> {
        match self.seat.act_held(&TransactionRequest::Run(command.into())).await? {
            TransactionReply::Answered(answer) => Ok(answer),
            _ => Err(Answer::mismatch()),
        }
    }

    /// The value of a cell.
    pub async fn get(&mut self, name: &str) -> Result<Option<Value>> {
        Ok(self.get_versioned(name).await?.map(|cell| cell.value))
    }

    /// The value of a cell with its counter; the revision of an own write is 0.
    pub async fn get_versioned(&mut self, name: &str) -> Result<Option<Versioned>> {
        self.run(CellCommand::Get { name: Name::new(name)? }).await?.into_cell()
    }

    /// Names in byte order, own writes included.
    pub async fn list(&mut self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.run(CellCommand::List { prefix, after, limit }).await?.into_names()
    }

    /// Writes when the cell is absent; gives its counter either way.
    pub async fn init(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        let (name, value) = (Name::new(name)?, value.into());
        self.run(CellCommand::Init { name, value }).await?.into_counter()
    }

    /// Writes; gives the provisional counter.
    pub async fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        self.set_with(name, value, Ttl::Clear).await
    }

    /// Writes with a time to live; gives the provisional counter.
    pub async fn set_with(&mut self, name: &str, value: impl Into<Value>, ttl: Ttl) -> Result<u64> {
        let (name, value) = (Name::new(name)?, value.into());
        self.run(CellCommand::Set { name, value, ttl }).await?.into_counter()
    }

    /// Writes when the counter is the expected one (`None`: when absent).
    pub async fn cas(
        &mut self,
        name: &str,
        expected: Option<u64>,
        value: impl Into<Value>,
    ) -> Result<Option<u64>> {
        let (name, value) = (Name::new(name)?, value.into());
        self.run(CellCommand::Cas { name, expected, value }).await?.into_maybe_counter()
    }

    /// Deletes; says whether the cell existed.
    pub async fn delete(&mut self, name: &str) -> Result<bool> {
        self.run(CellCommand::Delete { name: Name::new(name)?, counter: None }).await?.into_did()
    }

    /// Deletes when the counter is this one.
    pub async fn delete_if(&mut self, name: &str, counter: u64) -> Result<bool> {
        let (name, counter) = (Name::new(name)?, Some(counter));
        self.run(CellCommand::Delete { name, counter }).await?.into_did()
    }

    /// Adds to a number; gives the sum and the provisional counter.
    pub async fn incr(&mut self, name: &str, by: impl Into<Number>) -> Result<(Value, u64)> {
        let (name, by) = (Name::new(name)?, by.into());
        self.run(CellCommand::Incr { name, by }).await?.into_number()
    }

    /// Changes a cell's time to live; says whether the cell exists.
    pub async fn expire(&mut self, name: &str, ttl: Ttl) -> Result<bool> {
        self.run(CellCommand::Expire { name: Name::new(name)?, ttl }).await?.into_did()
    }

    /// A record with its fields and counter; the revision of an own write is 0.
    pub async fn get_record(&mut self, key: &str) -> Result<Option<Record>> {
        self.run(RecordCommand::Get { key: Name::new(key)?, fields: None }).await?.into_record()
    }

    /// Writes as told; gives the provisional counter, or nothing when a condition does not hold.
    pub async fn write_record(&mut self, write: RecordWrite) -> Result<Option<u64>> {
        self.run(write).await?.into_maybe_counter()
    }

    /// Deletes a record if all conditions hold; says whether it did.
    pub async fn delete_record(&mut self, key: &str, when: Vec<Condition>) -> Result<bool> {
        self.run(RecordCommand::Delete { key: Name::new(key)?, when }).await?.into_did()
    }

    /// Changes a record's time to live; says whether the record exists.
    pub async fn expire_record(&mut self, key: &str, ttl: Ttl) -> Result<bool> {
        let (key, only) = (Name::new(key)?, ExpireOnly::Always);
        self.run(RecordCommand::Expire { key, ttl, only }).await?.into_did()
    }

    /// Records in byte order of their keys, own writes included.
    pub async fn scan_records(
        &mut self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        let (prefix, filters) = (prefix.to_owned(), filters.to_vec());
        let after = after.map(str::to_owned);
        self.run(RecordCommand::Scan { prefix, filters, after, limit }).await?.into_records()
    }

    /// How many records there are that begin with `prefix` and pass all filters, own writes included.
    pub async fn count_records(&mut self, prefix: &str, filters: &[Where]) -> Result<u64> {
        let (prefix, filters) = (prefix.to_owned(), filters.to_vec());
        self.run(RecordCommand::Count { prefix, filters }).await?.into_count()
    }

    /// Appends an event to a run. Its name and whether it was new are so once the transaction has committed: where
    /// another has told the same event first, that is a `Conflict`. Its sequence is provisional, as others may append
    /// meanwhile, and its time is that of the commit: the receipt has both.
    pub async fn append(&mut self, event: NewEvent) -> Result<Appended> {
        self.run(runs::append(event, None)?).await?.into_run()?.into_appended()
    }

    /// Appends an event to a run if its last sequence is this one.
    pub async fn append_expecting(
        &mut self,
        event: NewEvent,
        expected_seq: u64,
    ) -> Result<Appended> {
        self.run(runs::append(event, Some(expected_seq))?).await?.into_run()?.into_appended()
    }

    /// Events of a run behind one of them, own ones included.
    pub async fn fetch_events(
        &mut self,
        run: &str,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<CanonicalEvent>> {
        let fetch = runs::fetch(run, after_seq, limit)?;
        self.run(fetch).await?.into_run()?.into_events()
    }

    /// What the events of a run add up to, own ones included.
    pub async fn run_snapshot(&mut self, run: &str) -> Result<Option<RunSnapshot>> {
        let command = RunCommand::Snapshot { run: Name::new(run)?, seq: None };
        self.run(command).await?.into_run()?.into_snapshot()
    }

    /// Deletes a whole run; says whether there was one.
    pub async fn delete_run(&mut self, run: &str) -> Result<bool> {
        self.run(RunCommand::Delete { run: Name::new(run)? }).await?.into_did()
    }

    /// Writes a message that is sent once the transaction is committed; its number is provisional.
    pub async fn put_message(
        &mut self,
        subject: &str,
        payload: impl Into<Vec<u8>>,
        run: Option<&str>,
    ) -> Result<u64> {
        let put = outbox::put(subject, payload, run)?;
        self.run(put).await?.into_outbox()?.into_number()
    }

    /// Writes to a space of keyed state; says what became of each.
    pub async fn write_states(
        &mut self,
        space: &str,
        writes: Vec<StateWrite>,
    ) -> Result<Vec<Wrote>> {
        let space = Name::new(space)?;
        self.run(StateCommand::Write { space, writes }).await?.into_state()?.into_wrote()
    }

    /// A key's state, own writes included.
    pub async fn get_state(&mut self, space: &str, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        let look = Ask(&Name::new(space)?).look(&[key.as_ref()]);
        Ok(self
            .run(look)
            .await?
            .into_state()?
            .into_kept()?
            .pop()
            .flatten()
            .and_then(Kept::into_state))
    }

    /// Commits, or fails with `Conflict` when something that was read has changed.
    pub async fn commit(mut self) -> Result<Receipt> {
        match self.seat.act(&TransactionRequest::Commit { durability: self.durability }).await? {
            TransactionReply::Committed(receipt) => Ok(receipt),
            _ => Err(Answer::mismatch()),
        }
    }

    /// What [`AsyncInteractive::commit`] would execute, as a value.
    pub async fn into_transaction(mut self) -> Result<Transaction> {
        match self.seat.act(&TransactionRequest::Take { durability: self.durability }).await? {
            TransactionReply::Taken(transaction) => Ok(*transaction),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Forgets everything it wrote.
    pub fn rollback(self) {}
}
