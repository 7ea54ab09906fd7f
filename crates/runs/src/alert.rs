//! What somebody should look at, as data: who tells people is not decided here.

use mainstay_model::{CanonicalEvent, Stamp};
use serde::{Deserialize, Serialize};

/// What is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AlertKind {
    /// An event has waited for longer than it should.
    ProjectorLagHigh,
    /// An event is missing between others, or came behind them.
    Stale,
    /// An event could not follow those before it.
    Inconsistent,
}

/// How soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// Today.
    P2,
    /// Some day.
    P3,
}

/// Something to be looked at. What stays wrong is told once: a lag or a gap when it begins, an event however often it is
/// projected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// What.
    pub kind: AlertKind,
    /// How soon.
    pub severity: Severity,
    /// In which run.
    pub run_id: String,
    /// At which number.
    pub run_seq: u64,
    /// The event, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// What happened, for people.
    pub message: String,
    /// When it was noticed.
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
