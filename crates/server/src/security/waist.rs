//! Authorization of transactions and commands, shared by all front ends.
//!
//! ```text
//!   RESP plans, MULTI, TXN  --+
//!   HTTP routes             --+--> Transaction, Command --allow--> the database
//!   HTTP transactions       --+
//! ```
//!
//! Every front end uses this check, so none can forget a kind of command. A command that is unknown here
//! needs all permissions.

use super::audit::{Audit, Entry, Outcome};
use super::right::{Area, Right};
use super::user::{Denied, User};
use crate::repeats::Expected;
use mainstay::{
    Answer, BranchCommand, CellCommand, Command, Contract, ExpireOnly, Guard, HashCommand,
    IndexCommand, KeyCommand, Name, OutboxCommand, Receipt, RecordCommand, Request, RunCommand,
    SessionCommand, StateCommand, StringCommand, SystemCommand, Transaction,
};

const READ: Right = Right::read(Area::Cells);
const WRITE: Right = Right::write(Area::Cells);
const READ_RECORDS: Right = Right::read(Area::Records);
const WRITE_RECORDS: Right = Right::write(Area::Records);
const READ_RUNS: Right = Right::read(Area::Runs);
const WRITE_RUNS: Right = Right::write(Area::Runs);
const READ_KEYED: Right = Right::read(Area::Keyed);
const WRITE_KEYED: Right = Right::write(Area::Keyed);
const READ_SESSIONS: Right = Right::read(Area::Sessions);
const WRITE_SESSIONS: Right = Right::write(Area::Sessions);

impl User {
    /// Checks every step of a transaction, including the steps for the case that a guard fails.
    pub fn allow(&self, transaction: &Transaction) -> Result<(), Denied> {
        if self.is_unlimited() {
            return Ok(());
        }
        // A repeated request returns the stored answer, so the user needs write access to its session.
        if let Some(request) = transaction.session() {
            self.allow_key(&[WRITE_SESSIONS], &request.session)?;
        }
        transaction.guards.iter().try_for_each(|guard| self.allow_guard(guard))?;
        let otherwise = transaction.otherwise.iter().flatten();
        let mut steps = transaction.steps.iter().chain(otherwise);
        steps.try_for_each(|step| self.allow_command(&step.command))
    }

    /// Binds a request id to the user. Another user with the same id then neither gets the stored answer
    /// nor collides with it. On a server without users the id stays as it is, so that it still matches
    /// older receipts.
    pub fn own_request(&self, mut transaction: Transaction) -> Transaction {
        if let Some(Request::Named(id)) = &mut transaction.request
            && !self.is_everybody()
        {
            *id = id.of_user(self.name());
        }
        transaction
    }

    /// Checks a command.
    pub fn allow_command(&self, command: &Command) -> Result<(), Denied> {
        if self.is_unlimited() {
            return Ok(());
        }
        match command {
            Command::Cell(command) => self.allow_cell(command),
            Command::String(command) => self.allow_string(command),
            Command::Record(command) => self.allow_record(command),
            Command::Hash(command) => self.allow_hash(command),
            Command::Run(command) => self.allow_run(command),
            Command::Outbox(command) => self.allow_outbox(command),
            Command::State(command) => self.allow_state(command),
            Command::Session(command) => self.allow_session(command),
            Command::Key(command) => self.allow_names(command),
            // A branch contains all keys.
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

    /// Checks a guard. A guard reveals whether a condition holds, so it counts as a read.
    fn allow_guard(&self, guard: &Guard) -> Result<(), Denied> {
        match guard {
            Guard::Counter { name, .. } | Guard::Value { name, .. } => {
                self.allow_key(&[READ], name)
            }
            Guard::Record { key, .. } | Guard::Field { key, .. } => {
                self.allow_key(&[READ_RECORDS], key)
            }
            Guard::Event { run, .. } => self.allow_key(&[reading(Contract::Runs)], run),
            Guard::StateVersion { space, .. } | Guard::StateUnchanged { space, .. } => {
                self.allow_key(&[READ_KEYED], space)
            }
            // The number of a message is no key, so no prefix covers it.
            Guard::Unchanged { contract, .. } if !has_keys(*contract) => {
                self.may(reading(*contract))?;
                self.may_touch_everything()
            }
            Guard::Unchanged { contract, name, .. } => self.allow_key(&[reading(*contract)], name),
            Guard::RangeUnchanged { contract, prefix, .. } => {
                self.allow_range(reading(*contract), prefix)
            }
            _ => self.allow_unknown(),
        }
    }

    fn allow_cell(&self, command: &CellCommand) -> Result<(), Denied> {
        match command {
            CellCommand::Get { name } | CellCommand::History { name, .. } => {
                self.allow_key(&[READ], name)
            }
            CellCommand::List { prefix, .. } => self.allow_range(READ, prefix),
            // The result reveals the old value. So does the outcome of a condition.
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
            StringCommand::Get { name } => self.allow_key(&[READ], name),
            StringCommand::Expire { name, only: ExpireOnly::Always, .. }
            | StringCommand::Put { name, .. } => self.allow_key(&[WRITE], name),
            // The answers reveal the old value or the new one. So does the outcome of a condition on the
            // expiry.
            StringCommand::Expire { name, .. }
            | StringCommand::Persist { name }
            | StringCommand::Set { name, .. }
            | StringCommand::Swap { name, .. }
            | StringCommand::Take { name }
            | StringCommand::Touch { name, .. }
            | StringCommand::Append { name, .. }
            | StringCommand::Add { name, .. }
            | StringCommand::AddFloat { name, .. } => self.allow_key(&[READ, WRITE], name),
            _ => self.allow_unknown(),
        }
    }

    pub(super) fn allow_record(&self, command: &RecordCommand) -> Result<(), Denied> {
        match command {
            RecordCommand::Get { key, .. } | RecordCommand::History { key, .. } => {
                self.allow_key(&[READ_RECORDS], key)
            }
            RecordCommand::Scan { prefix, .. } | RecordCommand::Count { prefix, .. } => {
                self.allow_range(READ_RECORDS, prefix)
            }
            // The choice of a record reveals something about all records with the prefix.
            RecordCommand::Pick(pick) => {
                self.allow_range(READ_RECORDS, &pick.prefix)?;
                self.allow_range(WRITE_RECORDS, &pick.prefix)
            }
            RecordCommand::Write(write) => {
                if write.is_blind() {
                    self.allow_key(&[WRITE_RECORDS], &write.key)
                } else {
                    // The outcome of a condition reveals the old value.
                    self.allow_key(&[READ_RECORDS, WRITE_RECORDS], &write.key)
                }
            }
            RecordCommand::Delete { key, when } if !when.is_empty() => {
                self.allow_key(&[READ_RECORDS, WRITE_RECORDS], key)
            }
            RecordCommand::Expire { key, only, .. } if *only != ExpireOnly::Always => {
                self.allow_key(&[READ_RECORDS, WRITE_RECORDS], key)
            }
            RecordCommand::Delete { key, .. }
            | RecordCommand::Expire { key, .. }
            | RecordCommand::Restore { key, .. } => self.allow_key(&[WRITE_RECORDS], key),
            _ => self.allow_unknown(),
        }
    }

    fn allow_names(&self, command: &KeyCommand) -> Result<(), Denied> {
        match command {
            KeyCommand::Names { kinds, prefix, .. } => {
                kinds.iter().try_for_each(|kind| self.allow_range(reading(*kind), prefix))
            }
            KeyCommand::Count { kinds, .. } => {
                kinds.iter().try_for_each(|kind| self.may(reading(*kind)))?;
                self.may_touch_everything()
            }
            // The number of deleted keys reveals which keys existed.
            KeyCommand::Clear { .. } => {
                let admin = Right::write(Area::Admin);
                let rights = [READ, WRITE, READ_RECORDS, WRITE_RECORDS, admin];
                rights.iter().try_for_each(|right| self.may(*right))?;
                self.may_touch_everything()
            }
            _ => self.allow_unknown(),
        }
    }

    fn allow_hash(&self, command: &HashCommand) -> Result<(), Denied> {
        let key = command.key();
        match command {
            HashCommand::Get { .. } | HashCommand::Count { .. } => {
                self.allow_key(&[READ_RECORDS], key)
            }
            HashCommand::Set { only_absent: false, .. } | HashCommand::Delete { .. } => {
                self.allow_key(&[WRITE_RECORDS], key)
            }
            // The answers reveal whether a field existed, or its new value.
            HashCommand::Set { only_absent: true, .. }
            | HashCommand::Add { .. }
            | HashCommand::AddFloat { .. } => self.allow_key(&[READ_RECORDS, WRITE_RECORDS], key),
            _ => self.allow_unknown(),
        }
    }

    pub(super) fn allow_run(&self, command: &RunCommand) -> Result<(), Denied> {
        if let RunCommand::List { filter, .. } = command {
            return self.allow_range(READ_RUNS, &filter.prefix);
        }
        // The result of an append reveals whether the run has the event, and its contents.
        let rights: &[Right] = match command {
            command if command.is_read() => &[READ_RUNS],
            RunCommand::Append { .. } | RunCommand::Bootstrap { .. } => &[READ_RUNS, WRITE_RUNS],
            RunCommand::Delete { .. }
            | RunCommand::Restore { .. }
            | RunCommand::RestoreHidden { .. }
            | RunCommand::Keep { .. } => &[WRITE_RUNS],
            _ => return self.allow_unknown(),
        };
        rights.iter().try_for_each(|right| self.may(*right))?;
        self.may_touch(command.run().unwrap_or_default().as_bytes())?;
        self.allow_messages(command)
    }

    /// Checks the messages of an append, which need the same permissions as writing the messages alone.
    fn allow_messages(&self, command: &RunCommand) -> Result<(), Denied> {
        let events = match command {
            RunCommand::Append { event, .. } => std::slice::from_ref(&**event),
            RunCommand::Bootstrap { events, .. } => events,
            _ => &[],
        };
        for message in events.iter().filter_map(|event| event.message.as_ref()) {
            self.may(Right::write(Area::Outbox))?;
            self.may_touch(message.subject.as_bytes())?;
        }
        Ok(())
    }

    pub(super) fn allow_state(&self, command: &StateCommand) -> Result<(), Denied> {
        let rights: &[Right] = match command {
            command if command.is_read() => &[READ_KEYED],
            // The answers of these reveal the old state.
            StateCommand::Declare { .. }
            | StateCommand::Write { .. }
            | StateCommand::Seal { .. }
            | StateCommand::Take { .. } => &[READ_KEYED, WRITE_KEYED],
            StateCommand::Drop { .. }
            | StateCommand::Restore { .. }
            | StateCommand::Abandon { .. } => &[WRITE_KEYED],
            _ => return self.allow_unknown(),
        };
        match (command.space(), command) {
            (Some(space), _) => self.allow_key(rights, space),
            (None, StateCommand::Spaces { prefix, .. }) => self.allow_range(READ_KEYED, prefix),
            (None, _) => self.allow_unknown(),
        }
    }

    fn allow_session(&self, command: &SessionCommand) -> Result<(), Denied> {
        let rights: &[Right] = match command {
            command if command.reads() => &[READ_SESSIONS],
            // Opening an existing session returns its data, and a retry returns messages written before.
            SessionCommand::Open { .. } | SessionCommand::Retry { .. } => {
                &[READ_SESSIONS, WRITE_SESSIONS]
            }
            SessionCommand::KeepAlive { .. }
            | SessionCommand::Close { .. }
            | SessionCommand::Send { .. }
            | SessionCommand::Acknowledge { .. } => &[WRITE_SESSIONS],
            _ => return self.allow_unknown(),
        };
        match command.session() {
            Some(session) => self.allow_key(rights, session),
            // These commands read all sessions.
            None => {
                rights.iter().try_for_each(|right| self.may(*right))?;
                self.may_touch_everything()
            }
        }
    }

    /// Returns whether a user may see a change. The caller has already limited changes to the user's key
    /// prefixes. Names of branches, tags and messages are not keys.
    pub fn may_follow(&self, contract: Contract, key: &str) -> bool {
        if self.has_all_keys() {
            return true;
        }
        match contract {
            // The form is `space/key` or `space@source`. A prefix that contains such a character could
            // match beyond the name of the space, but permissions are on names of spaces.
            Contract::Keyed => {
                let space = key.split(['/', '@']).next().unwrap_or_default();
                self.may_touch(space.as_bytes()).is_ok()
            }
            contract => has_keys(contract),
        }
    }

    /// Writing a message needs access to its subject. Delivering messages needs access to all keys.
    pub(super) fn allow_outbox(&self, command: &OutboxCommand) -> Result<(), Denied> {
        match command {
            OutboxCommand::Put { subject, run, .. } => {
                self.may(Right::write(Area::Outbox))?;
                let run = run.as_ref().map(|run| self.may_touch(run.as_bytes()));
                run.unwrap_or(Ok(()))?;
                self.may_touch(subject.as_bytes())
            }
            command => {
                self.may(Right::read(Area::Outbox))?;
                if !command.is_read() {
                    self.may(Right::write(Area::Outbox))?;
                }
                self.may_touch_everything()
            }
        }
    }

    fn allow_range(&self, right: Right, prefix: &str) -> Result<(), Denied> {
        self.may(right)?;
        self.may_list(prefix.as_bytes())
    }

    fn allow_key(&self, rights: &[Right], name: &Name) -> Result<(), Denied> {
        rights.iter().try_for_each(|right| self.may(*right))?;
        self.may_touch(name.as_bytes())
    }

    /// Checks a command newer than this file: it needs all permissions.
    fn allow_unknown(&self) -> Result<(), Denied> {
        [READ, WRITE, READ_RECORDS, WRITE_RECORDS].iter().try_for_each(|right| self.may(*right))?;
        [READ_KEYED, WRITE_KEYED].iter().try_for_each(|right| self.may(*right))?;
        [READ_SESSIONS, WRITE_SESSIONS].iter().try_for_each(|right| self.may(*right))?;
        self.may(Right::write(Area::Admin))?;
        self.may_touch_everything()
    }
}

/// Returns the permission for reading a kind of state.
const fn reading(contract: Contract) -> Right {
    match contract {
        Contract::Cells => READ,
        Contract::Records => READ_RECORDS,
        Contract::Runs => READ_RUNS,
        Contract::Outbox => Right::read(Area::Outbox),
        Contract::Keyed => READ_KEYED,
        Contract::Sessions => READ_SESSIONS,
        _ => Right::read(Area::Branches),
    }
}

/// Returns whether a kind of state has keys, on which users have permissions. Branches, tags and messages
/// have none.
pub const fn has_keys(contract: Contract) -> bool {
    matches!(
        contract,
        Contract::Cells | Contract::Records | Contract::Runs | Contract::Keyed | Contract::Sessions
    )
}

/// The audit entries of a transaction: one per administrative command.
#[derive(Default)]
pub struct TransactionAudit {
    entries: Vec<CommandEntry>,
    /// Checks the receipt of a session request. A receipt of another request means that this one was not
    /// executed.
    expected: Option<Expected>,
}

struct CommandEntry {
    entry: Entry,
    /// True if the command is one of `steps`, not of `otherwise`.
    is_step: bool,
    /// Index of its answer, if that side of the transaction ran.
    position: usize,
}

impl TransactionAudit {
    /// Creates the entries of a transaction of a user.
    pub fn new(audit: &Audit, user: &User, peer: &str, transaction: &Transaction) -> Self {
        if !audit.is_on() {
            return TransactionAudit::default();
        }
        let steps = transaction.steps.iter().enumerate().map(|found| (true, found));
        let otherwise = transaction.otherwise.iter().flatten().enumerate();
        let all = steps.chain(otherwise.map(|found| (false, found)));
        let entries = all.filter_map(|(is_step, (position, step))| {
            let (name, about) = administrative(&step.command)?;
            let entry = Entry::new(Some(user.name()), peer, name, about);
            Some(CommandEntry { entry, is_step, position })
        });
        TransactionAudit { entries: entries.collect(), expected: Expected::of(transaction) }
    }

    /// Returns whether it has no administrative command.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Records that the user lacks a permission.
    pub fn record_denied(&self, audit: &Audit) {
        audit.record_all(self.entries.iter().map(|it| (&it.entry, Outcome::Denied)));
    }

    /// Records the outcome of each command. Without a receipt the transaction failed, and it is unknown
    /// which side ran, so all commands count as failed. A step that did not run because a guard failed
    /// counts as failed too. An unused alternative is not recorded.
    pub fn record(&self, audit: &Audit, receipt: Option<&Receipt>) {
        let is_expected = |receipt: &&Receipt| {
            self.expected.as_ref().is_none_or(|expected| expected.is_met_by(receipt))
        };
        let receipt = receipt.filter(is_expected);
        let entries =
            self.entries.iter().filter_map(|CommandEntry { entry, is_step, position }| {
                let ran = receipt.filter(|receipt| receipt.held == *is_step);
                let outcome = match ran.and_then(|receipt| receipt.answers.get(*position)) {
                    Some(Answer::Failed(_)) => Outcome::Failed,
                    Some(_) => Outcome::Done,
                    None if *is_step || receipt.is_none() => Outcome::Failed,
                    None => return None,
                };
                Some((entry, outcome))
            });
        audit.record_all(entries);
    }
}

/// Returns the audit entries of the administrative commands.
pub fn audited_commands<'c>(
    audit: &Audit,
    user: &User,
    peer: &str,
    commands: impl Iterator<Item = &'c Command>,
) -> Vec<Entry> {
    if !audit.is_on() {
        return Vec::new();
    }
    commands
        .filter_map(administrative)
        .map(|(name, about)| Entry::new(Some(user.name()), peer, name, about))
        .collect()
}

/// Returns the audit name and the objects of an administrative command.
pub fn administrative(command: &Command) -> Option<(&'static str, Vec<String>)> {
    match command {
        Command::Branch(command) => {
            let (name, about) = of_branches(command);
            Some((name, about.into_iter().map(str::to_owned).collect()))
        }
        Command::Index(command) => Some(("rec.index", of_indexes(command))),
        Command::System(SystemCommand::Sweep { .. }) => Some(("sweep", Vec::new())),
        Command::Key(KeyCommand::Clear { .. }) => Some(("flushdb", Vec::new())),
        _ => None,
    }
}

/// Returns the words of the equivalent `REC.INDEX`.
fn of_indexes(command: &IndexCommand) -> Vec<String> {
    match command {
        IndexCommand::Add { prefix, .. } => vec!["ADD".into(), prefix.clone()],
        IndexCommand::Drop { id } => vec!["DROP".into(), id.to_string()],
        _ => Vec::new(),
    }
}

fn of_branches(command: &BranchCommand) -> (&'static str, Vec<&str>) {
    match command {
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
    }
}

#[cfg(test)]
mod tests;
