//! Binary client protocol: the requests to a served database as values, besides transactions.
//!
//! ```text
//!   command        request              answer, or an error
//!   WIRE.EXECUTE   Transaction          Receipt
//!   WIRE.READ      ReadRequest          ReadReply
//!   WIRE.RUN       TransactionRequest   TransactionReply
//!   WIRE.FEED      FeedRequest          FeedReply
//!   WIRE.ASK       AdminRequest         as the request says
//! ```
//!
//! Each request is one frame ([`encode`], [`decode`]); each answer is a frame that holds a `Result`. A new kind of
//! state adds commands to transactions, and reads here, because reads do not go through the writer thread.

use super::fields;
use crate::{
    Answer, At, Command, Durability, EntryBlock, Event, Filter, HistoryEntry, Name, OutboxAnswer,
    OutboxCommand, Page, Receipt, Record, RecordCommand, RecordHistoryEntry, RecordPage, Revision,
    RunAnswer, RunCommand, SnapshotMark, StateAnswer, StateCommand, Transaction, Versioned, Where,
};
use serde::{Deserialize, Serialize};

/// Size limit of one argument of a request, in bytes. A longer frame is split over several arguments.
pub const WORD_LIMIT_BYTES: usize = 16 << 20;

/// The most changes in one feed answer. The last transaction is always complete, so an answer may exceed
/// it.
pub const FOLLOW_LIMIT: usize = 10_000;

/// A read of one branch at one point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// Name of the branch.
    pub branch: String,
    /// Point in time to read at.
    pub at: At,
    /// The read operation.
    pub read: ReadOp,
}

/// A read operation on one kind of state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReadOp {
    /// Reads a cell. Answered with [`ReadReply::Cell`].
    Get {
        /// Name of the cell.
        name: Name,
    },
    /// Lists cell names in byte order. Answered with [`ReadReply::Names`].
    List {
        /// Prefix of the listed names.
        prefix: String,
        /// List only names that sort after this one.
        after: Option<String>,
        /// Maximum number of names.
        limit: usize,
    },
    /// Lists the versions of a cell, newest first. Answered with [`ReadReply::History`].
    History {
        /// Name of the cell.
        name: Name,
        /// Maximum number of versions.
        limit: usize,
        /// List only versions with a smaller counter.
        before: Option<u64>,
    },
    /// Reads records. A command that writes is rejected.
    Records(RecordCommand),
    /// Lists the versions of a record, newest first. Answered with [`ReadReply::RecordHistory`].
    RecordHistory {
        /// Key of the record.
        key: Name,
        /// Maximum number of versions.
        limit: usize,
        /// List only versions with a smaller counter.
        before: Option<u64>,
    },
    /// Reads runs. A command that writes is rejected.
    Runs(RunCommand),
    /// Reads the outbox. A command that writes is rejected.
    Outbox(OutboxCommand),
    /// Reads keyed state. A command that writes is rejected.
    State(StateCommand),
}

impl ReadOp {
    /// Returns whether the read may take long, so that other requests should not queue behind it. A scan
    /// also visits entries that no filter passes, deleted keys and old versions.
    pub fn takes_a_while(&self) -> bool {
        match self {
            ReadOp::List { .. } | ReadOp::History { .. } | ReadOp::RecordHistory { .. } => true,
            ReadOp::Records(command) => Command::from(command.clone()).walks(),
            ReadOp::Runs(command) => Command::from(command.clone()).walks(),
            ReadOp::State(command) => Command::from(command.clone()).walks(),
            _ => false,
        }
    }
}

/// The answer to a read operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReadReply {
    /// A cell, or `None` if it is absent.
    Cell(Option<Versioned>),
    /// A page of names.
    Names(Page),
    /// Versions of a cell, newest first.
    History(#[serde(with = "fields::list")] Vec<HistoryEntry>),
    /// A record, or `None` if it is absent.
    Record(Option<Record>),
    /// A page of records.
    Records(RecordPage),
    /// A count of records.
    Count(u64),
    /// Versions of a record, newest first.
    RecordHistory(#[serde(with = "fields::list")] Vec<RecordHistoryEntry>),
    /// The answer of a run command.
    Runs(Box<RunAnswer>),
    /// The answer of an outbox command.
    Outbox(Box<OutboxAnswer>),
    /// The answer of a keyed-state command.
    State(Box<StateAnswer>),
}

/// An operation on the state that a connection holds: an open transaction, or a view of the past.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TransactionRequest {
    /// Opens a transaction on a branch. Answered with [`TransactionReply::Holds`].
    Begin {
        /// Name of the branch.
        branch: String,
    },
    /// Opens a view. Answered with [`TransactionReply::Holds`].
    View {
        /// Name of the branch.
        branch: String,
        /// Point in time of the view.
        at: At,
    },
    /// Runs a command in the transaction. Answered with [`TransactionReply::Answered`].
    Run(Command),
    /// Reads in the view. Answered with [`TransactionReply::Seen`].
    Look(ReadOp),
    /// Commits and closes the transaction. Answered with [`TransactionReply::Committed`].
    Commit {
        /// Durability before the answer. `None`: the database's default.
        durability: Option<Durability>,
    },
    /// Returns the transaction as a value and discards it. Answered with [`TransactionReply::Taken`].
    Take {
        /// Durability of the returned transaction. `None`: the database's default.
        durability: Option<Durability>,
    },
    /// Releases the transaction or view. Answered with [`TransactionReply::Left`].
    Leave,
}

/// The answer to a [`TransactionRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TransactionReply {
    /// A transaction or view is open at this revision.
    Holds(Revision),
    /// The answer of the command.
    Answered(Answer),
    /// The answer of the read.
    Seen(ReadReply),
    /// The receipt of the commit.
    Committed(Receipt),
    /// The transaction as a value.
    Taken(Box<Transaction>),
    /// The connection holds nothing any more.
    Left,
}

/// A request for the changes after a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRequest {
    /// Revision after which the changes start.
    pub after: Revision,
    /// Filter on the changes.
    pub filter: Filter,
    /// Maximum number of changes. The last transaction is always complete.
    pub limit: usize,
    /// How long to wait for the first change, in milliseconds.
    pub wait_ms: u64,
}

/// Changes, and the position to continue from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeedReply {
    /// The changes, in commit order.
    #[serde(with = "fields::list")]
    pub events: Vec<Event>,
    /// Every change up to this revision was delivered or filtered out.
    pub position: Revision,
    /// True if more revisions are available, because the time was over before they were read.
    pub more: bool,
}

/// Queries about the database, and administrative requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AdminRequest {
    /// Newest visible revision. Answered with [`Revision`].
    Revision,
    /// Newest revision on stable storage. Answered with [`Revision`].
    DurableRevision,
    /// Stamp of a revision. Answered with [`Stamp`](crate::Stamp).
    StampOf(Revision),
    /// Revision of a point in time. Answered with [`Revision`].
    Resolve(At),
    /// All branches. Answered with a list of [`BranchInfo`](crate::BranchInfo).
    Branches,
    /// One branch. Answered with [`BranchInfo`](crate::BranchInfo).
    Branch(String),
    /// All tags. Answered with a list of [`TagInfo`](crate::TagInfo).
    Tags,
    /// Differences between two branches. Answered with a list of [`Difference`](crate::Difference).
    Diff(String, String),
    /// Pins that keep history from being trimmed. Answered with a list of [`Pin`](crate::Pin).
    Pins,
    /// Statistics. Answered with [`Stats`](crate::Stats).
    Stats,
    /// Waits until a revision is visible. Answered with `()`.
    WaitFor {
        /// The awaited revision.
        revision: Revision,
        /// Time limit in milliseconds.
        wait_ms: u64,
    },
    /// Waits until every earlier write is on stable storage. Answered with [`Revision`].
    Sync,
    /// Deletes all entries that have expired. Answered with their number.
    Sweep,
    /// Applies retention. Answered with `()`.
    Trim,
    /// Accepts a wall clock that jumped ahead. Answered with `()`.
    ConfirmClock,
    /// Hash of all retained versions of a branch. Answered with 32 bytes.
    ExportHash(String),
    /// The indexes over records. Answered with a list of [`IndexInfo`](crate::IndexInfo).
    Indexes,
    /// Explains the plan of a record scan. Answered with text.
    Explain {
        /// Name of the branch.
        branch: String,
        /// Prefix of the scanned keys.
        prefix: String,
        /// Filters of the scan.
        #[serde(with = "fields::list")]
        filters: Vec<Where>,
    },
    /// Waits for events of a run after a sequence number. Answered with [`RunAnswer::Events`], which is
    /// empty after the time limit.
    Tail {
        /// Name of the branch.
        branch: String,
        /// Name of the run.
        run: Name,
        /// Sequence number after which the events start.
        after: u64,
        /// Maximum number of events.
        limit: usize,
        /// Time limit in milliseconds.
        wait_ms: u64,
    },
    /// Revision that wrote an event. Answered with an optional [`Revision`].
    RevisionOf {
        /// Name of the branch.
        branch: String,
        /// Name of the run.
        run: Name,
        /// Sequence number of the event.
        seq: u64,
    },
    /// Changes of a space of keyed state. Answered with [`StateSince`].
    StateSince {
        /// Name of the branch.
        branch: String,
        /// Name of the space.
        space: Name,
        /// Mark of the earlier snapshot. `None`: a full snapshot is wanted.
        since: Option<SnapshotMark>,
    },
}

/// Content of the next snapshot of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSince {
    /// The revision of the snapshot, which is on stable storage.
    pub revision: Revision,
    /// The mark that a later request names this snapshot by. `None` if the space does not exist.
    pub mark: Option<SnapshotMark>,
    /// The changes, or the need for a full snapshot.
    pub changed: StateChanged,
}

/// Changes of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateChanged {
    /// The changed entries.
    These(EntryBlock),
    /// A full snapshot is needed: no earlier snapshot was named, or the reason is given.
    All(Option<WhyAll>),
}

/// Reason why an incremental snapshot is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhyAll {
    /// The log no longer reaches back to the earlier snapshot.
    Trimmed,
    /// The space has a newer generation.
    Replaced,
    /// The earlier snapshot is of a later revision.
    Ahead,
    /// The branch was forked after the earlier snapshot, or that one is of another branch.
    Forked,
    /// The changes are too large for one answer.
    TooMuch,
}

impl WhyAll {
    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            WhyAll::Trimmed => "the log no longer reaches back to the one before",
            WhyAll::Replaced => "the space was restored or made anew since the one before",
            WhyAll::Ahead => "the one before is of a later moment than all there is",
            WhyAll::Forked => "the branch was forked since the one before, or that is of another",
            WhyAll::TooMuch => "too much has changed since the one before",
        }
    }
}

impl AdminRequest {
    /// Returns whether the request is idempotent, so that a client may retry it.
    pub fn only_looks(&self) -> bool {
        !matches!(self, AdminRequest::Sweep | AdminRequest::ConfirmClock)
    }

    /// Returns whether the request may take long, so that other requests should not queue behind it.
    pub fn takes_a_while(&self) -> bool {
        matches!(
            self,
            AdminRequest::Diff(..)
                | AdminRequest::WaitFor { .. }
                | AdminRequest::Tail { .. }
                | AdminRequest::Sync
                | AdminRequest::Sweep
                | AdminRequest::Trim
                | AdminRequest::ExportHash(_)
                | AdminRequest::StateSince { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::{Field, Test};

    fn k() -> Name {
        Name::new("k").unwrap()
    }

    /// Checks the variants of an enum against their numbers, which the protocol version fixes.
    #[track_caller]
    fn numbered<T: Serialize + for<'f> Deserialize<'f> + PartialEq + std::fmt::Debug>(all: Vec<T>) {
        for (number, one) in all.into_iter().enumerate() {
            let frame = encode(&one).unwrap();
            assert_eq!(usize::from(frame[1]), number, "{one:?}");
            assert_eq!(decode::<T>(&frame).unwrap(), one);
        }
    }

    #[test]
    fn requests_and_answers_keep_their_numbers() {
        let limit = 2;
        let before = Some(3);
        let branch = String::from("dev");
        let at = At::Revision(4);
        let list = ReadOp::List { prefix: "p".into(), after: None, limit };
        let prefix = String::from("p");
        let key = k();
        let test = Test::Lt(b"9".to_vec());
        let filters = vec![Where { field: Field::new("f").unwrap(), test }];
        numbered(vec![
            ReadOp::Get { name: k() },
            list,
            ReadOp::History { name: k(), limit, before },
            ReadOp::Records(RecordCommand::Count {
                prefix: prefix.clone(),
                filters: filters.clone(),
            }),
            ReadOp::RecordHistory { key, limit, before },
            ReadOp::Runs(RunCommand::Get { run: k() }),
            ReadOp::Outbox(OutboxCommand::Look),
            ReadOp::State(StateCommand::Info { space: k() }),
        ]);
        let seen = || ReadReply::Cell(None);
        numbered(vec![
            seen(),
            ReadReply::Names(Page::default()),
            ReadReply::History(Vec::new()),
            ReadReply::Record(None),
            ReadReply::Records(RecordPage::default()),
            ReadReply::Count(7),
            ReadReply::RecordHistory(Vec::new()),
            ReadReply::Runs(Box::new(RunAnswer::Info(None))),
            ReadReply::Outbox(Box::new(OutboxAnswer::Put(1))),
            ReadReply::State(Box::new(StateAnswer::Info(None))),
        ]);
        let durability = None;
        let command = crate::CellCommand::Get { name: k() }.into();
        numbered(vec![
            TransactionRequest::Begin { branch: branch.clone() },
            TransactionRequest::View { branch: branch.clone(), at },
            TransactionRequest::Run(command),
            TransactionRequest::Look(ReadOp::Get { name: k() }),
            TransactionRequest::Commit { durability },
            TransactionRequest::Take { durability },
            TransactionRequest::Leave,
        ]);
        let answers = crate::smallvec![Answer::Did(true)];
        let receipt = Receipt { revision: 1, stamp: 2, held: true, repeated: false, answers };
        numbered(vec![
            TransactionReply::Holds(1),
            TransactionReply::Answered(Answer::Did(true)),
            TransactionReply::Seen(seen()),
            TransactionReply::Committed(receipt),
            TransactionReply::Taken(Box::default()),
            TransactionReply::Left,
        ]);
        let revision = 5;
        let wait_ms = 6;
        numbered(vec![
            AdminRequest::Revision,
            AdminRequest::DurableRevision,
            AdminRequest::StampOf(1),
            AdminRequest::Resolve(at),
            AdminRequest::Branches,
            AdminRequest::Branch(branch.clone()),
            AdminRequest::Tags,
            AdminRequest::Diff(branch.clone(), branch.clone()),
            AdminRequest::Pins,
            AdminRequest::Stats,
            AdminRequest::WaitFor { revision, wait_ms },
            AdminRequest::Sync,
            AdminRequest::Sweep,
            AdminRequest::Trim,
            AdminRequest::ConfirmClock,
            AdminRequest::ExportHash(branch.clone()),
            AdminRequest::Indexes,
            AdminRequest::Explain { branch: branch.clone(), prefix, filters },
            AdminRequest::Tail { branch: branch.clone(), run: k(), after: 1, limit, wait_ms },
            AdminRequest::RevisionOf { branch: branch.clone(), run: k(), seq: 1 },
            AdminRequest::StateSince { branch, space: k(), since: None },
        ]);
        let since = |changed| StateSince { revision, mark: None, changed };
        let all = |why| encode(&since(StateChanged::All(Some(why)))).unwrap();
        assert_eq!(all(WhyAll::Trimmed), [1, 5, 0, 1, 1, 0]);
        assert_eq!(all(WhyAll::TooMuch), [1, 5, 0, 1, 1, 4]);
        let these = encode(&since(StateChanged::These(EntryBlock::default()))).unwrap();
        assert_eq!(these, [1, 5, 0, 0, 0]);
    }
}
