//! Snapshots: what a run's events add up to.

use super::key::hex;
use crate::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// An event came that cannot follow those before it.
pub(super) const INCONSISTENT: &str = "INCONSISTENT";

/// Where a run stands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum RunStatus {
    /// Nothing has been decided.
    #[default]
    Pending,
    /// It may start.
    Approved,
    /// It runs.
    Running,
    /// It waits to be resumed.
    Paused,
    /// It has ended well.
    Completed,
    /// It has ended badly.
    Failed,
    /// It was called off.
    Cancelled,
}

/// All of them, and how they are written.
const WORDS: [(RunStatus, &str); 7] = [
    (RunStatus::Pending, "PENDING"),
    (RunStatus::Approved, "APPROVED"),
    (RunStatus::Running, "RUNNING"),
    (RunStatus::Paused, "PAUSED"),
    (RunStatus::Completed, "COMPLETED"),
    (RunStatus::Failed, "FAILED"),
    (RunStatus::Cancelled, "CANCELLED"),
];

impl RunStatus {
    /// How it is written.
    pub fn as_str(self) -> &'static str {
        WORDS.iter().find(|(status, _)| *status == self).map_or("", |(_, word)| word)
    }

    /// What is written so, in small or large letters.
    ///
    /// ```
    /// use mainstay_model::RunStatus;
    /// assert_eq!(RunStatus::parse("failed")?, RunStatus::Failed);
    /// assert!(RunStatus::parse("done").is_err());
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<RunStatus> {
        let found = WORDS.iter().find(|(_, word)| text.eq_ignore_ascii_case(word));
        found.map(|(status, _)| *status).ok_or_else(|| {
            let words: Vec<_> = WORDS.iter().map(|(_, word)| *word).collect();
            let message = format!("`{text}` is no status of a run: there are {}", words.join(", "));
            Error::new(Code::InvalidArgument, message)
        })
    }

    /// Whether nothing can follow.
    pub fn is_terminal(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled)
    }
}

/// Where a step stands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum StepStatus {
    /// It has not begun, or not again.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// It has ended well.
    Success,
    /// It has ended badly; a retry opens the next attempt.
    Failed,
    /// It was left out.
    Skipped,
}

/// One try of a step. Once it has ended it does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptSnapshot {
    /// Where it stands.
    pub status: StepStatus,
    /// The event that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_seq: Option<u64>,
    /// The event that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_seq: Option<u64>,
    /// The name that it was opened by; nothing: none, or the first attempt's own, `1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_attempt_id: Option<String>,
}

/// A step, with all its tries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepSnapshot {
    /// Where its newest attempt stands.
    pub status: StepStatus,
    /// Its attempts, the first one first.
    pub attempts: Vec<AttemptSnapshot>,
}

/// What a run's events up to one of them add up to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// The run.
    pub run_id: String,
    /// Where it stands.
    pub status: RunStatus,
    /// The last event that is in it.
    pub last_event_seq: u64,
    /// Its steps by their names.
    pub steps: BTreeMap<String, StepSnapshot>,
    /// What else is to be known: `INCONSISTENT`.
    pub flags: BTreeSet<String>,
}

impl RunSnapshot {
    /// A run without events.
    pub fn new(run: &str) -> RunSnapshot {
        RunSnapshot {
            run_id: run.to_owned(),
            status: RunStatus::Pending,
            last_event_seq: 0,
            steps: BTreeMap::new(),
            flags: BTreeSet::new(),
        }
    }

    /// The memory that it takes, about.
    pub fn weight_bytes(&self) -> usize {
        let attempt = size_of::<AttemptSnapshot>();
        let step = |(name, step): (&String, &StepSnapshot)| {
            2 * size_of::<StepSnapshot>() + name.len() + attempt * step.attempts.len()
        };
        size_of::<RunSnapshot>() + self.run_id.len() + self.steps.iter().map(step).sum::<usize>()
    }

    /// Whether an event came that could not follow those before it.
    pub fn is_inconsistent(&self) -> bool {
        self.flags.contains(INCONSISTENT)
    }

    /// The SHA-256 of its canonical JSON (RFC 8785): equal snapshots have equal hashes, wherever they
    /// were made.
    ///
    /// ```
    /// use mainstay_model::RunSnapshot;
    /// assert_eq!(RunSnapshot::new("r").hash(), RunSnapshot::new("r").hash());
    /// assert_ne!(RunSnapshot::new("r").hash(), RunSnapshot::new("s").hash());
    /// ```
    pub fn hash(&self) -> String {
        // It holds texts and whole numbers only, all of which have such a form.
        let canonical = serde_json_canonicalizer::to_vec(self).unwrap_or_default();
        hex(&Sha256::digest(canonical))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_written_as_serde_writes_them() {
        for (status, word) in WORDS {
            assert_eq!(serde_json::to_string(&status).unwrap(), format!("\"{word}\""));
            assert_eq!((status.as_str(), RunStatus::parse(word).unwrap()), (word, status));
        }
    }

    #[test]
    fn the_hash_is_of_the_canonical_json() {
        let mut snapshot = RunSnapshot::new("r");
        snapshot.last_event_seq = 3;
        snapshot.steps.insert("b".into(), StepSnapshot::default());
        snapshot.steps.insert("a".into(), StepSnapshot::default());
        let step = r#"{"attempts":[],"status":"PENDING"}"#;
        let text = format!(
            r#"{{"flags":[],"lastEventSeq":3,"runId":"r","status":"PENDING","steps":{{"a":{step},"b":{step}}}}}"#
        );
        assert_eq!(snapshot.hash(), hex(&Sha256::digest(text)));
    }
}
