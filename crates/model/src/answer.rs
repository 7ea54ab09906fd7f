//! Results of a transaction and of each of its commands.

use crate::wire::fields;
use crate::{
    CanonicalEvent, Claimed, Code, EntryBlock, Error, Item, Message, Name, OutboxAnswer,
    OutboxState, Record, RecordHistoryEntry, RecordPage, Result, Revision, RunAnswer, RunInfo,
    RunPage, RunSnapshot, SessionAnswer, SessionInfo, SessionPage, SpaceInfo, Stamp, StateAnswer,
    StatePage, Value, WaitingEntry,
};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The result of a committed transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The transaction's revision. For a transaction that wrote nothing, the revision it read at.
    pub revision: Revision,
    /// The transaction's commit timestamp, which is `now` for all its commands.
    pub stamp: Stamp,
    /// True if all guards held, so that the answers are those of `steps`; otherwise they are those of
    /// `otherwise`.
    pub held: bool,
    /// True if an earlier request with this id did the work and this is its stored receipt.
    pub repeated: bool,
    /// One answer per command that ran.
    #[serde(with = "fields::list")]
    pub answers: SmallVec<[Answer; 1]>,
}

/// The result of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Answer {
    /// The counter after a write that always takes effect.
    Counter(u64),
    /// The counter after a conditional write, `None` when the condition did not hold.
    MaybeCounter(Option<u64>),
    /// True if the command changed something.
    Did(bool),
    /// The number after an addition, and the cell's counter.
    Number {
        /// The sum: an integer, a float, or the text of a decimal.
        #[serde(with = "fields::value")]
        value: Value,
        /// The cell's counter.
        counter: u64,
    },
    /// The value and version of a cell.
    Cell(Option<Versioned>),
    /// A page of names.
    Names(Page),
    /// The revision of a fork, a tag or a merge.
    Revision(Revision),
    /// A count: of affected keys, or the length of a text in bytes.
    Count(u64),
    /// The value before a write of a cell, and whether the write took effect.
    Replaced {
        /// True if the condition held, so that the command wrote, deleted or found the value.
        did: bool,
        /// The value before the write.
        #[serde(with = "fields::maybe_value")]
        old: Option<Value>,
    },
    /// The error of a command that was allowed to fail.
    Failed(Error),
    /// The fields and version of a record.
    Record(Option<Record>),
    /// A page of records.
    Records(RecordPage),
    /// The sum in a field, as decimal text.
    Sum(String),
    /// The first matching record with its new fields; `None` if no record matched.
    Picked(Option<Box<(String, Record)>>),
    /// The answer of a command on a run.
    Run(Box<RunAnswer>),
    /// The answer of a command on the outbox.
    Outbox(Box<OutboxAnswer>),
    /// The answer of a command on keyed state.
    State(Box<StateAnswer>),
    /// The answer of a command on sessions.
    Session(Box<SessionAnswer>),
    /// The versions of a cell, newest first.
    History(#[serde(with = "fields::list")] Vec<HistoryEntry>),
    /// The versions of a record, newest first.
    RecordHistory(#[serde(with = "fields::list")] Vec<RecordHistoryEntry>),
}

impl Receipt {
    /// The answer of the first command.
    pub fn into_first(self) -> Result<Answer> {
        self.answers.into_iter().next().ok_or_else(Answer::mismatch)
    }

    /// Returns the messages that the transaction's only command claimed, with their lease token.
    pub fn into_claimed(self) -> Result<Claimed> {
        let token = self.stamp;
        let messages = self.into_first()?.into_outbox()?.into_messages()?;
        Ok(Claimed { token, messages })
    }
}

impl Answer {
    /// The error of a conversion to the answer of another command.
    #[cold]
    pub fn mismatch() -> Error {
        Error::new(Code::Unsupported, "the command has another answer than expected")
    }

    /// Returns the error of a failed command, or a mismatch error for any other answer.
    fn into_error(self) -> Error {
        match self {
            Answer::Failed(error) => error,
            _ => Answer::mismatch(),
        }
    }

    /// Returns whether the command took effect, which `must` requires.
    pub fn took_effect(&self) -> bool {
        if let Answer::Run(answer) = self {
            return answer.took_effect();
        }
        if let Answer::State(answer) = self {
            return answer.took_effect();
        }
        !matches!(
            self,
            Answer::MaybeCounter(None)
                | Answer::Did(false)
                | Answer::Picked(None)
                | Answer::Replaced { did: false, .. }
                | Answer::Failed(_)
        ) && !matches!(self, Answer::Session(answer) if **answer == SessionAnswer::Sent(None))
    }
}

/// A cell's value with its version and expiry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Versioned {
    /// The value.
    #[serde(with = "fields::value")]
    pub value: Value,
    /// The number of writes to the cell, including deletions.
    pub counter: u64,
    /// The commit timestamp of the write.
    pub stamp: Stamp,
    /// The revision of the write. Zero while its transaction is still open.
    pub revision: Revision,
    /// The time when the value expires, if it does.
    pub expires: Option<Stamp>,
}

/// One version of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The cell's counter after this version.
    pub counter: u64,
    /// The number of writes that this version merges, because one transaction may write a cell several times.
    pub writes: u64,
    /// The value; `None` if this version is a deletion.
    #[serde(with = "fields::maybe_value")]
    pub value: Option<Value>,
    /// The commit timestamp of this version.
    pub stamp: Stamp,
    /// The revision of this version. Zero while its transaction is still open.
    pub revision: Revision,
    /// The time when the value expires or expired, if it does.
    pub expires: Option<Stamp>,
}

/// A page of names with the cursor of the next page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The names, in byte order.
    #[serde(with = "fields::list")]
    pub names: Vec<String>,
    /// The cursor: pass it as `after` for the next page. `None` at the end.
    pub next: Option<String>,
}

/// Generates methods that return the content of one variant, for callers that know which command they sent.
macro_rules! conversions {
    ($answer:ident, $error:expr => { $($name:ident: $pattern:pat => $content:expr, $type:ty;)* }) => {
        impl $answer {
            $(
                #[doc = concat!("The content of `", stringify!($pattern), "`; another answer is an error.")]
                pub fn $name(self) -> Result<$type> {
                    use $answer::*;
                    match self {
                        $pattern => Ok($content),
                        other => Err(($error)(other)),
                    }
                }
            )*
        }
    };
}

conversions!(Answer, Answer::into_error => {
    into_counter: Counter(counter) => counter, u64;
    into_maybe_counter: MaybeCounter(counter) => counter, Option<u64>;
    into_did: Did(did) => did, bool;
    into_number: Number { value, counter } => (value, counter), (Value, u64);
    into_cell: Cell(cell) => cell, Option<Versioned>;
    into_names: Names(page) => page, Page;
    into_revision: Revision(revision) => revision, crate::Revision;
    into_count: Count(count) => count, u64;
    into_record: Record(record) => record, Option<crate::Record>;
    into_records: Records(page) => page, RecordPage;
    into_run: Run(answer) => *answer, RunAnswer;
    into_outbox: Outbox(answer) => *answer, OutboxAnswer;
    into_state: State(answer) => *answer, StateAnswer;
    into_session: Session(answer) => *answer, SessionAnswer;
});

conversions!(RunAnswer, |_| Answer::mismatch() => {
    into_appended: Appended(appended) => appended, crate::Appended;
    into_appended_all: AppendedAll(all) => all, Vec<crate::Appended>;
    into_info: Info(info) => info, Option<RunInfo>;
    into_events: Events(events) => events, Vec<CanonicalEvent>;
    into_snapshot: Snapshot(snapshot) => snapshot, Option<RunSnapshot>;
    into_page: Runs(page) => page, RunPage;
});

conversions!(OutboxAnswer, |_| Answer::mismatch() => {
    into_number: Put(number) => number, u64;
    into_failed: Failed(failed) => failed, crate::Failed;
    into_messages: Messages(messages) => messages, Vec<Message>;
    into_outbox_state: State(state) => state, OutboxState;
});

conversions!(StateAnswer, |_| Answer::mismatch() => {
    into_wrote: Wrote(wrote) => wrote, Vec<crate::Wrote>;
    into_sealed: Sealed { settled, done } => (settled, done), (u64, bool);
    into_kept: Kept(kept) => kept, Vec<Option<crate::Kept>>;
    into_states: States(page) => page, StatePage;
    into_items: Items(items) => items, Vec<Item>;
    into_waiting: Waiting(entries) => entries, Vec<WaitingEntry>;
    into_positions: Positions(positions) => positions, Vec<(String, u64)>;
    into_info: Info(info) => info, Option<SpaceInfo>;
    into_entries: Entries { block, next } => (block, next), (EntryBlock, Option<Vec<u8>>);
});

conversions!(SessionAnswer, |_| Answer::mismatch() => {
    into_opened: Opened { info, created, .. } => (info, created), (SessionInfo, bool);
    into_sent: Sent(number) => number, Option<u64>;
    into_pending: Pending { requests, .. } => requests, Vec<(u64, Vec<u8>)>;
    into_retried: Retry(requests) => requests, Vec<(Name, u64, Vec<u8>)>;
    into_info: Info(info) => info, Option<SessionInfo>;
    into_page: List(page) => page, SessionPage;
});
