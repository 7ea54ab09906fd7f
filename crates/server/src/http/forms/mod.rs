//! JSON forms of guards, commands and answers: one form per variant of the model.
//!
//! A form is an object with one member, whose name is the variant: `{"set": {"name": "a", "value": 1}}`.
//! Values inside are kept as JSON text until the model parses them, so that no type is lost.

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

/// Encodes a value for an answer.
pub(crate) fn raw(value: &Value) -> Raw {
    RawValue::from_string(value.to_json()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Parses a typed value.
pub(crate) fn value(raw: &RawValue) -> Result<Value> {
    Value::from_json(raw.get())
}

/// Deserializes a present field as `Some`, even if it is null, because null is a value.
fn given<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Raw>, D::Error> {
    Raw::deserialize(from).map(Some)
}

/// Deserializes a field that may be null but must be present, because a missing field is more often a mistake
/// than intent.
fn said<'de, T, D>(from: D) -> std::result::Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(from)
}
