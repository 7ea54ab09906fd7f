//! Interactive transactions on a served database: open on the server, on a connection of their own.

use crate::handle::cells::{cell, counter, did, maybe_counter, number, page, unexpected};
use crate::handle::keyed::{self, Ask};
use crate::handle::outbox;
use crate::handle::records::{self, record, records};
use crate::handle::runs;
use crate::remote::link::Link;
use crate::remote::seat::Seat;
use crate::wire::{Act, Acted};
use mainstay_model::{
    Answer, Appended, CanonicalEvent, CellCommand, Command, Condition, Durability, ExpireOnly,
    Kept, Name, NewEvent, Number, Page, Receipt, Record, RecordCommand, RecordPage, RecordWrite,
    Result, Revision, RunCommand, RunSnapshot, State, StateCommand, StateWrite, Transaction, Ttl,
    Value, Versioned, Where, Wrote,
};

/// An open transaction. Dropping it rolls it back.
pub struct AsyncInteractive {
    seat: Seat,
    branch: String,
    revision: Revision,
    durability: Option<Durability>,
}

impl AsyncInteractive {
    pub(crate) async fn begin(link: &Link, branch: &str) -> Result<AsyncInteractive> {
        let branch = branch.to_owned();
        let (seat, revision) = link.hold(&Act::Begin { branch: branch.clone() }).await?;
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
        match self.seat.act_held(&Act::Run(command.into())).await? {
            Acted::Answered(answer) => Ok(answer),
            _ => Err(unexpected()),
        }
    }

    /// The value of a cell.
    pub async fn get(&mut self, name: &str) -> Result<Option<Value>> {
        Ok(self.get_versioned(name).await?.map(|cell| cell.value))
    }

    /// The value of a cell with its counter; the revision of an own write is 0.
    pub async fn get_versioned(&mut self, name: &str) -> Result<Option<Versioned>> {
        cell(self.run(CellCommand::Get { name: Name::new(name)? }).await?)
    }

    /// Names in byte order, own writes included.
    pub async fn list(&mut self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        page(self.run(CellCommand::List { prefix, after, limit }).await?)
    }

    /// Writes when the cell is absent; gives its counter either way.
    pub async fn init(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        let (name, value) = (Name::new(name)?, value.into());
        counter(self.run(CellCommand::Init { name, value }).await?)
    }

    /// Writes; gives the provisional counter.
    pub async fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<u64> {
        self.set_with(name, value, Ttl::Clear).await
    }

    /// Writes with a time to live; gives the provisional counter.
    pub async fn set_with(&mut self, name: &str, value: impl Into<Value>, ttl: Ttl) -> Result<u64> {
        let (name, value) = (Name::new(name)?, value.into());
        counter(self.run(CellCommand::Set { name, value, ttl }).await?)
    }

    /// Writes when the counter is the expected one (`None`: when absent).
    pub async fn cas(
        &mut self,
        name: &str,
        expected: Option<u64>,
        value: impl Into<Value>,
    ) -> Result<Option<u64>> {
        let (name, value) = (Name::new(name)?, value.into());
        maybe_counter(self.run(CellCommand::Cas { name, expected, value }).await?)
    }

    /// Deletes; says whether the cell existed.
    pub async fn delete(&mut self, name: &str) -> Result<bool> {
        did(self.run(CellCommand::Delete { name: Name::new(name)?, counter: None }).await?)
    }

    /// Deletes when the counter is this one.
    pub async fn delete_if(&mut self, name: &str, counter: u64) -> Result<bool> {
        let (name, counter) = (Name::new(name)?, Some(counter));
        did(self.run(CellCommand::Delete { name, counter }).await?)
    }

    /// Adds to a number; gives the sum and the provisional counter.
    pub async fn incr(&mut self, name: &str, by: impl Into<Number>) -> Result<(Value, u64)> {
        let (name, by) = (Name::new(name)?, by.into());
        number(self.run(CellCommand::Incr { name, by }).await?)
    }

    /// Changes a cell's time to live; says whether the cell exists.
    pub async fn expire(&mut self, name: &str, ttl: Ttl) -> Result<bool> {
        did(self.run(CellCommand::Expire { name: Name::new(name)?, ttl }).await?)
    }

    /// A record with its fields and counter; the revision of an own write is 0.
    pub async fn get_record(&mut self, key: &str) -> Result<Option<Record>> {
        record(self.run(RecordCommand::Get { key: Name::new(key)?, fields: None }).await?)
    }

    /// Writes as told; gives the provisional counter, or nothing when a condition does not hold.
    pub async fn write_record(&mut self, write: RecordWrite) -> Result<Option<u64>> {
        maybe_counter(self.run(write).await?)
    }

    /// Deletes a record if all conditions hold; says whether it did.
    pub async fn delete_record(&mut self, key: &str, when: Vec<Condition>) -> Result<bool> {
        did(self.run(RecordCommand::Delete { key: Name::new(key)?, when }).await?)
    }

    /// Changes a record's time to live; says whether the record exists.
    pub async fn expire_record(&mut self, key: &str, ttl: Ttl) -> Result<bool> {
        let (key, only) = (Name::new(key)?, ExpireOnly::Always);
        did(self.run(RecordCommand::Expire { key, ttl, only }).await?)
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
        records(self.run(RecordCommand::Scan { prefix, filters, after, limit }).await?)
    }

    /// How many records there are that begin with `prefix` and pass all filters, own writes included.
    pub async fn count_records(&mut self, prefix: &str, filters: &[Where]) -> Result<u64> {
        let (prefix, filters) = (prefix.to_owned(), filters.to_vec());
        records::count(self.run(RecordCommand::Count { prefix, filters }).await?)
    }

    /// Appends an event to a run. Its name and whether it was new are so once the transaction has committed: where
    /// another has told the same event first, that is a `Conflict`. Its sequence is provisional, as others may append
    /// meanwhile, and its time is that of the commit: the receipt has both.
    pub async fn append(&mut self, event: NewEvent) -> Result<Appended> {
        runs::appended(self.run(runs::append(event, None)?).await?)
    }

    /// Appends an event to a run if its last sequence is this one.
    pub async fn append_expecting(
        &mut self,
        event: NewEvent,
        expected_seq: u64,
    ) -> Result<Appended> {
        runs::appended(self.run(runs::append(event, Some(expected_seq))?).await?)
    }

    /// Events of a run behind one of them, own ones included.
    pub async fn fetch_events(
        &mut self,
        run: &str,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<CanonicalEvent>> {
        let fetch = runs::fetch(run, after_seq, limit)?;
        runs::events(runs::of_runs(self.run(fetch).await?)?)
    }

    /// What the events of a run add up to, own ones included.
    pub async fn run_snapshot(&mut self, run: &str) -> Result<Option<RunSnapshot>> {
        let command = RunCommand::Snapshot { run: Name::new(run)?, seq: None };
        runs::snapshot(runs::of_runs(self.run(command).await?)?)
    }

    /// Deletes a whole run; says whether there was one.
    pub async fn delete_run(&mut self, run: &str) -> Result<bool> {
        did(self.run(RunCommand::Delete { run: Name::new(run)? }).await?)
    }

    /// Writes a message that is sent once the transaction is committed; its number is provisional.
    pub async fn put_message(
        &mut self,
        subject: &str,
        payload: impl Into<Vec<u8>>,
        run: Option<&str>,
    ) -> Result<u64> {
        let put = outbox::put(subject, payload, run)?;
        outbox::number(self.run(put).await?)
    }

    /// Writes to a space of keyed state; says what became of each.
    pub async fn write_states(
        &mut self,
        space: &str,
        writes: Vec<StateWrite>,
    ) -> Result<Vec<Wrote>> {
        let space = Name::new(space)?;
        keyed::wrote(self.run(StateCommand::Write { space, writes }).await?)
    }

    /// A key's state, own writes included.
    pub async fn get_state(&mut self, space: &str, key: impl AsRef<[u8]>) -> Result<Option<State>> {
        let look = Ask(&Name::new(space)?).look(&[key.as_ref()]);
        Ok(keyed::kept(self.run(look).await?)?.pop().flatten().and_then(Kept::into_state))
    }

    /// Commits, or fails with `Conflict` when something that was read has changed.
    pub async fn commit(mut self) -> Result<Receipt> {
        match self.seat.act(&Act::Commit { durability: self.durability }).await? {
            Acted::Committed(receipt) => Ok(receipt),
            _ => Err(unexpected()),
        }
    }

    /// What [`AsyncInteractive::commit`] would execute, as a value.
    pub async fn into_transaction(mut self) -> Result<Transaction> {
        match self.seat.act(&Act::Take { durability: self.durability }).await? {
            Acted::Taken(transaction) => Ok(*transaction),
            _ => Err(unexpected()),
        }
    }

    /// Forgets everything it wrote.
    pub fn rollback(self) {}
}
