//! Events of a run's log.
//!
//! An event of a newer minor contract version may have unknown fields, which are kept and shown unchanged. An
//! event of a newer major version is refused on reading, because its meaning may differ.

use super::new::check_depth;
use super::{Instant, NewEvent};
use crate::{Code, Error, Result, Stamp, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The contract version of new events.
pub const CONTRACT_VERSION: &str = "1.0";

/// The contract version of events without one, in JSON and in bytes. It never changes: otherwise stored
/// events would become events of a newer contract.
pub(super) const FIRST_VERSION: &str = "1.0";

/// The field names of this contract. They must not appear among the unknown fields, because an event with
/// both would be ambiguous and could not be read back.
const FIELDS: [&str; 18] = [
    "runId",
    "runSeq",
    "eventId",
    "stepId",
    "engineAttemptId",
    "logicalAttemptId",
    "eventType",
    "eventData",
    "idempotencyKey",
    "emittedAt",
    "persistedAt",
    "planVersion",
    "planId",
    "adapterVersion",
    "engineRunRef",
    "causedBySignalId",
    "parentEventId",
    "contractVersion",
];

/// A stored event of a run.
///
/// ```
/// use mainstay_model::CanonicalEvent;
/// let text = r#"{"runId":"r","runSeq":4,"eventId":"0199-…","eventType":"StepCompleted","stepId":"fetch",
///     "eventData":{"rows":3},"idempotencyKey":"abc","emittedAt":"2026-02-11T08:30:00Z","contractVersion":"1.7",
///     "colour":"green"}"#;
/// let event: CanonicalEvent = serde_json::from_str(text)?;
/// assert_eq!(event.step_id.as_deref(), Some("fetch"));
/// // Unknown fields are kept.
/// assert_eq!(event.more["colour"].as_str(), Some("green"));
/// assert!(serde_json::to_string(&event)?.contains(r#""colour":"green""#));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanonicalEvent {
    /// The run.
    pub run_id: String,
    /// The sequence number in the run's log, strictly increasing.
    pub run_seq: u64,
    /// The event's unique id.
    pub event_id: String,
    /// The step of the event; `None` if it concerns the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// The workflow engine's number of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_attempt_id: Option<String>,
    /// The application's number of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_attempt_id: Option<String>,
    /// The type of the event.
    pub event_type: String,
    /// The payload.
    #[serde(default)]
    pub event_data: Value,
    /// The idempotency key: appends with the same key write one event.
    pub idempotency_key: String,
    /// The time of the event, according to its producer.
    pub emitted_at: Instant,
    /// The storage time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persisted_at: Option<Instant>,
    /// The version of the plan that the run follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_version: Option<String>,
    /// The plan's id, if it has one in addition to the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_id: Option<String>,
    /// The version of the adapter that produced the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_version: Option<String>,
    /// The workflow engine's own reference to the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_run_ref: Option<Value>,
    /// The id of the signal that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused_by_signal_id: Option<String>,
    /// The id of the event that caused this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_event_id: Option<String>,
    /// The contract version of the event.
    #[serde(default = "first_version")]
    pub contract_version: String,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// The default contract version, for events from before versions were written.
fn first_version() -> String {
    FIRST_VERSION.to_owned()
}

impl CanonicalEvent {
    /// The approximate memory that the event takes, in bytes.
    pub fn weight_bytes(&self) -> usize {
        let texts = [&self.run_id, &self.event_id, &self.event_type, &self.idempotency_key];
        let more = self.more.iter().map(|(name, value)| name.len() + value.weight_bytes());
        let reference = self.engine_run_ref.as_ref().map_or(0, Value::weight_bytes);
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        size_of::<CanonicalEvent>()
            + texts
            + self.event_data.weight_bytes()
            + reference
            + more.sum::<usize>()
    }

    /// The storage time, or the producer's time if the store does not record one.
    pub fn stored_us(&self) -> Stamp {
        self.persisted_at.as_ref().unwrap_or(&self.emitted_at).stamp_us()
    }

    /// Returns whether the content equals that of a retried event: type, step, attempt and payload. The time
    /// and the producer may differ between retries.
    pub fn says_the_same(&self, other: &NewEvent) -> bool {
        // A missing attempt means the first one, as in idempotency keys.
        let attempt = |id: &Option<String>| id.clone().unwrap_or_else(|| "1".to_owned());
        self.event_type == other.event_type
            && self.step_id == other.step_id
            && attempt(&self.logical_attempt_id) == attempt(&other.logical_attempt_id)
            && self.event_data.says_the_same(&other.event_data)
    }

    /// Rejects events that cannot be stored unchanged: of another major version, with an ambiguous field, or
    /// nested too deeply.
    pub fn check(&self) -> Result<()> {
        self.check_version()?;
        check_names(&self.run_id, &self.more)?;
        check_depth(&self.event_data, self.engine_run_ref.as_ref(), &self.more)
    }

    /// Rejects an event of another major contract version, whose meaning may differ.
    pub fn check_version(&self) -> Result<()> {
        let major = |version: &str| version.split('.').next().and_then(|it| it.parse::<u32>().ok());
        if major(&self.contract_version) == major(CONTRACT_VERSION) {
            return Ok(());
        }
        let message = format!(
            "event {} of run `{}` is of contract version {}, this program knows {CONTRACT_VERSION}: use a newer program",
            self.run_seq, self.run_id, self.contract_version
        );
        Err(Error::new(Code::NewerFormat, message))
    }
}

/// Rejects field names of the contract among the unknown fields.
pub(super) fn check_names(run: &str, more: &BTreeMap<String, Value>) -> Result<()> {
    let Some(name) = FIELDS.iter().find(|name| more.contains_key(**name)) else { return Ok(()) };
    let message = format!(
        "an event of run `{run}` has {name} among the fields that are not known: it is a field of its own, say it there"
    );
    Err(Error::new(Code::InvalidArgument, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::samples::any_value;
    use proptest::prelude::*;

    /// Names of unknown fields: those of the contract, names with a special meaning in JSON values, and
    /// arbitrary ones.
    fn any_name() -> impl Strategy<Value = String> {
        let known = proptest::sample::select(FIELDS.to_vec()).prop_map(str::to_owned);
        let near = ["run_id", "RunId", "runid", "$bytes", "$float", "$", "$$bytes", "more", ""];
        let near = proptest::sample::select(near.to_vec()).prop_map(str::to_owned);
        prop_oneof![1 => known, 3 => near, 3 => ".{0,12}"]
    }

    proptest! {
        #[test]
        fn further_fields_are_refused_or_come_back_as_they_were(
            more in proptest::collection::btree_map(any_name(), any_value(), 0..4),
        ) {
            let event = NewEvent { more: more.clone(), ..NewEvent::new("r", "T").with_key("k") };
            let stored = event.clone().stored(7, "e".into(), "k".into(), Instant::of_us(9_000));
            let known = FIELDS.iter().any(|name| more.contains_key(*name));
            for checked in [event.check(), stored.check()] {
                let refused = checked.map_err(|error| error.code());
                prop_assert_eq!(refused, if known { Err(Code::InvalidArgument) } else { Ok(()) });
            }
            if !known {
                let again: NewEvent = crate::from_value(crate::to_value(&event).unwrap()).unwrap();
                prop_assert_eq!(&again, &event);
                let json = Value::from_json(&stored.to_json()).unwrap();
                let again: CanonicalEvent = crate::from_value(json).unwrap();
                prop_assert_eq!(&again, &stored);
                let mut bytes = Vec::new();
                stored.encode(&Instant::of_us(9_000), &mut bytes).unwrap();
                prop_assert_eq!(&CanonicalEvent::decode(&bytes, "r", 7, 9_000).unwrap(), &stored);
            }
        }
    }

    #[test]
    fn the_fields_are_those_of_an_event() {
        let mut event = NewEvent::new("r", "T").step("s").attempt(1).plan("1").signal("u");
        event.engine_attempt_id = Some("1".into());
        event.plan_id = Some("p".into());
        event.adapter_version = Some("a".into());
        event.parent_event_id = Some("e".into());
        event.engine_run_ref = Some(1.into());
        let event = event.stored(1, "e".into(), "k".into(), Instant::of_us(0));
        let Value::Object(fields) = crate::to_value(&event).unwrap() else { panic!("no object") };
        let mut known = FIELDS.to_vec();
        known.sort_unstable();
        assert!(fields.keys().map(String::as_str).eq(known));
    }
}
