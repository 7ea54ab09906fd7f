//! Alerts of the projector, as data. The application decides how to notify people.

use mainstay_model::{CanonicalEvent, Stamp};
use serde::{Deserialize, Serialize};

/// The kind of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AlertKind {
    /// An event has waited longer than the alert threshold.
    ProjectorLagHigh,
    /// The run waits for a missing event, or an event arrived late.
    Stale,
    /// An event is not a valid successor of the earlier ones.
    Inconsistent,
}

/// The urgency of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// To be handled today.
    P2,
    /// To be handled some day.
    P3,
}

/// A condition that a person should check. A lasting lag or gap is reported once when it begins, and an
/// illegal event once, however often it is projected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// The kind.
    pub kind: AlertKind,
    /// The urgency.
    pub severity: Severity,
    /// The run.
    pub run_id: String,
    /// The sequence number.
    pub run_seq: u64,
    /// The event's id, if the alert is about an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// A message for people.
    pub message: String,
    /// The time of detection.
    pub at_us: Stamp,
}

impl Alert {
    pub(crate) fn lag(event: &CanonicalEvent, lag_ms: u64, at_us: Stamp) -> Alert {
        let message = format!(
            "event {} of run `{}` was stored {lag_ms} ms ago and is not in its snapshot yet",
            event.run_seq, event.run_id
        );
        let event_id = Some(event.event_id.clone());
        Alert {
            kind: AlertKind::ProjectorLagHigh,
            severity: Severity::P2,
            run_id: event.run_id.clone(),
            run_seq: event.run_seq,
            event_id,
            message,
            at_us,
        }
    }

    pub(crate) fn stale(run: &str, run_seq: u64, message: String, at_us: Stamp) -> Alert {
        Alert {
            kind: AlertKind::Stale,
            severity: Severity::P3,
            run_id: run.to_owned(),
            run_seq,
            event_id: None,
            message,
            at_us,
        }
    }

    pub(crate) fn inconsistent(event: &CanonicalEvent, message: String, at_us: Stamp) -> Alert {
        Alert {
            kind: AlertKind::Inconsistent,
            severity: Severity::P3,
            run_id: event.run_id.clone(),
            run_seq: event.run_seq,
            event_id: Some(event.event_id.clone()),
            message,
            at_us,
        }
    }
}
