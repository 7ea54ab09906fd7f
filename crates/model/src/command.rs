//! Commands: what a transaction can do, one enum per contract.

use crate::limits::PAGE_DEFAULT;
use crate::wire::fields;
use crate::{
    Contract, HashCommand, IndexCommand, Name, OutboxCommand, RecordCommand, Revision, RunCommand,
    SessionCommand, StateCommand, StringCommand, Value,
};
use serde::{Deserialize, Serialize};

/// One command on one of the contracts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Command {
    /// On a named cell.
    Cell(CellCommand),
    /// On a named cell, by its text.
    String(StringCommand),
    /// On the branches and tags of the database.
    Branch(BranchCommand),
    /// On behalf of the engine: expiry.
    System(SystemCommand),
    /// On a record.
    Record(RecordCommand),
    /// On a record, as a hash of Redis.
    Hash(HashCommand),
    /// On the indexes over records.
    Index(IndexCommand),
    /// On a run.
    Run(RunCommand),
    /// On the outbox.
    Outbox(OutboxCommand),
    /// On a space of keyed state.
    State(StateCommand),
    /// On a session.
    Session(SessionCommand),
    /// On names, whatever they hold.
    Key(KeyCommand),
}

impl Command {
    /// Whether it changes nothing: a transaction that is open answers it from its snapshot and its own writes.
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

/// Commands on names, be they those of cells or of records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum KeyCommand {
    /// Names in byte order, each once, at the point where the transaction stands.
    Names {
        /// Of these kinds of state: cells, records.
        #[serde(with = "fields::list")]
        kinds: Vec<Contract>,
        /// Only names that begin with this.
        prefix: String,
        /// Only names behind this one.
        after: Option<String>,
        /// At most this many.
        limit: usize,
        /// Records whose keys begin with one of these are left out.
        #[serde(default, with = "fields::list")]
        hidden: Vec<String>,
    },
    /// How many names there are, at the point where the transaction stands; more than the limit is the error `TooLarge`.
    Count {
        /// Of these kinds of state: cells, records.
        #[serde(with = "fields::list")]
        kinds: Vec<Contract>,
        /// At most this many.
        limit: usize,
        /// Records whose keys begin with one of these are left out.
        #[serde(default, with = "fields::list")]
        hidden: Vec<String>,
    },
    /// Deletes all cells and records of the branch; more than the limit is the error `TooLarge`, and none goes. Answers
    /// how many names there were.
    Clear {
        /// At most this many.
        limit: usize,
        /// Records whose keys begin with one of these stay.
        #[serde(default, with = "fields::list")]
        hidden: Vec<String>,
    },
}

impl KeyCommand {
    /// The prefixes of records that it leaves out.
    pub fn hidden(&self) -> &[String] {
        match self {
            KeyCommand::Names { hidden, .. }
            | KeyCommand::Count { hidden, .. }
            | KeyCommand::Clear { hidden, .. } => hidden,
        }
    }

    /// Whether it changes nothing.
    pub fn is_read(&self) -> bool {
        !matches!(self, KeyCommand::Clear { .. })
    }
}

impl Command {
    /// Whether the writer alone can answer it, so that it stands in no open transaction: others may send and acknowledge
    /// meanwhile.
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
    /// Whether it changes nothing, and any snapshot can answer it: of sessions only the writer knows.
    pub fn is_snapshot_read(&self) -> bool {
        self.is_read() && !matches!(self, Command::Session(_))
    }

    /// Whether it may look at so much that others should not have to wait behind it.
    pub fn walks(&self) -> bool {
        self.looks_at() > PAGE_DEFAULT
    }

    /// How many entries it may look at, about. Whatever passes by deleted names, old versions or entries that do not match may
    /// look at any number, however few it gives.
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

/// Entries that a pick looks at where an index serves it, about.
const PICK_ENTRIES: usize = 16;
/// Events that a snapshot of a run is folded forward by, at most.
const SNAPSHOT_ENTRIES: usize = 256;

/// What can be done with a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CellCommand {
    /// Writes when absent; answers the counter either way.
    Init {
        /// The cell.
        name: Name,
        /// Its first value.
        #[serde(with = "fields::value")]
        value: Value,
    },
    /// Writes; answers the new counter.
    Set {
        /// The cell.
        name: Name,
        /// Its new value.
        #[serde(with = "fields::value")]
        value: Value,
        /// What becomes of its time to live.
        ttl: Ttl,
    },
    /// Writes when the counter is the expected one (`None`: when absent).
    Cas {
        /// The cell.
        name: Name,
        /// The counter it must have, `None` for absent.
        expected: Option<u64>,
        /// Its new value.
        #[serde(with = "fields::value")]
        value: Value,
    },
    /// Deletes; answers whether it existed and the condition held.
    Delete {
        /// The cell.
        name: Name,
        /// The counter it must have, if that matters.
        counter: Option<u64>,
    },
    /// Adds to a number; an absent cell counts as zero.
    Incr {
        /// The cell.
        name: Name,
        /// What to add.
        by: Number,
    },
    /// Changes the time to live and nothing else; answers whether the cell exists.
    Expire {
        /// The cell.
        name: Name,
        /// Its new time to live.
        ttl: Ttl,
    },
    /// Writes a version as an export kept it; the counter never falls.
    Restore {
        /// The cell.
        name: Name,
        /// The value; nothing for a deletion.
        #[serde(with = "fields::maybe_value")]
        value: Option<Value>,
        /// The counter the version had.
        counter: u64,
        /// When it expires, in microseconds.
        expires: Option<u64>,
    },
    /// Reads, at the point where the transaction stands.
    Get {
        /// The cell.
        name: Name,
    },
    /// Lists names in byte order, at the point where the transaction stands.
    List {
        /// Only names that begin with this.
        prefix: String,
        /// Only names behind this one.
        after: Option<String>,
        /// At most this many.
        limit: usize,
    },
    /// The versions of a cell, newest first, at the point where the transaction stands.
    History {
        /// The cell.
        name: Name,
        /// At most this many.
        limit: usize,
        /// Only those with a smaller counter.
        before: Option<u64>,
    },
}

impl CellCommand {
    /// A plain set that leaves no time to live.
    pub fn set(name: Name, value: impl Into<Value>) -> CellCommand {
        CellCommand::Set { name, value: value.into(), ttl: Ttl::Clear }
    }

    /// The cell that it is about; a listing is about none.
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

    /// Whether it changes nothing.
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

/// What a write does to a time to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ttl {
    /// The value lives until it is deleted.
    #[default]
    Clear,
    /// The expiry stays as it is.
    Keep,
    /// The value lives for this many milliseconds from the transaction's stamp.
    Millis(u64),
    /// The value lives until this stamp, in microseconds; a past one expires at once.
    Until(u64),
}

/// A number to add.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Number {
    /// A whole number.
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

/// What can be done with branches and tags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BranchCommand {
    /// Makes a branch that starts as `from` was at `at`.
    Fork {
        /// The new branch.
        name: Name,
        /// The branch it starts from.
        from: Name,
        /// The revision it starts at, `None` for the newest.
        at: Option<Revision>,
    },
    /// Makes a branch that starts empty.
    Create {
        /// The new branch.
        name: Name,
    },
    /// Begins an import: a branch that starts empty and that nobody sees before it is finished.
    Import {
        /// The new branch.
        name: Name,
    },
    /// Finishes an import: the branch is seen from here on, and its tags with it.
    Finish {
        /// The branch.
        name: Name,
        /// Its tags and what they pin; a name that is taken gets the branch's name before it.
        #[serde(with = "fields::list")]
        tags: Vec<(Name, Revision)>,
    },
    /// Removes a branch and what was written on it; of an import that is not finished, all of it.
    Delete {
        /// The branch.
        name: Name,
    },
    /// Gives a branch another name.
    Rename {
        /// The branch.
        name: Name,
        /// Its new name.
        to: Name,
    },
    /// Brings the changes of `from` into `into`.
    Merge {
        /// The branch whose changes are wanted.
        from: Name,
        /// The branch that receives them.
        into: Name,
        /// What happens where both changed.
        strategy: MergeStrategy,
    },
    /// Pins a revision of a branch by name.
    Tag {
        /// The tag.
        name: Name,
        /// The branch.
        branch: Name,
        /// The revision, `None` for the newest.
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

/// What a merge does with keys that both sides changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MergeStrategy {
    /// Changes nothing and lists the keys.
    #[default]
    Strict,
    /// The source wins.
    Theirs,
    /// The target wins.
    Ours,
}

/// What the engine asks of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SystemCommand {
    /// Turns every expiry that is due into a deletion, at most this many.
    Sweep {
        /// The most keys to touch in this transaction.
        limit: usize,
    },
    /// Deletes what is left of runs that were deleted, at most this many keys.
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
