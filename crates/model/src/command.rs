//! The commands of a transaction, one enum per contract (kind of state).

use crate::limits::PAGE_DEFAULT;
use crate::wire::fields;
use crate::{
    Contract, HashCommand, IndexCommand, Name, OutboxCommand, RecordCommand, Revision, RunCommand,
    SessionCommand, StateCommand, StringCommand, Value,
};
use serde::{Deserialize, Serialize};

/// One command on one of the contracts (kinds of state).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Command {
    /// A command on a named cell.
    Cell(CellCommand),
    /// A Redis string command on a named cell.
    String(StringCommand),
    /// A command on the branches and tags of the database.
    Branch(BranchCommand),
    /// An internal maintenance command of the engine: expiry and reaping.
    System(SystemCommand),
    /// A command on a record.
    Record(RecordCommand),
    /// A Redis hash command on a record.
    Hash(HashCommand),
    /// A command on the secondary indexes of records.
    Index(IndexCommand),
    /// A command on a run (event log).
    Run(RunCommand),
    /// A command on the outbox.
    Outbox(OutboxCommand),
    /// A command on a space of keyed state.
    State(StateCommand),
    /// A command on a session.
    Session(SessionCommand),
    /// A command on names of cells and records.
    Key(KeyCommand),
}

impl Command {
    /// Returns whether the command is read-only: an open transaction answers it from its snapshot and its own
    /// writes.
    pub fn is_read(&self) -> bool {
        match self {
            Command::Cell(command) => command.is_read(),
            Command::String(command) => matches!(command, StringCommand::Get { .. }),
            Command::Hash(command) => command.is_read(),
            Command::Record(command) => command.is_read(),
            Command::Run(command) => command.is_read(),
            Command::Outbox(command) => command.is_read(),
            Command::State(command) => command.is_read(),
            Command::Session(command) => command.reads(),
            Command::Key(command) => command.is_read(),
            Command::Branch(_) | Command::System(_) | Command::Index(_) => false,
        }
    }
}

/// Commands on names of cells and records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum KeyCommand {
    /// Lists names in byte order, each once, as the transaction sees them.
    Names {
        /// The contracts to include: cells, records.
        #[serde(with = "fields::list")]
        kinds: Vec<Contract>,
        /// Lists only names with this prefix.
        prefix: String,
        /// The cursor: lists only names after this one.
        after: Option<String>,
        /// The page size.
        limit: usize,
        /// Omits records whose keys have one of these prefixes.
        #[serde(default, with = "fields::list")]
        hidden: Vec<String>,
    },
    /// Counts names, as the transaction sees them. More than `limit` names are the error `TooLarge`.
    Count {
        /// The contracts to include: cells, records.
        #[serde(with = "fields::list")]
        kinds: Vec<Contract>,
        /// The highest count allowed.
        limit: usize,
        /// Omits records whose keys have one of these prefixes.
        #[serde(default, with = "fields::list")]
        hidden: Vec<String>,
    },
    /// Deletes all cells and records of the branch. Returns the number of names deleted. More than `limit`
    /// names are the error `TooLarge`, and none is deleted.
    Clear {
        /// The highest number of names to delete.
        limit: usize,
        /// Keeps records whose keys have one of these prefixes.
        #[serde(default, with = "fields::list")]
        hidden: Vec<String>,
    },
}

impl KeyCommand {
    /// The prefixes of the records to leave out.
    pub fn hidden(&self) -> &[String] {
        match self {
            KeyCommand::Names { hidden, .. }
            | KeyCommand::Count { hidden, .. }
            | KeyCommand::Clear { hidden, .. } => hidden,
        }
    }

    /// Returns whether the command is read-only.
    pub fn is_read(&self) -> bool {
        !matches!(self, KeyCommand::Clear { .. })
    }
}

impl Command {
    /// Returns whether only the writer thread can answer the command, so that it is not allowed in an open
    /// transaction. Other transactions may send and acknowledge in the meantime.
    pub fn is_of_writer_alone(&self) -> bool {
        match self {
            Command::Outbox(command) => matches!(
                command,
                OutboxCommand::Claim { .. } | OutboxCommand::Dead { .. } | OutboxCommand::Look
            ),
            Command::Session(command) => {
                !matches!(command, SessionCommand::Send { .. } | SessionCommand::Acknowledge { .. })
            }
            _ => false,
        }
    }
}

impl From<KeyCommand> for Command {
    fn from(command: KeyCommand) -> Command {
        Command::Key(command)
    }
}

impl Command {
    /// Returns whether the command is read-only and any snapshot can answer it. Only the writer thread has
    /// the sessions.
    pub fn is_snapshot_read(&self) -> bool {
        self.is_read() && !matches!(self, Command::Session(_))
    }

    /// Returns whether the command may read so many entries that other requests should not wait behind it.
    pub fn walks(&self) -> bool {
        self.looks_at() > PAGE_DEFAULT
    }

    /// The approximate number of entries that the command may read. A scan that skips deleted names, old
    /// versions or non-matching entries has no bound, however few entries it returns.
    #[inline]
    pub(crate) fn looks_at(&self) -> usize {
        match self {
            Command::Cell(CellCommand::List { .. } | CellCommand::History { .. })
            | Command::Record(
                RecordCommand::Scan { .. }
                | RecordCommand::Count { .. }
                | RecordCommand::History { .. },
            )
            | Command::Key(_)
            | Command::Run(RunCommand::List { .. } | RunCommand::Project { .. })
            | Command::State(
                StateCommand::Scan { .. }
                | StateCommand::List { .. }
                | StateCommand::Waiting { .. }
                | StateCommand::Items { .. }
                | StateCommand::Spaces { .. }
                | StateCommand::Dump { .. },
            ) => usize::MAX,
            Command::Record(RecordCommand::Pick(_)) => PICK_ENTRIES,
            Command::Run(RunCommand::Snapshot { .. }) => SNAPSHOT_ENTRIES,
            Command::Run(RunCommand::Fetch { limit, .. } | RunCommand::Alerts { limit, .. }) => {
                *limit
            }
            _ => 0,
        }
    }
}

/// The approximate number of entries that a pick reads if an index serves it.
const PICK_ENTRIES: usize = 16;
/// The most events that a snapshot of a run replays.
const SNAPSHOT_ENTRIES: usize = 256;

/// Commands on a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CellCommand {
    /// Writes the value if the cell is absent. Returns the counter in both cases.
    Init {
        /// The cell.
        name: Name,
        /// The first value.
        #[serde(with = "fields::value")]
        value: Value,
    },
    /// Writes the value. Returns the new counter.
    Set {
        /// The cell.
        name: Name,
        /// The new value.
        #[serde(with = "fields::value")]
        value: Value,
        /// The new time to live.
        ttl: Ttl,
    },
    /// Compare-and-swap: writes the value if the counter is the expected one (`None`: if the cell is absent).
    Cas {
        /// The cell.
        name: Name,
        /// The counter that the cell must have; `None` if it must be absent.
        expected: Option<u64>,
        /// The new value.
        #[serde(with = "fields::value")]
        value: Value,
    },
    /// Deletes the cell. Returns whether it existed and the condition held.
    Delete {
        /// The cell.
        name: Name,
        /// The counter that the cell must have, if given.
        counter: Option<u64>,
    },
    /// Adds to a number. An absent cell counts as zero.
    Incr {
        /// The cell.
        name: Name,
        /// The addend.
        by: Number,
    },
    /// Changes only the time to live. Returns whether the cell exists.
    Expire {
        /// The cell.
        name: Name,
        /// The new time to live.
        ttl: Ttl,
    },
    /// Writes an exported version. The counter never decreases.
    Restore {
        /// The cell.
        name: Name,
        /// The value; `None` for a deletion.
        #[serde(with = "fields::maybe_value")]
        value: Option<Value>,
        /// The counter of the exported version.
        counter: u64,
        /// The expiry, in microseconds since the epoch.
        expires: Option<u64>,
    },
    /// Reads the cell as the transaction sees it.
    Get {
        /// The cell.
        name: Name,
    },
    /// Lists names in byte order, as the transaction sees them.
    List {
        /// Lists only names with this prefix.
        prefix: String,
        /// The cursor: lists only names after this one.
        after: Option<String>,
        /// The page size.
        limit: usize,
    },
    /// Reads the versions of a cell, newest first, as the transaction sees them.
    History {
        /// The cell.
        name: Name,
        /// The page size.
        limit: usize,
        /// Reads only versions with a smaller counter.
        before: Option<u64>,
    },
}

impl CellCommand {
    /// A plain set that clears the time to live.
    pub fn set(name: Name, value: impl Into<Value>) -> CellCommand {
        CellCommand::Set { name, value: value.into(), ttl: Ttl::Clear }
    }

    /// The cell of the command; `None` for a listing.
    pub fn name(&self) -> Option<&Name> {
        match self {
            CellCommand::Init { name, .. }
            | CellCommand::Set { name, .. }
            | CellCommand::Cas { name, .. }
            | CellCommand::Delete { name, .. }
            | CellCommand::Incr { name, .. }
            | CellCommand::Expire { name, .. }
            | CellCommand::Restore { name, .. }
            | CellCommand::History { name, .. }
            | CellCommand::Get { name } => Some(name),
            CellCommand::List { .. } => None,
        }
    }

    /// Returns whether the command is read-only.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            CellCommand::Get { .. } | CellCommand::List { .. } | CellCommand::History { .. }
        )
    }
}

impl From<CellCommand> for Command {
    fn from(command: CellCommand) -> Command {
        Command::Cell(command)
    }
}

/// The effect of a write on the time to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ttl {
    /// The value lives until it is deleted.
    #[default]
    Clear,
    /// The expiry does not change.
    Keep,
    /// The value expires this many milliseconds after the transaction's timestamp.
    Millis(u64),
    /// The value expires at this timestamp, in microseconds. A past one expires at once.
    Until(u64),
}

/// An addend.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
}

impl From<i64> for Number {
    fn from(n: i64) -> Number {
        Number::Int(n)
    }
}

impl From<f64> for Number {
    fn from(n: f64) -> Number {
        Number::Float(n)
    }
}

/// Commands on branches and tags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BranchCommand {
    /// Creates a branch with the state of `from` at revision `at`.
    Fork {
        /// The new branch.
        name: Name,
        /// The branch it starts from.
        from: Name,
        /// The revision to start at; `None` for the newest.
        at: Option<Revision>,
    },
    /// Creates an empty branch.
    Create {
        /// The new branch.
        name: Name,
    },
    /// Begins an import: creates an empty branch that stays invisible until the import is finished.
    Import {
        /// The new branch.
        name: Name,
    },
    /// Finishes an import: makes the branch and its tags visible.
    Finish {
        /// The branch.
        name: Name,
        /// The branch's tags with the revisions they pin. If a name is taken, the tag's name is prefixed with
        /// the branch's name.
        #[serde(with = "fields::list")]
        tags: Vec<(Name, Revision)>,
    },
    /// Deletes a branch and all writes on it. For an unfinished import, deletes all its data.
    Delete {
        /// The branch.
        name: Name,
    },
    /// Renames a branch.
    Rename {
        /// The branch.
        name: Name,
        /// Its new name.
        to: Name,
    },
    /// Merges the changes of `from` into `into`.
    Merge {
        /// The source branch.
        from: Name,
        /// The target branch.
        into: Name,
        /// The conflict resolution for keys that both branches changed.
        strategy: MergeStrategy,
    },
    /// Pins a revision of a branch by name.
    Tag {
        /// The tag.
        name: Name,
        /// The branch.
        branch: Name,
        /// The revision to pin; `None` for the newest.
        at: Option<Revision>,
    },
    /// Removes a tag.
    Untag {
        /// The tag.
        name: Name,
    },
}

impl From<BranchCommand> for Command {
    fn from(command: BranchCommand) -> Command {
        Command::Branch(command)
    }
}

/// The conflict resolution of a merge for keys that both sides changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MergeStrategy {
    /// Changes nothing and returns the conflicting keys.
    #[default]
    Strict,
    /// The source wins.
    Theirs,
    /// The target wins.
    Ours,
}

/// Internal commands that the engine sends to itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SystemCommand {
    /// Deletes values whose expiry has passed, at most `limit` keys.
    Sweep {
        /// The most keys to touch in this transaction.
        limit: usize,
    },
    /// Deletes the remaining data of deleted runs, at most `limit` keys.
    Reap {
        /// The most keys to touch in this transaction.
        limit: usize,
    },
}

impl From<SystemCommand> for Command {
    fn from(command: SystemCommand) -> Command {
        Command::System(command)
    }
}
