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
    /// All that a transaction may do has to be allowed, also what it does only if a guard fails.
    pub fn allow(&self, transaction: &Transaction) -> Result<(), Denied> {
        if self.is_unlimited() {
            return Ok(());
        }
        // Whoever sends a request that was sent before is told what it was answered.
        if let Some(request) = transaction.session() {
            self.allow_key(&[WRITE_SESSIONS], &request.session)?;
        }
        transaction.guards.iter().try_for_each(|guard| self.allow_guard(guard))?;
        let otherwise = transaction.otherwise.iter().flatten();
        let mut steps = transaction.steps.iter().chain(otherwise);
        steps.try_for_each(|step| self.allow_command(&step.command))
    }

    /// Makes the name of a request the user's own: another user who chooses the same name neither gets the
    /// kept answer nor collides with it. A server without users keeps names as they are, as its older receipts
    /// are kept.
    pub fn own_request(&self, mut transaction: Transaction) -> Transaction {
        if let Some(Request::Named(id)) = &mut transaction.request
            && !self.is_everybody()
        {
            *id = id.of_user(self.name());
        }
        transaction
    }

    /// A command has to be allowed.
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
            // The number of a message is no key that anybody has a right on.
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
            StringCommand::Get { name } => self.allow_key(&[READ], name),
            StringCommand::Expire { name, only: ExpireOnly::Always, .. }
            | StringCommand::Put { name, .. } => self.allow_key(&[WRITE], name),
            // These answer what was there, or what has become of it. So does whether a condition on the expiry
            // held.
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
            // Which one it is given tells of all of them.
            RecordCommand::Pick(pick) => {
                self.allow_range(READ_RECORDS, &pick.prefix)?;
                self.allow_range(WRITE_RECORDS, &pick.prefix)
            }
            RecordCommand::Write(write) => match write.is_blind() {
                true => self.allow_key(&[WRITE_RECORDS], &write.key),
                // Whether a condition held tells what was there.
                false => self.allow_key(&[READ_RECORDS, WRITE_RECORDS], &write.key),
            },
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
            // The number that it answers tells what was there.
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
            // These answer whether a field was there, or what has become of it.
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
        // What comes of an append tells whether the run had the event, and what it says.
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

    /// An append with messages needs the rights that writing the messages alone needs, too.
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
            // What became of these tells what was there.
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
            // What is told of one that is there, and what is given out, was written before.
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
            // They tell of all sessions.
            None => {
                rights.iter().try_for_each(|right| self.may(*right))?;
                self.may_touch_everything()
            }
        }
    }

    /// Whether a user is told of a change, of keys that begin with what they may. Names of branches, tags and messages
    /// are no keys.
    pub fn may_follow(&self, contract: Contract, key: &str) -> bool {
        if self.has_all_keys() {
            return true;
        }
        match contract {
            // `space/key` and `space@source`: where a user's prefix has such a sign itself, it may reach beyond the name
            // of the space, which is what users have rights on.
            Contract::Keyed => {
                let space = key.split(['/', '@']).next().unwrap_or_default();
                self.may_touch(space.as_bytes()).is_ok()
            }
            contract => has_keys(contract),
        }
    }

    /// Whoever writes a message needs its subject, whoever sends them needs all.
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

    /// A command that came later than this file: whoever may do everything may do it.
    fn allow_unknown(&self) -> Result<(), Denied> {
        [READ, WRITE, READ_RECORDS, WRITE_RECORDS].iter().try_for_each(|right| self.may(*right))?;
        [READ_KEYED, WRITE_KEYED].iter().try_for_each(|right| self.may(*right))?;
        [READ_SESSIONS, WRITE_SESSIONS].iter().try_for_each(|right| self.may(*right))?;
        self.may(Right::write(Area::Admin))?;
        self.may_touch_everything()
    }
}

/// What it takes to read state of a kind.
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

/// Whether state of a kind has names that users have rights on: branches, tags and messages have not.
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
    /// Checks a session's receipt: a receipt of another request means that this one was not executed.
    expected: Option<Expected>,
}

struct CommandEntry {
    entry: Entry,
    /// Whether the command is one of `steps`, not of `otherwise`.
    is_step: bool,
    /// Where its answer is, if that side of the transaction ran.
    position: usize,
}

impl TransactionAudit {
    /// The entries of a transaction that a user sent.
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

    /// Whether none of its commands is an administrative one.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Records that the user may not.
    pub fn record_denied(&self, audit: &Audit) {
        audit.record_all(self.entries.iter().map(|it| (&it.entry, Outcome::Denied)));
    }

    /// Records how each command ended. Without a receipt the transaction failed, and which side of it ran is not known:
    /// all its commands failed. A step that did not run, because a guard did not hold, failed as well; an alternative that
    /// was not needed is not recorded.
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

/// The entries of the record for the administrative ones of some commands.
pub fn recorded_commands<'c>(
    audit: &Audit,
    user: &User,
    peer: &str,
    commands: impl Iterator<Item = &'c Command>,
) -> Vec<Entry> {
    if !audit.is_on() {
        return Vec::new();
    }
    let entry = |(name, about)| Entry::new(Some(user.name()), peer, name, about);
    commands.filter_map(administrative).map(entry).collect()
}

/// What the record calls a command, and what it is about, if it is an administrative one.
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

/// The words that `REC.INDEX` would be asked with.
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
