//! The check at the waist: what a transaction touches, against what a user may.
//!
//! ```text
//!   RESP plans, MULTI, TXN  --+
//!   HTTP routes             --+--> Transaction, Command --allow--> the database
//!   HTTP transactions       --+
//! ```
//!
//! Every face comes through here, so none can forget a kind of command; what is not known here needs
//! all rights there are.

use super::audit::{Audit, Entry};
use super::right::{Area, Right};
use super::user::{Denied, User};
use mainstay::{BranchCommand, CellCommand, Command, Guard, Name, StringCommand, Transaction};

const READ: Right = Right::read(Area::Cells);
const WRITE: Right = Right::write(Area::Cells);

impl User {
    /// All that a transaction may do has to be allowed, also what it does only if a guard fails.
    pub fn allow(&self, transaction: &Transaction) -> Result<(), Denied> {
        if self.is_unlimited() {
            return Ok(());
        }
        transaction.guards.iter().try_for_each(|guard| self.allow_guard(guard))?;
        let otherwise = transaction.otherwise.iter().flatten();
        let mut steps = transaction.steps.iter().chain(otherwise);
        steps.try_for_each(|step| self.allow_command(&step.command))
    }

    /// A command has to be allowed.
    pub fn allow_command(&self, command: &Command) -> Result<(), Denied> {
        if self.is_unlimited() {
            return Ok(());
        }
        match command {
            Command::Cell(command) => self.allow_cell(command),
            Command::String(command) => self.allow_string(command),
            // A branch is all keys at once.
            Command::Branch(_) => {
                self.may(Right::write(Area::Branches))?;
                self.may_touch_everything()
            }
            _ => {
                self.may(Right::write(Area::Admin))?;
                self.may_touch_everything()
            }
        }
    }

    /// A guard tells whether something is so: that is reading.
    fn allow_guard(&self, guard: &Guard) -> Result<(), Denied> {
        self.may(READ)?;
        match guard {
            Guard::Counter { name, .. }
            | Guard::Value { name, .. }
            | Guard::Unchanged { name, .. } => self.may_touch(name.as_bytes()),
            Guard::RangeUnchanged { prefix, .. } => self.may_list(prefix.as_bytes()),
            _ => self.may_touch_everything(),
        }
    }

    fn allow_cell(&self, command: &CellCommand) -> Result<(), Denied> {
        match command {
            CellCommand::Get { name } => self.allow_key(&[READ], name),
            CellCommand::List { prefix, .. } => {
                self.may(READ)?;
                self.may_list(prefix.as_bytes())
            }
            // The sum tells what was there.
            // So does whether a condition held.
            CellCommand::Incr { name, .. }
            | CellCommand::Init { name, .. }
            | CellCommand::Cas { name, .. }
            | CellCommand::Delete { name, counter: Some(_) } => {
                self.allow_key(&[READ, WRITE], name)
            }
            CellCommand::Set { name, .. }
            | CellCommand::Delete { name, counter: None }
            | CellCommand::Expire { name, .. }
            | CellCommand::Restore { name, .. } => self.allow_key(&[WRITE], name),
            _ => self.allow_unknown(),
        }
    }

    fn allow_string(&self, command: &StringCommand) -> Result<(), Denied> {
        match command {
            StringCommand::SetAll { pairs, only_absent } => {
                let rights: &[Right] = if *only_absent { &[READ, WRITE] } else { &[WRITE] };
                pairs.iter().try_for_each(|(name, _)| self.allow_key(rights, name))
            }
            StringCommand::Expire { name, .. } | StringCommand::Persist { name } => {
                self.allow_key(&[WRITE], name)
            }
            // These answer what was there, or what has become of it.
            StringCommand::Set { name, .. }
            | StringCommand::Take { name }
            | StringCommand::Touch { name, .. }
            | StringCommand::Append { name, .. }
            | StringCommand::Add { name, .. }
            | StringCommand::AddFloat { name, .. } => self.allow_key(&[READ, WRITE], name),
            _ => self.allow_unknown(),
        }
    }

    fn allow_key(&self, rights: &[Right], name: &Name) -> Result<(), Denied> {
        rights.iter().try_for_each(|right| self.may(*right))?;
        self.may_touch(name.as_bytes())
    }

    /// A command that came later than this file: whoever may do everything may do it.
    fn allow_unknown(&self) -> Result<(), Denied> {
        self.may(READ)?;
        self.may(WRITE)?;
        self.may(Right::write(Area::Admin))?;
        self.may_touch_everything()
    }
}

/// What is to be recorded of a transaction.
pub fn recorded(audit: &Audit, user: &User, peer: &str, transaction: &Transaction) -> Vec<Entry> {
    if !audit.is_on() {
        return Vec::new();
    }
    let steps = transaction.steps.iter().chain(transaction.otherwise.iter().flatten());
    let entry = |(name, about)| Entry::new(Some(user.name()), peer, name, about);
    steps.filter_map(|step| administrative(&step.command)).map(entry).collect()
}

/// What the record calls a command, and what it is about, if it is an administrative one.
pub fn administrative(command: &Command) -> Option<(&'static str, Vec<&str>)> {
    let Command::Branch(command) = command else { return None };
    Some(match command {
        BranchCommand::Fork { name, from, .. } => {
            ("branch.fork", vec![name.as_str(), from.as_str()])
        }
        BranchCommand::Create { name } => ("branch.create", vec![name.as_str()]),
        BranchCommand::Import { name } => ("branch.import", vec![name.as_str()]),
        BranchCommand::Finish { name, .. } => ("branch.finish", vec![name.as_str()]),
        BranchCommand::Delete { name } => ("branch.delete", vec![name.as_str()]),
        BranchCommand::Rename { name, to } => ("branch.rename", vec![name.as_str(), to.as_str()]),
        BranchCommand::Merge { from, into, .. } => {
            ("branch.merge", vec![from.as_str(), into.as_str()])
        }
        BranchCommand::Tag { name, branch, .. } => {
            ("tag.set", vec![name.as_str(), branch.as_str()])
        }
        BranchCommand::Untag { name } => ("tag.del", vec![name.as_str()]),
        _ => ("branch", Vec::new()),
    })
}

#[cfg(test)]
mod tests;
