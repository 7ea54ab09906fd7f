//! The answer of a transaction and of each of its commands.

use crate::wire::fields;
use crate::{
    CanonicalEvent, Claimed, Code, EntryBlock, Error, Item, Message, Name, OutboxAnswer,
    OutboxState, Record, RecordHistoryEntry, RecordPage, Result, Revision, RunAnswer, RunInfo,
    RunPage, RunSnapshot, SessionAnswer, SessionInfo, SessionPage, SpaceInfo, Stamp, StateAnswer,
    StatePage, Value, WaitingEntry,
};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The answer of a committed transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The transaction's revision; of one that wrote nothing, the revision it read at.
    pub revision: Revision,
    /// Its stamp, the `now` of all its commands.
    pub stamp: Stamp,
    /// Whether the guards held, so that the answers are those of `steps`.
    pub held: bool,
    /// Whether an earlier request of this id did the work.
    pub repeated: bool,
    /// One answer per command that ran.
    #[serde(with = "fields::list")]
    pub answers: SmallVec<[Answer; 1]>,
}

/// The answer of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Answer {
    /// The counter after a write that always takes effect.
    Counter(u64),
    /// The counter after a conditional write, `None` when the condition did not hold.
    MaybeCounter(Option<u64>),
    /// Whether something happened.
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
    /// A revision: of a fork, a tag, a merge.
    Revision(Revision),
    /// A number: how many keys were touched, how many bytes a text has.
    Count(u64),
    /// The value before a write of a cell, and whether the write took effect.
    Replaced {
        /// Whether the condition held: it was written, taken, or is there.
        did: bool,
        /// The value before.
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
    /// The record that came first, as it has become; nothing if none passed.
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

    /// The messages that its only command has claimed, with the token of their lease.
    pub fn into_claimed(self) -> Result<Claimed> {
        let token = self.stamp;
        let messages = self.into_first()?.into_outbox()?.into_messages()?;
        Ok(Claimed { token, messages })
    }
}

impl Answer {
    /// The error of an answer that another command has.
    #[cold]
    pub fn mismatch() -> Error {
        Error::new(Code::Unsupported, "the command has another answer than expected")
    }

    /// The error of a command that failed; of any other answer, that it is not the one that was expected.
    fn into_error(self) -> Error {
        match self {
            Answer::Failed(error) => error,
            _ => Answer::mismatch(),
        }
    }

    /// Whether the command took effect, which `must` requires.
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

/// A cell's value and everything known about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Versioned {
    /// The value.
    #[serde(with = "fields::value")]
    pub value: Value,
    /// How often the cell has been written, deletions included.
    pub counter: u64,
    /// When it was written.
    pub stamp: Stamp,
    /// The transaction that wrote it. Zero inside the transaction that is still open.
    pub revision: Revision,
    /// When it expires.
    pub expires: Option<Stamp>,
}

/// One version of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The cell's counter after this version.
    pub counter: u64,
    /// How many writes the version stands for: its transaction may have made several.
    pub writes: u64,
    /// The value; nothing where the cell was deleted.
    #[serde(with = "fields::maybe_value")]
    pub value: Option<Value>,
    /// When it was written.
    pub stamp: Stamp,
    /// The transaction that wrote it. Zero inside the transaction that is still open.
    pub revision: Revision,
    /// When it expires or expired.
    pub expires: Option<Stamp>,
}

/// A page of names, and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The names, in byte order.
    #[serde(with = "fields::list")]
    pub names: Vec<String>,
    /// Pass this as `after` for the next page; `None` at the end.
    pub next: Option<String>,
}

/// Methods that take out the content of one variant, for those who know which command was asked.
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
