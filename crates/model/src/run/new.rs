//! New events from producers, validated before they are appended.

use super::event::check_names;
use super::key::{EventKey, signal_key};
use super::{CanonicalEvent, Instant};
use crate::limits::{VALUE_LIMIT_BYTES, VALUE_LIMIT_DEPTH};
use crate::{Code, Error, EventMessage, Name, Result, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The prefix of the types of step events.
const STEP: &str = "Step";

/// The longest idempotency key, type and step, in bytes.
pub(crate) const KEY_LIMIT_BYTES: usize = 1_024;

/// Fields that the log assigns. A producer must not set them, because the event would be ambiguous.
const GIVEN: [&str; 3] = ["runSeq", "persistedAt", "contractVersion"];

/// The JSON field of the outbox message that accompanies an event.
const MESSAGE: &str = "message";

/// The most bytes that the log adds to an event: its id, its key and separators.
const ADDED_BYTES: usize = 2_048;

/// An event to append. The log assigns its sequence number and the optional fields that are missing.
///
/// ```
/// use mainstay_model::NewEvent;
/// let done = NewEvent::new("run-1", "StepCompleted").step("fetch").plan("3").data(r#"{"rows": 3}"#);
/// assert_eq!(done.key()?.len(), 64);
/// // Without a plan version, a signal or an explicit key, a retry could not be recognized.
/// assert!(NewEvent::new("run-1", "RunStarted").key().is_err());
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewEvent {
    /// The run.
    #[serde(default)]
    pub run_id: String,
    /// The type of the event.
    pub event_type: String,
    /// The payload.
    #[serde(default)]
    pub event_data: Value,
    /// The event's unique id; `None` to let the log assign one.
    #[serde(default)]
    pub event_id: Option<String>,
    /// The step of the event; `None` if it concerns the whole run.
    #[serde(default)]
    pub step_id: Option<String>,
    /// The workflow engine's number of the attempt.
    #[serde(default)]
    pub engine_attempt_id: Option<String>,
    /// The application's number of the attempt.
    #[serde(default)]
    pub logical_attempt_id: Option<String>,
    /// The version of the plan that the run follows.
    #[serde(default)]
    pub plan_version: Option<String>,
    /// The plan's id, if it has one in addition to the version.
    #[serde(default)]
    pub plan_id: Option<String>,
    /// The idempotency key: appends with the same key write one event. `None` to derive it from the event's
    /// content.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// The time of the event, according to its producer; `None` for the storage time.
    #[serde(default)]
    pub emitted_at: Option<Instant>,
    /// The version of the adapter that produces the event.
    #[serde(default)]
    pub adapter_version: Option<String>,
    /// The workflow engine's own reference to the run.
    #[serde(default)]
    pub engine_run_ref: Option<Value>,
    /// The id of the signal that caused the event.
    #[serde(default)]
    pub caused_by_signal_id: Option<String>,
    /// The id of the event that caused this one.
    #[serde(default)]
    pub parent_event_id: Option<String>,
    /// A message for the outbox, which is written only if the event is new. It is not part of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<EventMessage>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

impl NewEvent {
    /// Creates an event of a run.
    pub fn new(run: &str, event_type: &str) -> NewEvent {
        NewEvent { run_id: run.to_owned(), event_type: event_type.to_owned(), ..Default::default() }
    }

    /// Sets the payload from text: as JSON with exact numbers if it parses, otherwise as a string.
    #[must_use]
    pub fn data(mut self, data: &str) -> NewEvent {
        self.event_data = Value::from_json_exact(data).unwrap_or_else(|_| data.into());
        self
    }

    /// Sets the payload.
    #[must_use]
    pub fn value(mut self, data: impl Into<Value>) -> NewEvent {
        self.event_data = data.into();
        self
    }

    /// Sets the step.
    #[must_use]
    pub fn step(mut self, step: &str) -> NewEvent {
        self.step_id = Some(step.to_owned());
        self
    }

    /// Sets the logical attempt.
    #[must_use]
    pub fn attempt(mut self, attempt: impl ToString) -> NewEvent {
        self.logical_attempt_id = Some(attempt.to_string());
        self
    }

    /// Sets the version of the plan.
    #[must_use]
    pub fn plan(mut self, version: &str) -> NewEvent {
        self.plan_version = Some(version.to_owned());
        self
    }

    /// Sets an explicit idempotency key.
    #[must_use]
    pub fn with_key(mut self, key: &str) -> NewEvent {
        self.idempotency_key = Some(key.to_owned());
        self
    }

    /// Sets the signal that caused the event.
    #[must_use]
    pub fn signal(mut self, signal_id: &str) -> NewEvent {
        self.caused_by_signal_id = Some(signal_id.to_owned());
        self
    }

    /// Adds a message for the outbox, which is written only if the event is new. A retry writes neither.
    ///
    /// ```
    /// use mainstay_model::NewEvent;
    /// let paid = NewEvent::new("order-7", "Paid").plan("1").message("receipts", r#"{"order": 7}"#);
    /// assert_eq!(paid.message.unwrap().subject, "receipts");
    /// ```
    #[must_use]
    pub fn message(mut self, subject: &str, payload: impl Into<Vec<u8>>) -> NewEvent {
        self.message = Some(EventMessage::new(subject, payload));
        self
    }

    /// Returns the idempotency key: the explicit one, or one derived from the signal, or one derived from the
    /// event's content.
    pub fn key(&self) -> Result<String> {
        if let Some(key) = &self.idempotency_key {
            return Ok(key.clone());
        }
        if let Some(signal_id) = &self.caused_by_signal_id {
            return signal_key(&self.run_id, signal_id);
        }
        let Some(plan) = &self.plan_version else {
            let message = format!(
                "event {} of run `{}` has neither a plan version nor a key: told twice it could not be told from another",
                self.event_type, self.run_id
            );
            return Err(Error::new(Code::InvalidArgument, message));
        };
        let mut key = EventKey::of(&self.run_id, &self.event_type, plan);
        key = self.step_id.iter().fold(key, |key, step| key.step(step));
        key = self.logical_attempt_id.iter().fold(key, |key, attempt| key.attempt(attempt));
        self.plan_id.iter().fold(key, |key, plan_id| key.plan_id(plan_id)).hash()
    }

    /// Rejects events that are invalid whatever the log holds.
    pub fn check(&self) -> Result<()> {
        Name::new(&self.run_id)?;
        let invalid = |message: String| Err(Error::new(Code::InvalidArgument, message));
        if self.event_type.is_empty() {
            return invalid(format!("an event of run `{}` has no type", self.run_id));
        }
        for (what, text) in [("type", Some(&self.event_type)), ("step", self.step_id.as_ref())] {
            let bytes = text.map_or(0, String::len);
            if bytes > KEY_LIMIT_BYTES {
                let message = format!(
                    "the {what} of an event of run `{}` has {bytes} bytes, {KEY_LIMIT_BYTES} are the most",
                    self.run_id
                );
                return invalid(message);
            }
        }
        if self.event_type.starts_with(STEP) && self.step_id.as_deref().unwrap_or("").is_empty() {
            let event_type = &self.event_type;
            return invalid(format!("event {event_type} of run `{}` names no step", self.run_id));
        }
        let key_bytes = self.idempotency_key.as_ref().map_or(1, String::len);
        if !(1..=KEY_LIMIT_BYTES).contains(&key_bytes) {
            let message = format!(
                "an idempotency key has 1 to {KEY_LIMIT_BYTES} bytes, one of run `{}` has {key_bytes}",
                self.run_id
            );
            return invalid(message);
        }
        if let Some(name) = GIVEN.iter().find(|name| self.more.contains_key(**name)) {
            let message = format!(
                "an event of run `{}` says its {name}, which the log gives: leave it out, or restore the event",
                self.run_id
            );
            return invalid(message);
        }
        if self.more.contains_key(MESSAGE) {
            let message = format!(
                "an event of run `{}` has a {MESSAGE} among the fields that are not known: it is the one for the outbox, an object of subject and payload",
                self.run_id
            );
            return invalid(message);
        }
        self.message.as_ref().map_or(Ok(()), EventMessage::check)?;
        check_names(&self.run_id, &self.more)?;
        check_depth(&self.event_data, self.engine_run_ref.as_ref(), &self.more)?;
        self.event_data.check()?;
        self.check_size()
    }

    /// Checks that the whole event fits the limit of a value. This happens before anything is written, so
    /// that a batch cannot fail in the middle.
    fn check_size(&self) -> Result<()> {
        let texts = [
            &self.event_id,
            &self.step_id,
            &self.engine_attempt_id,
            &self.logical_attempt_id,
            &self.plan_version,
            &self.plan_id,
            &self.adapter_version,
            &self.caused_by_signal_id,
            &self.parent_event_id,
        ];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let values = self.engine_run_ref.iter().chain([&self.event_data]).chain(self.more.values());
        let names: usize = self.more.keys().map(String::len).sum();
        let about: usize = values.map(Value::weight_bytes).sum();
        let about = about + texts + names + self.event_type.len() + ADDED_BYTES;
        // An event that takes more memory than the limit may still be shorter when encoded.
        if about <= VALUE_LIMIT_BYTES || self.encoded_bytes()? + ADDED_BYTES <= VALUE_LIMIT_BYTES {
            return Ok(());
        }
        let message = format!(
            "event {} of run `{}` is too large: all of it has at most {VALUE_LIMIT_BYTES} bytes",
            self.event_type, self.run_id
        );
        Err(Error::new(Code::ValueTooLarge, message))
    }

    fn encoded_bytes(&self) -> Result<usize> {
        let mut bytes = Vec::new();
        self.encode("", "", &Instant::of_us(0), &mut bytes)?;
        Ok(bytes.len())
    }

    /// Converts to the stored event.
    pub fn stored(
        self,
        run_seq: u64,
        event_id: String,
        key: String,
        now: Instant,
    ) -> CanonicalEvent {
        CanonicalEvent {
            run_id: self.run_id,
            run_seq,
            event_id: self.event_id.unwrap_or(event_id),
            step_id: self.step_id,
            engine_attempt_id: self.engine_attempt_id,
            logical_attempt_id: self.logical_attempt_id,
            event_type: self.event_type,
            event_data: self.event_data,
            idempotency_key: key,
            emitted_at: self.emitted_at.unwrap_or_else(|| now.clone()),
            persisted_at: Some(now),
            plan_version: self.plan_version,
            plan_id: self.plan_id,
            adapter_version: self.adapter_version,
            engine_run_ref: self.engine_run_ref,
            caused_by_signal_id: self.caused_by_signal_id,
            parent_event_id: self.parent_event_id,
            contract_version: super::CONTRACT_VERSION.to_owned(),
            more: self.more,
        }
    }
}

/// Checks the nesting depth. The whole event is a value too, which feeds show, so its parts have one level
/// less.
pub(super) fn check_depth(
    data: &Value,
    reference: Option<&Value>,
    more: &BTreeMap<String, Value>,
) -> Result<()> {
    let mut all = reference.into_iter().chain(more.values()).chain([data]);
    if all.all(|value| value.fits(VALUE_LIMIT_DEPTH - 1)) {
        return Ok(());
    }
    let message = format!("an event is nested deeper than {VALUE_LIMIT_DEPTH} levels: flatten it");
    Err(Error::new(Code::ValueTooDeep, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_nothing_that_the_log_gives() {
        for name in ["runSeq", "persistedAt", "contractVersion"] {
            let text = format!(r#"{{"runId":"r","eventType":"E","{name}":"1"}}"#);
            let event: NewEvent = serde_json::from_str(&text).unwrap();
            assert_eq!(event.check().unwrap_err().code(), Code::InvalidArgument, "{name}");
        }
    }

    #[test]
    fn an_event_that_is_taken_can_be_shown_as_one_value() {
        let deep = |levels| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        let event = |levels| NewEvent::new("r", "E").value(deep(levels));
        event(VALUE_LIMIT_DEPTH - 1).check().unwrap();
        assert_eq!(event(VALUE_LIMIT_DEPTH).check().unwrap_err().code(), Code::ValueTooDeep);
        let kept = |levels| {
            let event = event(levels);
            event.stored(1, "e".into(), "k".into(), Instant::of_us(1))
        };
        crate::to_value(&kept(VALUE_LIMIT_DEPTH - 1)).unwrap();
        kept(VALUE_LIMIT_DEPTH - 1).check().unwrap();
        assert_eq!(kept(VALUE_LIMIT_DEPTH).check().unwrap_err().code(), Code::ValueTooDeep);
    }

    #[test]
    fn keys_come_from_the_producer_the_signal_or_the_event() {
        let event = NewEvent::new("r", "StepCompleted").step("s").attempt(2).plan("7");
        let made = EventKey::of("r", "StepCompleted", "7").step("s").attempt("2").hash().unwrap();
        assert_eq!(event.key().unwrap(), made);
        assert_eq!(event.clone().signal("u").key().unwrap(), signal_key("r", "u").unwrap());
        assert_eq!(event.signal("u").with_key("mine").key().unwrap(), "mine");
        let other = NewEvent::new("r", "RunStarted").plan("7").attempt(1);
        assert_eq!(other.key().unwrap(), NewEvent::new("r", "RunStarted").plan("7").key().unwrap());
    }

    #[test]
    fn what_the_log_gives_and_what_does_not_fit_is_refused() {
        let event = NewEvent::new("r", "RunStarted").plan("1");
        for name in GIVEN {
            let mut event = event.clone();
            event.more.insert(name.to_owned(), Value::Int(1));
            assert_eq!(event.check().unwrap_err().code(), Code::InvalidArgument, "{name}");
        }
        let text = |bytes: usize| Value::from("x".repeat(bytes));
        let half = VALUE_LIMIT_BYTES / 2;
        let mut event = event.value(text(half));
        event.check().unwrap();
        event.more.insert("more".to_owned(), text(half));
        assert_eq!(event.check().unwrap_err().code(), Code::ValueTooLarge);
        // Numbers are much smaller when encoded than in memory.
        event.more.insert("more".to_owned(), vec![Value::Int(1); half / 12].into());
        event.check().unwrap();
    }

    #[test]
    fn a_message_is_said_in_json_and_checked() {
        let read = |message: &str| {
            let text = format!(r#"[{{"eventType":"Paid","message":{message}}}]"#);
            NewEvent::list_from_json(&Name::new("r").unwrap(), &text)
        };
        for (message, payload) in [
            (r#"{"subject":"s","payload":"text"}"#, &b"text"[..]),
            (r#"{"subject":"s","payload":{"$bytes":"/w=="}}"#, b"\xff"),
            (r#"{"subject":"s","payload":{"order":7}}"#, br#"{"order":7}"#),
            (r#"{"subject":"s"}"#, b""),
        ] {
            let event = read(message).unwrap().remove(0);
            event.check().unwrap();
            assert_eq!(event.message, Some(EventMessage::new("s", payload)), "{message}");
            let again: NewEvent = crate::from_value(crate::to_value(&event).unwrap()).unwrap();
            assert_eq!(again, event);
        }
        for wrong in [r#""text""#, r#"{"payload":"x"}"#, r#"{"subject":"s","to":"x"}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read(r#"{"subject":""}"#).unwrap()[0].check().is_err());
        let mut event = NewEvent::new("r", "Paid");
        event.more.insert(MESSAGE.to_owned(), Value::from("x"));
        assert_eq!(event.check().unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let bad = [
            NewEvent::new("", "RunStarted"),
            NewEvent::new("r", ""),
            NewEvent::new("r", "StepStarted"),
            NewEvent::new("r", "StepStarted").step(""),
            NewEvent::new("r", "RunStarted").with_key(""),
        ];
        for event in bad {
            assert!(event.check().is_err(), "{event:?}");
        }
        NewEvent::new("r", "StepStarted").step("s").check().unwrap();
        NewEvent::new("r", "Anything").check().unwrap();
    }
}
