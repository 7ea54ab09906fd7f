//! What a served database is asked: requests as values, beside the transactions of the waist.
//!
//! ```text
//!   command        request            answer, or an error
//!   WIRE.EXECUTE   Transaction        Receipt
//!   WIRE.READ      Look               Seen
//!   WIRE.RUN       Act                Acted
//!   WIRE.FEED      Follow             Followed
//!   WIRE.ASK       Question           as the question says
//! ```
//!
//! Each goes in a frame ([`encode`], [`decode`]); an answer is a frame of a `Result`. A further
//! contract is further commands of the waist, and further reads here: those pass by the writer.

use mainstay_model::{
    Answer, At, Command, Durability, EntryBlock, Event, Filter, HistoryEntry, Name, OutboxAnswer,
    OutboxCommand, Page, Receipt, Record, RecordCommand, RecordHistoryEntry, RecordPage, Revision,
    RunAnswer, RunCommand, SnapshotMark, StateAnswer, StateCommand, Transaction, Versioned, Where,
};
use serde::{Deserialize, Serialize};

pub use mainstay_model::wire::*;

/// A word of a request is at most this long: a frame that is longer goes in several.
pub const WORD_LIMIT_BYTES: usize = 16 << 20;

/// The most changes that one answer of the feed brings, but for the rest of a transaction.
pub const FOLLOW_LIMIT: usize = 10_000;

/// A read of one branch at one point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// The branch.
    pub branch: String,
    /// The point in time.
    pub at: At,
    /// What is read.
    pub read: ReadOp,
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReadOp {
    /// A cell.
    Get {
        /// Its name.
        name: Name,
    },
    /// Names of cells.
    List {
        /// Only those that begin with this.
        prefix: String,
        /// Only those behind this one.
        after: Option<String>,
        /// At most so many.
        limit: usize,
    },
    /// The versions of a cell.
    History {
        /// Its name.
        name: Name,
        /// At most so many.
        limit: usize,
        /// Only those with a smaller counter.
        before: Option<u64>,
    },
    /// Records: what the command reads; one that writes is refused.
    Records(RecordCommand),
    /// The versions of a record.
    RecordHistory {
        /// Its key.
        key: Name,
        /// At most so many.
        limit: usize,
        /// Only those with a smaller counter.
        before: Option<u64>,
    },
    /// Runs: what the command reads; one that writes is refused.
    Runs(RunCommand),
    /// The outbox: what the command reads; one that writes is refused.
    Outbox(OutboxCommand),
    /// Keyed state: what the command reads; one that writes is refused.
    State(StateCommand),
}

impl ReadOp {
    /// Whether it may take a while, so that others should not have to wait behind it: what passes no
    /// filter is looked at all the same, and so are deleted keys and old versions.
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

/// What was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReadReply {
    /// A cell.
    Cell(Option<Versioned>),
    /// Names.
    Names(Page),
    /// Versions of a cell.
    History(#[serde(with = "fields::list")] Vec<HistoryEntry>),
    /// A record.
    Record(Option<Record>),
    /// Records.
    Records(RecordPage),
    /// How many there are.
    Count(u64),
    /// Versions of a record.
    RecordHistory(#[serde(with = "fields::list")] Vec<RecordHistoryEntry>),
    /// What was read of runs.
    Runs(Box<RunAnswer>),
    /// What was read of the outbox.
    Outbox(Box<OutboxAnswer>),
    /// What was read of keyed state.
    State(Box<StateAnswer>),
}

/// What is done with what a connection holds: an open transaction, or a view of the past.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TransactionRequest {
    /// Opens a transaction on a branch; [`TransactionReply::Holds`].
    Begin {
        /// The branch.
        branch: String,
    },
    /// Opens a view; [`TransactionReply::Holds`].
    View {
        /// The branch.
        branch: String,
        /// The point in time.
        at: At,
    },
    /// Runs a command in the transaction; [`TransactionReply::Answered`].
    Run(Command),
    /// Reads in the view; [`TransactionReply::Seen`].
    Look(ReadOp),
    /// Commits the transaction, which is then over; [`TransactionReply::Committed`].
    Commit {
        /// What has to happen before the answer, if that is not as the database is set.
        durability: Option<Durability>,
    },
    /// Takes the transaction as a value and forgets it; [`TransactionReply::Taken`].
    Take {
        /// What has to happen before the answer, if that is not as the database is set.
        durability: Option<Durability>,
    },
    /// Lets go of whatever is held; [`TransactionReply::Left`].
    Leave,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TransactionReply {
    /// A transaction or a view is open, and reads this revision.
    Holds(Revision),
    /// A command was run.
    Answered(Answer),
    /// Something was read.
    Seen(ReadReply),
    /// It is committed.
    Committed(Receipt),
    /// The transaction as a value.
    Taken(Box<Transaction>),
    /// Nothing is held any more.
    Left,
}

/// Changes after a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRequest {
    /// The revision.
    pub after: Revision,
    /// Which changes are wanted.
    pub filter: Filter,
    /// At most so many, and the rest of their last transaction.
    pub limit: usize,
    /// How long to wait for the first.
    pub wait_ms: u64,
}

/// Changes, and where to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeedReply {
    /// The changes.
    #[serde(with = "fields::list")]
    pub events: Vec<Event>,
    /// The revision up to which everything was seen.
    pub position: Revision,
    /// There are further revisions already: the time was over before they were looked through.
    pub more: bool,
}

/// Questions about the database, and requests to it as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AdminRequest {
    /// The newest visible revision: [`Revision`].
    Revision,
    /// The newest revision on stable storage: [`Revision`].
    DurableRevision,
    /// The stamp of a revision: [`Stamp`](crate::Stamp).
    StampOf(Revision),
    /// The revision that a point in time means: [`Revision`].
    Resolve(At),
    /// All branches: a list of [`BranchInfo`](crate::BranchInfo).
    Branches,
    /// One branch: [`BranchInfo`](crate::BranchInfo).
    Branch(String),
    /// All tags: a list of [`TagInfo`](crate::TagInfo).
    Tags,
    /// What two branches do not agree on: a list of [`Difference`](crate::Difference).
    Diff(String, String),
    /// What holds history back: a list of [`Pin`](crate::Pin).
    Pins,
    /// Figures: [`Stats`](crate::Stats).
    Stats,
    /// Waits until a revision is visible: `()`.
    WaitFor {
        /// The revision.
        revision: Revision,
        /// How long.
        wait_ms: u64,
    },
    /// Waits until everything before is on stable storage: [`Revision`].
    Sync,
    /// Turns every expiry that is due into a deletion: how many there were.
    Sweep,
    /// Applies retention: `()`.
    Trim,
    /// Believes a wall clock that jumped ahead: `()`.
    ConfirmClock,
    /// A hash of all retained versions of a branch: 32 bytes.
    ExportHash(String),
    /// The indexes over records: a list of [`IndexInfo`](crate::IndexInfo).
    Indexes,
    /// How a scan of records would go about it: text.
    Explain {
        /// Of this branch.
        branch: String,
        /// Of those that begin with this.
        prefix: String,
        /// Of those that pass all of these.
        #[serde(with = "fields::list")]
        filters: Vec<Where>,
    },
    /// Waits for events of a run behind one of them: a [`RunAnswer::Events`], empty when the
    /// time is over.
    Tail {
        /// Of this branch.
        branch: String,
        /// The run.
        run: Name,
        /// Only events behind this one.
        after: u64,
        /// At most so many.
        limit: usize,
        /// How long.
        wait_ms: u64,
    },
    /// The revision that brought an event: an option of a [`Revision`].
    RevisionOf {
        /// Of this branch.
        branch: String,
        /// The run.
        run: Name,
        /// The event.
        seq: u64,
    },
    /// What has changed of a space of keyed state: [`StateSince`].
    StateSince {
        /// Of this branch.
        branch: String,
        /// The space.
        space: Name,
        /// Since the snapshot of this mark; without one, all there is.
        since: Option<SnapshotMark>,
    },
}

/// What a snapshot of a space is to be made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSince {
    /// The moment that it shows, which is on stable storage.
    pub revision: Revision,
    /// What the next one names it by; nothing where there is no such space.
    pub mark: Option<SnapshotMark>,
    /// What is to be written.
    pub changed: StateChanged,
}

/// What has changed of a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateChanged {
    /// These entries.
    These(EntryBlock),
    /// All there is has to be read: nothing earlier was named, or this is why.
    All(Option<WhyAll>),
}

/// Why all there is has to be read, where changes alone were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhyAll {
    /// The log no longer reaches back.
    Trimmed,
    /// There is another generation of the space since.
    Replaced,
    /// The earlier one is of a later moment.
    Ahead,
    /// The branch was forked since.
    Forked,
    /// There is too much of it.
    TooMuch,
}

impl WhyAll {
    /// In words.
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
    /// Whether it only looks, so that asking twice is as good as asking once.
    pub fn only_looks(&self) -> bool {
        !matches!(self, AdminRequest::Sweep | AdminRequest::ConfirmClock)
    }

    /// Whether it may take a while, so that others should not have to wait behind it.
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
    use super::*;
    use mainstay_model::{Field, Test};

    fn k() -> Name {
        Name::new("k").unwrap()
    }

    /// The variants of an enum by their numbers, which the version promises.
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
        let (limit, before, branch, at) = (2, Some(3), String::from("dev"), At::Revision(4));
        let list = ReadOp::List { prefix: "p".into(), after: None, limit };
        let (prefix, key, test) = (String::from("p"), k(), Test::Lt(b"9".to_vec()));
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
        let (durability, command) = (None, mainstay_model::CellCommand::Get { name: k() }.into());
        numbered(vec![
            TransactionRequest::Begin { branch: branch.clone() },
            TransactionRequest::View { branch: branch.clone(), at },
            TransactionRequest::Run(command),
            TransactionRequest::Look(ReadOp::Get { name: k() }),
            TransactionRequest::Commit { durability },
            TransactionRequest::Take { durability },
            TransactionRequest::Leave,
        ]);
        let answers = mainstay_model::smallvec![Answer::Did(true)];
        let receipt = Receipt { revision: 1, stamp: 2, held: true, repeated: false, answers };
        numbered(vec![
            TransactionReply::Holds(1),
            TransactionReply::Answered(Answer::Did(true)),
            TransactionReply::Seen(seen()),
            TransactionReply::Committed(receipt),
            TransactionReply::Taken(Box::default()),
            TransactionReply::Left,
        ]);
        let (revision, wait_ms) = (5, 6);
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
