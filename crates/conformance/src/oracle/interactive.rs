//! Interactive transactions in the model: a private copy, and a note of everything read.

use super::cells::{self, Cells, Run};
use super::{Moment, Oracle};
use mainstay_model::{
    Answer, CellCommand, Code, Command, Contract, Error, Guard, Name, Page, Receipt, Result,
    Revision, Stamp, StringCommand, Transaction, Versioned,
};

/// The revision that stands for "written by this open transaction".
const OPEN: Revision = Revision::MAX;

/// An open transaction.
#[derive(Clone, Debug)]
pub struct Open {
    branch: String,
    id: u32,
    snapshot: Moment,
    copy: Cells,
    guards: Vec<Guard>,
    steps: Vec<Command>,
    wrote: bool,
}

impl Open {
    /// Begins on a branch, at the newest revision.
    pub fn begin(oracle: &Oracle, branch: &str) -> Result<Open> {
        let (id, copy) = (oracle.id(branch)?, oracle.line(branch)?.cells.clone());
        let (branch, snapshot) = (branch.to_owned(), oracle.latest());
        Ok(Open { branch, id, snapshot, copy, guards: vec![], steps: vec![], wrote: false })
    }

    /// The revision it reads at.
    pub fn revision(&self) -> Revision {
        self.snapshot.revision
    }

    /// Whether it has written anything that took effect.
    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// Whether this transaction has itself written the cell.
    pub fn owns(&self, name: &str) -> bool {
        cells::newest(&self.copy, name, OPEN).is_some_and(|version| version.revision == OPEN)
    }

    /// Reads a cell: its own write, or the snapshot's, which is then guarded.
    pub fn get(&mut self, name: &Name) -> Option<Versioned> {
        if !self.owns(name.as_str()) {
            self.guard(name);
        }
        let seen = cells::live(&self.copy, name.as_str(), self.moment());
        seen.map(|version| shown(version.shown()))
    }

    /// Lists names, its own writes included; the range is guarded.
    pub fn list(&mut self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page> {
        let page = cells::list(&self.copy, prefix, after, limit, self.moment())?;
        let upto = page.next.clone();
        let expires = self.earliest(prefix, after, upto.as_deref());
        self.guards.push(Guard::RangeUnchanged {
            contract: Contract::Cells,
            prefix: prefix.to_owned(),
            after: after.map(str::to_owned),
            upto,
            since: self.snapshot.revision,
            expires,
        });
        Ok(page)
    }

    /// Runs a command on the private copy. All but a plain set answer with something about the
    /// cell, be it a counter that rests on what was there before: they count as reads.
    pub fn command(&mut self, command: impl Into<Command>) -> Result<Answer> {
        let command = command.into();
        read_by(&command).into_iter().for_each(|name| self.guard(name));
        let mut run = Run::new(&mut self.copy, OPEN, self.snapshot.now, self.id);
        let answer = run.command(&command)?;
        self.wrote |= run.wrote;
        self.steps.push(command);
        Ok(answer)
    }

    /// Commits: `Conflict` if anything read has changed; one that wrote nothing never fails.
    pub fn commit(self, oracle: &mut Oracle) -> Result<Option<Receipt>> {
        if !self.wrote {
            return Ok(None);
        }
        let mut transaction = Transaction::on(&self.branch);
        transaction.branch_id = Some(self.id);
        transaction.guards = self.guards;
        transaction.steps = self.steps.into_iter().map(Into::into).collect();
        match oracle.execute(&transaction) {
            Err(error) if error.code() == Code::GuardFailed => {
                Err(Error::new(Code::Conflict, "what was read has changed"))
            }
            other => other.map(Some),
        }
    }

    fn moment(&self) -> Moment {
        Moment { revision: OPEN, now: self.snapshot.now }
    }

    /// Guards a cell as the snapshot has it.
    fn guard(&mut self, name: &Name) {
        let seen = cells::live(&self.copy, name.as_str(), self.snapshot);
        let expires = seen.and_then(|version| version.expires);
        let (name, since) = (name.clone(), self.snapshot.revision);
        self.guards.push(Guard::Unchanged { contract: Contract::Cells, name, since, expires });
    }

    /// The earliest expiry of what is live in a range and not this transaction's own.
    fn earliest(&self, prefix: &str, after: Option<&str>, upto: Option<&str>) -> Option<Stamp> {
        let inside = self.copy.keys().filter(|name| cells::in_range(name, prefix, after, upto));
        let seen = inside.filter_map(|name| cells::live(&self.copy, name, self.moment()));
        seen.filter(|version| version.revision != OPEN).filter_map(|version| version.expires).min()
    }
}

/// Its own writes have no revision yet.
fn shown(mut versioned: Versioned) -> Versioned {
    if versioned.revision == OPEN {
        versioned.revision = 0;
    }
    versioned
}

/// The cells whose state the answer of a command gives away, counters aside.
fn read_by(command: &Command) -> Vec<&Name> {
    match command {
        Command::Cell(CellCommand::Set { .. }) => vec![],
        Command::Cell(command) => command.name().into_iter().collect(),
        Command::String(StringCommand::SetAll { only_absent: false, .. }) => vec![],
        Command::String(StringCommand::SetAll { pairs, .. }) => {
            pairs.iter().map(|(name, _)| name).collect()
        }
        Command::String(command) => command.name().into_iter().collect(),
        _ => vec![],
    }
}
