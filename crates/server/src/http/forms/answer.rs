//! JSON forms of answers and receipts.

use super::keyed::{
    ItemForm, KeyPageForm, KnownForm, SealedForm, SpaceForm, StatePageForm, WaitingForm, wrote,
};
use super::outbox::{MessageForm, OutboxForm, UndeliveredForm};
use super::record::{RecordForm, RecordPageForm};
use super::run::{
    AlertForm, AppendedForm, EventsForm, KeptForm, RunForm, RunPageForm, SnapshotForm,
};
use super::session::{LetterForm, LettersForm, OpenedForm, SessionPageForm, letters};
use super::{Raw, raw};
use crate::http::history::VersionForm;
use crate::http::record_history::RecordVersionForm;
use crate::sessions::Told;
use mainstay::{
    Answer, Code, Error, OutboxAnswer, Page, Receipt, Result, RunAnswer, SessionAnswer,
    StateAnswer, Versioned,
};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What a committed transaction answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptForm {
    /// The transaction's revision; of one that wrote nothing, the revision it read at.
    revision: u64,
    /// Its stamp, in microseconds.
    stamp: u64,
    /// Whether the guards held, so that the answers are those of `commands`.
    held: bool,
    /// Whether an earlier request of this id did the work.
    repeated: bool,
    /// One answer per command that ran.
    answers: Vec<AnswerForm>,
}

/// What a command answers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswerForm {
    /// The counter after a write; null when its condition did not hold.
    Counter(Option<u64>),
    /// Whether something happened.
    Did(bool),
    /// The number after `incr`.
    Number(NumberForm),
    /// What a cell holds; null when it is absent.
    Cell(Option<CellForm>),
    /// A page of names.
    Page(PageForm),
    /// A revision: of a fork, a tag, a merge.
    Revision(u64),
    /// How many keys were touched, how many fields are new, how many records there are.
    Count(u64),
    /// What a cell held before, and whether the command did what it is for.
    Replaced(ReplacedForm),
    /// The error of a command that was attempted.
    Failed(FailedForm),
    /// What a record holds; null when it is absent.
    Record(Option<RecordForm>),
    /// A page of records.
    Records(RecordPageForm),
    /// The sum in a field, as text.
    Sum(String),
    /// What came of an append.
    Appended(AppendedForm),
    /// What came of the first events of a run.
    AppendedAll(Vec<AppendedForm>),
    /// What is known of a run; null when there is none.
    Run(Option<RunForm>),
    /// Events of a run.
    Events(EventsForm),
    /// What they add up to; null when there is no such run.
    Snapshot(Option<SnapshotForm>),
    /// What a reducer has made of them; null when nothing was kept.
    Kept(Option<KeptForm>),
    /// Events that could not follow those before them.
    Alerts(Vec<AlertForm>),
    /// A page of runs.
    Runs(RunPageForm),
    /// The number of a message that was written.
    Message(u64),
    /// Messages.
    Messages(Vec<MessageForm>),
    /// What became of a message that could not be delivered.
    Undelivered(UndeliveredForm),
    /// How the outbox stands.
    Outbox(OutboxForm),
    /// What became of each write to a space: applied, stale, waiting.
    Wrote(Vec<&'static str>),
    /// How many writes had waited, and whether the frontier is where it was asked to be.
    Sealed(SealedForm),
    /// What is known of each key; null where nothing was written to it.
    Known(Vec<Option<KnownForm>>),
    /// A page of keys with their states.
    States(StatePageForm),
    /// A page of keys.
    Keys(KeyPageForm),
    /// Items of a key's log.
    Items(Vec<ItemForm>),
    /// Writes that wait until their versions are sealed.
    Waiting(Vec<WaitingForm>),
    /// How far sources were read.
    Positions(BTreeMap<String, u64>),
    /// What is known of a space; null when there is none.
    Space(Option<SpaceForm>),
    /// A session that is open.
    Opened(OpenedForm),
    /// The number of a request to a session's client; null where there is no such session.
    Sent(Option<u64>),
    /// The number on its branch of a request to a session's client that is kept until the branch is merged into `main`.
    KeptRequest(u64),
    /// Requests that a session's client has not acknowledged.
    Pending(LettersForm),
    /// Requests to be sent again.
    Retry(Vec<LetterForm>),
    /// What is known of a session; null when there is none.
    Session(Option<Told>),
    /// A page of sessions.
    Sessions(SessionPageForm),
    /// The versions of a cell, newest first.
    History(Vec<VersionForm>),
    /// The versions of a record, newest first.
    RecordHistory(Vec<RecordVersionForm>),
    /// The revision that brought an event; null where there is none.
    EventRevision(Option<u64>),
}

/// What a cell held before.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplacedForm {
    /// Whether the command did what it is for.
    did: bool,
    /// The value before; null when there was none.
    #[schema(value_type = Option<serde_json::Value>)]
    old: Option<Raw>,
}

/// An error that is an answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailedForm {
    /// Exactly what went wrong.
    code: &'static str,
    /// The same for people.
    message: String,
}

/// A number that was added to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberForm {
    /// The sum.
    #[schema(value_type = f64)]
    value: Raw,
    /// The cell's counter.
    counter: u64,
}

/// A cell's value and everything known about it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CellForm {
    /// The value.
    #[schema(value_type = serde_json::Value)]
    value: Raw,
    /// How often the cell has been written, deletions included.
    counter: u64,
    /// When it was written, in microseconds.
    stamp: u64,
    /// The transaction that wrote it.
    revision: u64,
    /// When it expires, in microseconds.
    expires: Option<u64>,
}

/// A page of names.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PageForm {
    /// The names, in byte order.
    names: Vec<String>,
    /// Pass this as `after` for the next page; null at the end.
    next: Option<String>,
}

impl From<&Versioned> for CellForm {
    fn from(cell: &Versioned) -> CellForm {
        let &Versioned { ref value, counter, stamp, revision, expires } = cell;
        CellForm { value: raw(value), counter, stamp, revision, expires }
    }
}

impl From<Page> for PageForm {
    fn from(page: Page) -> PageForm {
        PageForm { names: page.names, next: page.next }
    }
}

impl AnswerForm {
    pub fn of(answer: Answer) -> Result<AnswerForm> {
        Ok(match answer {
            Answer::Counter(counter) => AnswerForm::Counter(Some(counter)),
            Answer::MaybeCounter(counter) => AnswerForm::Counter(counter),
            Answer::Did(did) => AnswerForm::Did(did),
            Answer::Number { value, counter } => {
                AnswerForm::Number(NumberForm { value: raw(&value), counter })
            }
            Answer::Cell(cell) => AnswerForm::Cell(cell.as_ref().map(CellForm::from)),
            Answer::Names(page) => AnswerForm::Page(page.into()),
            Answer::Revision(revision) => AnswerForm::Revision(revision),
            Answer::Count(count) => AnswerForm::Count(count),
            Answer::Replaced { did, old } => {
                AnswerForm::Replaced(ReplacedForm { did, old: old.as_ref().map(raw) })
            }
            Answer::Failed(error) => AnswerForm::Failed(FailedForm {
                code: error.code().name(),
                message: error.message().to_owned(),
            }),
            Answer::Record(record) => AnswerForm::Record(record.as_ref().map(RecordForm::from)),
            Answer::Records(page) => AnswerForm::Records(page.into()),
            Answer::Sum(sum) => AnswerForm::Sum(sum),
            Answer::Run(answer) => AnswerForm::of_run(*answer)?,
            Answer::Outbox(answer) => AnswerForm::of_outbox(*answer)?,
            Answer::State(answer) => AnswerForm::of_state(*answer)?,
            Answer::Session(answer) => AnswerForm::of_session(*answer)?,
            Answer::History(versions) => {
                AnswerForm::History(versions.into_iter().map(VersionForm::from).collect())
            }
            Answer::RecordHistory(versions) => {
                let versions = versions.into_iter().map(RecordVersionForm::from);
                AnswerForm::RecordHistory(versions.collect())
            }
            _ => return Err(formless()),
        })
    }

    fn of_run(answer: RunAnswer) -> Result<AnswerForm> {
        Ok(match answer {
            RunAnswer::Appended(appended) => AnswerForm::Appended(appended.into()),
            RunAnswer::AppendedAll(all) => {
                AnswerForm::AppendedAll(all.into_iter().map(AppendedForm::from).collect())
            }
            RunAnswer::Info(info) => AnswerForm::Run(info.map(RunForm::from)),
            RunAnswer::Events(events) => AnswerForm::Events(EventsForm::of(&events)?),
            RunAnswer::Snapshot(snapshot) => AnswerForm::Snapshot(snapshot.map(SnapshotForm::from)),
            RunAnswer::Kept(kept) => AnswerForm::Kept(kept.map(KeptForm::from)),
            RunAnswer::Alerts(alerts) => {
                AnswerForm::Alerts(alerts.into_iter().map(AlertForm::from).collect())
            }
            RunAnswer::Runs(page) => AnswerForm::Runs(page.into()),
            RunAnswer::Revision(revision) => AnswerForm::EventRevision(revision),
            _ => return Err(formless()),
        })
    }

    fn of_state(answer: StateAnswer) -> Result<AnswerForm> {
        Ok(match answer {
            StateAnswer::Wrote(all) => AnswerForm::Wrote(all.into_iter().map(wrote).collect()),
            StateAnswer::Sealed { settled, done } => {
                AnswerForm::Sealed(SealedForm { settled, done })
            }
            StateAnswer::Kept(all) => {
                AnswerForm::Known(all.into_iter().map(|one| one.map(KnownForm::from)).collect())
            }
            StateAnswer::States(page) => AnswerForm::States(page.into()),
            StateAnswer::Keys { keys, next } => AnswerForm::Keys(KeyPageForm::of(&keys, next)),
            StateAnswer::Items(items) => {
                AnswerForm::Items(items.into_iter().map(ItemForm::from).collect())
            }
            StateAnswer::Waiting(all) => {
                AnswerForm::Waiting(all.into_iter().map(WaitingForm::from).collect())
            }
            StateAnswer::Positions(all) => AnswerForm::Positions(all.into_iter().collect()),
            StateAnswer::Info(info) => AnswerForm::Space(info.map(SpaceForm::from)),
            _ => return Err(formless()),
        })
    }

    fn of_session(answer: SessionAnswer) -> Result<AnswerForm> {
        Ok(match answer {
            SessionAnswer::Opened { info, created, .. } => {
                AnswerForm::Opened(OpenedForm::of(info, created))
            }
            SessionAnswer::Sent(number) => AnswerForm::Sent(number),
            SessionAnswer::Kept(number) => AnswerForm::KeptRequest(number),
            SessionAnswer::Pending { requests, more } => {
                AnswerForm::Pending(LettersForm::of(requests, more))
            }
            SessionAnswer::Retry(requests) => AnswerForm::Retry(letters(requests)),
            SessionAnswer::Info(info) => AnswerForm::Session(info.map(Told::from)),
            SessionAnswer::List(page) => AnswerForm::Sessions(page.into()),
            _ => return Err(formless()),
        })
    }

    fn of_outbox(answer: OutboxAnswer) -> Result<AnswerForm> {
        Ok(match answer {
            OutboxAnswer::Put(id) => AnswerForm::Message(id),
            OutboxAnswer::Messages(messages) => {
                AnswerForm::Messages(messages.into_iter().map(MessageForm::from).collect())
            }
            OutboxAnswer::Failed(failed) => AnswerForm::Undelivered(failed.into()),
            OutboxAnswer::State(state) => AnswerForm::Outbox(state.into()),
            _ => return Err(formless()),
        })
    }
}

#[cold]
fn formless() -> Error {
    Error::new(Code::Unsupported, "this answer has no form over HTTP")
}

impl ReceiptForm {
    pub fn of(receipt: Receipt) -> Result<ReceiptForm> {
        let Receipt { revision, stamp, held, repeated, answers } = receipt;
        let answers: Result<Vec<AnswerForm>> = answers.into_iter().map(AnswerForm::of).collect();
        Ok(ReceiptForm { revision, stamp, held, repeated, answers: answers? })
    }
}
