//! Interactive transactions in the reference model: a private copy of the branch and a read set of guards.

use super::run::Run;
use super::versions::{Version, Versions};
use super::{Moment, Oracle, State, cells, records};
use mainstay_model::{
    Answer, CellCommand, Code, Command, Contract, Error, Field, FieldValue, Guard, Name,
    OutboxCommand, Page, Receipt, Record, RecordCommand, RecordPage, RecordWrite, Result, Revision,
    RunCommand, Stamp, StringCommand, Transaction, Versioned, Where,
};
use std::collections::BTreeSet;

/// Placeholder revision of writes by the open transaction.
const OPEN: Revision = Revision::MAX;

/// An open interactive transaction.
#[derive(Clone, Debug)]
pub struct Open {
    branch: String,
    id: u32,
    snapshot: Moment,
    copy: State,
    guards: Vec<Guard>,
    steps: Vec<Command>,
    /// The spaces that the transaction has accessed.
    spaces: BTreeSet<Name>,
    /// The answers of commands on keyed state, by step.
    told: Vec<(usize, Answer)>,
    wrote: bool,
}

impl Open {
    /// Begins a transaction on a branch, at the newest revision.
    pub fn begin(oracle: &Oracle, branch: &str) -> Result<Open> {
        let id = oracle.id(branch)?;
        let copy = oracle.line(branch)?.state.clone();
        let branch = branch.to_owned();
        let snapshot = oracle.latest();
        let (guards, steps, spaces, told) = Default::default();
        Ok(Open { branch, id, snapshot, copy, guards, steps, spaces, told, wrote: false })
    }

    /// The revision of the transaction's snapshot.
    pub fn revision(&self) -> Revision {
        self.snapshot.revision
    }

    /// Returns whether the transaction has written anything.
    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// Returns whether this transaction has written the cell.
    pub fn owns(&self, name: &str) -> bool {
        written_here(&self.copy.cells, name)
    }

    /// Reads a cell. A read from the snapshot adds a guard; a read of an own write does not.
    pub fn get(&mut self, name: &Name) -> Option<Versioned> {
        if !self.owns(name.as_str()) {
            self.guard(Contract::Cells, name);
        }
        let seen = self.copy.cells.live(name.as_str(), self.moment())?;
        let shown = cells::shown(seen);
        Some(Versioned { revision: told(shown.revision), ..shown })
    }

    /// Reads a record and always adds a guard, because an own write may have kept fields from the
    /// snapshot.
    pub fn get_record(&mut self, key: &Name, wanted: Option<&[Field]>) -> Option<Record> {
        self.guard(Contract::Records, key);
        let seen = self.copy.records.live(key.as_str(), self.moment())?;
        let shown = records::some(records::shown(seen), wanted);
        Some(Record { revision: told(shown.revision), ..shown })
    }

    /// Lists names, including own writes, and guards the range.
    pub fn list(&mut self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let cells = &self.copy.cells;
        let page = cells::list(cells, prefix, after, limit, self.moment())?;
        let expires = self.earliest(cells, page.names.iter());
        self.guard_range(Contract::Cells, prefix, after, page.next.clone(), expires);
        Ok(page)
    }

    /// Scans records, including own writes, and guards the range independent of the filters.
    pub fn scan(
        &mut self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        limit: usize,
    ) -> Result<RecordPage> {
        let records = &self.copy.records;
        let mut page = records::scan(records, prefix, filters, after, limit, self.moment())?;
        let expires = self.earliest(records, page.records.iter().map(|(key, _)| key));
        self.guard_range(Contract::Records, prefix, after, page.next.clone(), expires);
        page.records.iter_mut().for_each(|(_, record)| record.revision = told(record.revision));
        Ok(page)
    }

    /// Counts records, including own writes, and guards the range.
    pub fn count(&mut self, prefix: &str, filters: &[Where]) -> u64 {
        let records = &self.copy.records;
        let passing = records::passing(records, prefix, filters, None, self.moment());
        let expires = self.earliest(records, passing.iter().map(|(key, _)| key));
        self.guard_range(Contract::Records, prefix, None, None, expires);
        passing.len() as u64
    }

    /// Runs a command on the private copy. Every command except a blind write counts as a read, because
    /// its answer depends on the previous state.
    pub fn command(&mut self, command: impl Into<Command>) -> Result<Answer> {
        let command = command.into();
        read_by(&command).into_iter().for_each(|(contract, name)| self.guard(contract, &name));
        self.guard_event(&command);
        if let Command::State(command) = &command {
            self.spaces.extend(command.space().cloned());
        }
        let mut run = Run::new(&mut self.copy, OPEN, self.snapshot.now, self.id);
        let answer = run.command(&command)?;
        self.wrote |= run.wrote;
        if let Command::State(_) = &command {
            self.told.push((self.steps.len(), answer.clone()));
        }
        self.steps.push(command);
        Ok(answer)
    }

    /// Returns whether an accessed space was written since the snapshot. The engine may report a
    /// conflict in that case. It must report one if an answer would change.
    pub fn may_conflict(&self, oracle: &Oracle) -> bool {
        let Ok(line) = oracle.line(&self.branch) else { return true };
        let since = self.snapshot.revision;
        let latest = oracle.latest().revision;
        !self.spaces.iter().all(|space| line.state.spaces.unwritten(space.as_str(), since, latest))
    }

    /// Commits the transaction. Fails with `Conflict` if a read has changed; a read-only transaction
    /// never fails.
    pub fn commit(self, oracle: &mut Oracle) -> Result<Option<Receipt>> {
        if !self.wrote {
            return Ok(None);
        }
        let mut transaction = Transaction::on(&self.branch);
        transaction.branch_id = Some(self.id);
        transaction.guards = self.guards;
        transaction.steps = self.steps.into_iter().map(Into::into).collect();
        let mut after = oracle.clone();
        let done = match after.execute(&transaction) {
            Err(error) if matches!(error.code(), Code::GuardFailed | Code::RunNotFound) => {
                Err(changed())
            }
            other => other,
        };
        // The command had an answer before, so a refusal now is a conflict.
        let is_told = |error: &Error| self.told.iter().any(|(at, _)| error.position() == Some(*at));
        let receipt = done.map_err(|error| if is_told(&error) { changed() } else { error })?;
        if self.told.iter().any(|(at, answer)| receipt.answers[*at] != *answer) {
            return Err(changed());
        }
        *oracle = after;
        Ok(Some(receipt))
    }

    fn moment(&self) -> Moment {
        Moment { revision: OPEN, now: self.snapshot.now }
    }

    /// Guards the presence or absence of the event that an append looked up.
    fn guard_event(&mut self, command: &Command) {
        let Command::Run(RunCommand::Append { event, expected: None }) = command else { return };
        let (Ok(run), Ok(key)) = (Name::new(&event.run_id), event.key()) else { return };
        let log = self.copy.logs.value(run.as_str(), self.snapshot);
        let is = log.and_then(|log| log.of_key(&key).map(|event| event.run_seq));
        self.guards.push(Guard::Event { run, key, is });
    }

    /// Guards the state of a name in the snapshot.
    fn guard(&mut self, contract: Contract, name: &Name) {
        let expires = match contract {
            Contract::Records => expiry(self.copy.records.live(name.as_str(), self.snapshot)),
            _ => expiry(self.copy.cells.live(name.as_str(), self.snapshot)),
        };
        let name = name.clone();
        let since = self.snapshot.revision;
        self.guards.push(Guard::Unchanged { contract, name, since, expires });
    }

    fn guard_range(
        &mut self,
        contract: Contract,
        prefix: &str,
        after: Option<&str>,
        upto: Option<String>,
        expires: Option<Stamp>,
    ) {
        let prefix = prefix.to_owned();
        let after = after.map(str::to_owned);
        let since = self.snapshot.revision;
        self.guards.push(Guard::RangeUnchanged { contract, prefix, after, upto, since, expires });
    }

    /// The earliest expiry among the names shown, except own writes.
    fn earliest<'n, T: Clone>(
        &self,
        versions: &Versions<T>,
        shown: impl Iterator<Item = &'n String>,
    ) -> Option<Stamp> {
        let seen = shown.filter_map(|name| versions.live(name, self.moment()));
        seen.filter(|version| version.revision != OPEN).filter_map(|version| version.expires).min()
    }
}

fn changed() -> Error {
    Error::new(Code::Conflict, "what was read has changed")
}

fn written_here<T: Clone>(versions: &Versions<T>, name: &str) -> bool {
    versions.newest(name, OPEN).is_some_and(|version| version.revision == OPEN)
}

fn expiry<T>(seen: Option<&Version<T>>) -> Option<Stamp> {
    seen.and_then(|version| version.expires)
}

/// Maps the placeholder of own writes to 0, because they have no revision yet.
fn told(revision: Revision) -> Revision {
    if revision == OPEN { 0 } else { revision }
}

/// The names that a command's answer depends on, apart from counters. Redis commands depend on both the
/// cell and the record of a name.
fn read_by(command: &Command) -> Vec<(Contract, Name)> {
    let both = |name: &Name| [(Contract::Cells, name.clone()), (Contract::Records, name.clone())];
    match command {
        Command::Cell(CellCommand::Set { .. }) => vec![],
        Command::Cell(command) => {
            command.name().map(|name| (Contract::Cells, name.clone())).into_iter().collect()
        }
        Command::String(StringCommand::SetAll { only_absent: false, .. }) => vec![],
        Command::String(StringCommand::Put { .. }) => vec![],
        Command::String(StringCommand::SetAll { pairs, .. }) => {
            pairs.iter().flat_map(|(name, _)| both(name)).collect()
        }
        Command::String(command) => command.name().into_iter().flat_map(both).collect(),
        Command::Record(RecordCommand::Write(write)) if is_blind(write) => vec![],
        Command::Record(command) => {
            command.key().map(|key| (Contract::Records, key.clone())).into_iter().collect()
        }
        Command::Hash(command) => both(command.key()).to_vec(),
        Command::Run(RunCommand::Append { expected: None, .. }) => vec![],
        Command::Run(command) => {
            let run = command.run().and_then(|run| Name::new(run).ok());
            run.map(|run| (Contract::Runs, run)).into_iter().collect()
        }
        Command::Outbox(OutboxCommand::Ack { ids } | OutboxCommand::AckHeld { ids, .. }) => {
            ids.iter().map(message).collect()
        }
        Command::Outbox(
            OutboxCommand::Fail { id, .. }
            | OutboxCommand::FailHeld { id, .. }
            | OutboxCommand::Replay { id },
        ) => vec![message(id)],
        _ => vec![],
    }
}

/// The guard target of a message: its ID.
fn message(id: &u64) -> (Contract, Name) {
    let name = Name::new(&id.to_string()).unwrap_or_else(|error| panic!("{error}"));
    (Contract::Outbox, name)
}

/// Returns whether a record write is independent of the old state.
fn is_blind(write: &RecordWrite) -> bool {
    let looks = |value: &FieldValue| matches!(value, FieldValue::Sum { .. });
    let adds = write.set.iter().any(|(_, value)| looks(value));
    write.when.is_empty() && !write.set.is_empty() && !adds
}
