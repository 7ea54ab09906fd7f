//! The JSON of guards, commands and answers: one form per variant of the model.
//!
//! A form is an object with one field, which says what it is: `{"set": {"name": "a", "value": 1}}`.
//! Values inside are kept as text until the model reads them, so that every type survives.

mod answer;
mod branch;
mod cell;
mod field;
mod guard;
mod hash;
mod job;
mod keyed;
mod outbox;
mod record;
mod run;
mod session;
mod step;
mod text;

pub(crate) use answer::{CellForm, PageForm, ReceiptForm};
pub(crate) use branch::MergeForm;
pub(crate) use cell::number;
pub(crate) use field::{changes, shown};
pub(crate) use guard::GuardForm;
pub(crate) use job::{JobForm, JobVersionForm, NewJobForm, bytes, shown_bytes};
pub(crate) use keyed::{
    DeclareForm, ItemForm, SpaceForm, StateForm, StatePageForm, VersionForm, WaitingForm,
    WriteForm, key_of, shown_key, state_bytes, wrote,
};
pub(crate) use outbox::{
    AckMessagesForm, ClaimMessagesForm, FailMessageForm, MessageForm, OutboxForm, PutMessageForm,
    UndeliveredForm,
};
pub(crate) use record::{RecordForm, RecordPageForm, WriteRecordForm};
pub(crate) use record::{check_place, fields_of, filters_of};
pub(crate) use run::{
    AlertForm, AppendedForm, BootstrapForm, EventsForm, RunForm, RunPageForm, SnapshotForm,
};
pub(crate) use run::{append, event_of, shown_event, status_of};
pub(crate) use session::{
    LetterForm, LettersForm, OpenSessionForm, OpenedForm, RetryForm, SessionPageForm, letters,
    sending,
};
pub(crate) use step::StepForm;

use mainstay::{Result, Value};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A typed value as JSON inside a larger JSON.
pub(crate) type Raw = Box<RawValue>;

/// A value, ready to stand in an answer.
pub(crate) fn raw(value: &Value) -> Raw {
    RawValue::from_string(value.to_json()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The typed value that a JSON stands for.
pub(crate) fn value(raw: &RawValue) -> Result<Value> {
    Value::from_json(raw.get())
}

/// A field that is there has a value, and null is one.
fn given<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Raw>, D::Error> {
    Raw::deserialize(from).map(Some)
}

/// A field that may be null but must be there: leaving it out is more often a slip than a wish.
fn said<'de, T, D>(from: D) -> std::result::Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(from)
}
