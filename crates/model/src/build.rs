//! Builds commands from the arguments of handles, for embedded and served databases alike.

use crate::{
    Code, Durability, Error, Field, Name, NewEvent, OutboxCommand, Result, RunCommand, RunFilter,
    SessionCommand, StateCommand, StateKey, Transaction, Version,
};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

/// How often a transaction is retried after conflicts.
pub const RETRIES: usize = 1000;

/// Maximum number of entries that one transaction seals.
pub const SEAL_PIECE: usize = 10_000;

/// Builds commands on one space.
pub struct StateCommands<'a>(pub &'a Name);

impl StateCommands<'_> {
    /// The options and the frontier.
    pub fn info(&self) -> StateCommand {
        StateCommand::Info { space: self.0.clone() }
    }

    /// The states of keys.
    pub fn look(&self, keys: &[&[u8]]) -> StateCommand {
        let keys = keys.iter().map(|key| StateKey(key.to_vec())).collect();
        StateCommand::Look { space: self.0.clone(), keys }
    }

    /// A page of states.
    pub fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> StateCommand {
        let prefix = prefix.to_vec();
        let after = after.map(<[u8]>::to_vec);
        StateCommand::Scan { space: self.0.clone(), prefix, after, limit }
    }

    /// A page of a log's items.
    pub fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> StateCommand {
        let key = key.to_vec();
        let after = after.map(<[u8]>::to_vec);
        StateCommand::Items { space: self.0.clone(), key, after, limit }
    }

    /// A page of writes that wait for a seal.
    pub fn waiting(&self, below: Option<Version>, limit: usize) -> StateCommand {
        StateCommand::Waiting { space: self.0.clone(), below, limit }
    }

    /// Seals up to a frontier, in pieces.
    pub fn seal(&self, frontier: Version) -> StateCommand {
        StateCommand::Seal { space: self.0.clone(), frontier, limit: SEAL_PIECE }
    }

    /// A block of all entries.
    pub fn dump(&self, after: Option<Vec<u8>>) -> StateCommand {
        StateCommand::Dump { space: self.0.clone(), after, limit_bytes: DUMP_BYTES }
    }
}

/// Number of bytes of entries per request of a dump.
const DUMP_BYTES: usize = 4 << 20;

/// A transaction of one command on keyed state.
pub fn state_transaction(
    branch: &str,
    command: StateCommand,
    durability: Option<Durability>,
) -> Transaction {
    Transaction { durability, ..Transaction::on(branch).step(command) }
}

/// Rejects a command on keyed state that writes.
pub fn check_state_read(command: &StateCommand) -> Result<()> {
    if command.is_read() {
        Ok(())
    } else {
        Err(Error::new(
            Code::InvalidArgument,
            "a command on keyed state that does not only read: execute it in a transaction",
        ))
    }
}

/// Whole milliseconds of a duration; a fraction is cut off.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Builds the command that writes a message.
pub fn outbox_put(
    subject: &str,
    payload: impl Into<Vec<u8>>,
    run: Option<&str>,
) -> Result<OutboxCommand> {
    let run = run.map(Name::new).transpose()?;
    Ok(OutboxCommand::Put { subject: subject.to_owned(), payload: payload.into(), run })
}

/// Checks the names of fields.
pub fn field_names(fields: &[&str]) -> Result<Vec<Field>> {
    fields.iter().map(Field::new).collect()
}

/// Rejects a writing command where only reads are allowed.
pub fn check_read(is_read: bool) -> Result<()> {
    let message = "this command writes: execute it in a transaction";
    if is_read { Ok(()) } else { Err(Error::new(Code::InvalidArgument, message)) }
}

/// Builds the command that appends an event. Computes the idempotency key here, which keeps that work off
/// the writer thread.
pub fn run_append(mut event: NewEvent, expected: Option<u64>) -> Result<RunCommand> {
    event.check()?;
    event.idempotency_key = Some(event.key()?);
    Ok(RunCommand::Append { event: Box::new(event), expected })
}

/// Builds the transaction that appends several events. An error names the position of the invalid event.
pub fn run_batch(branch: &str, events: Vec<NewEvent>) -> Result<Transaction> {
    let mut transaction = Transaction::on(branch);
    for (position, event) in events.into_iter().enumerate() {
        let command = run_append(event, None).map_err(|error| error.at_position(position))?;
        transaction.steps.push(command.into());
    }
    Ok(transaction)
}

/// A page of a run's events.
pub fn run_fetch(run: &str, after: u64, limit: usize) -> Result<RunCommand> {
    Ok(RunCommand::Fetch { run: Name::new(run)?, after, limit })
}

/// A page of runs.
pub fn run_list(filter: &RunFilter, after: Option<&str>, limit: usize) -> RunCommand {
    RunCommand::List { filter: filter.clone(), after: after.map(str::to_owned), limit }
}

/// Options for opening a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    name: Option<String>,
    lease: Option<Duration>,
    capabilities: Vec<(String, String)>,
}

impl SessionOptions {
    /// Default options: a generated unique name and a lease of 60 seconds.
    pub fn new() -> SessionOptions {
        SessionOptions::default()
    }

    /// Sets the name. If a session of this name exists, it is reopened.
    #[must_use]
    pub fn name(mut self, name: &str) -> SessionOptions {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the lease. The session expires if its client is silent for this long.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> SessionOptions {
        self.lease = Some(lease);
        self
    }

    /// Declares a capability of the client as a free-form name and value.
    #[must_use]
    pub fn capability(mut self, name: &str, value: &str) -> SessionOptions {
        self.capabilities.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns whether a name was set, which other clients can know.
    pub fn has_name(&self) -> bool {
        self.name.is_some()
    }

    /// Builds the command that opens the session. Generates a unique name if none was set.
    pub fn command(self) -> Result<SessionCommand> {
        let SessionOptions { name, lease, capabilities } = self;
        let session = match name {
            Some(name) => Name::new(&name)?,
            None => random_name()?,
        };
        Ok(SessionCommand::Open { session, lease_ms: lease.map(millis), capabilities, hold: None })
    }
}

/// A random name of 96 bits, as hexadecimal text.
fn random_name() -> Result<Name> {
    // The standard library seeds each `RandomState` from the operating system's randomness.
    let [high, low] = [1, 2].map(|half| RandomState::new().hash_one(half));
    Name::new(&format!("{high:016x}{:08x}", low as u32))
}
