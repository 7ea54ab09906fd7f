//! Run snapshots: the reducer's state of a run and its steps, with a canonical hash.

use super::key::hex;
use crate::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// The flag of a run with an illegal event.
pub(super) const INCONSISTENT: &str = "INCONSISTENT";

/// The status of a run.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum RunStatus {
    /// The run is neither approved nor started.
    #[default]
    Pending,
    /// The run may start.
    Approved,
    /// The run is running.
    Running,
    /// The run waits to be resumed.
    Paused,
    /// The run ended successfully.
    Completed,
    /// The run ended with a failure.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

/// All statuses with their text.
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
    /// The status as text.
    pub fn as_str(self) -> &'static str {
        WORDS.iter().find(|(status, _)| *status == self).map_or("", |(_, word)| word)
    }

    /// Parses a status, ignoring case.
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

    /// Returns whether the status is final.
    pub fn is_terminal(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled)
    }
}

/// The status of a step.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum StepStatus {
    /// The step, or its next attempt, has not started.
    #[default]
    Pending,
    /// The step is running.
    Running,
    /// The step ended successfully.
    Success,
    /// The step ended with a failure. A retry opens the next attempt.
    Failed,
    /// The step was skipped.
    Skipped,
}

/// One attempt of a step. It does not change after it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptSnapshot {
    /// The status of the attempt.
    pub status: StepStatus,
    /// The sequence number of the event that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_seq: Option<u64>,
    /// The sequence number of the event that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_seq: Option<u64>,
    /// The name that opened the attempt; `None` if it has none, or for the first attempt's default name `1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_attempt_id: Option<String>,
}

/// A step with all its attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepSnapshot {
    /// The status of the newest attempt.
    pub status: StepStatus,
    /// The attempts, in order.
    pub attempts: Vec<AttemptSnapshot>,
}

/// The state of a run after a prefix of its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// The run.
    pub run_id: String,
    /// The status of the run.
    pub status: RunStatus,
    /// The sequence number of the last event included.
    pub last_event_seq: u64,
    /// The steps by name.
    pub steps: BTreeMap<String, StepSnapshot>,
    /// Flags: `INCONSISTENT` if the run has an illegal event.
    pub flags: BTreeSet<String>,
}

impl RunSnapshot {
    /// The snapshot of a run without events.
    pub fn new(run: &str) -> RunSnapshot {
        RunSnapshot {
            run_id: run.to_owned(),
            status: RunStatus::Pending,
            last_event_seq: 0,
            steps: BTreeMap::new(),
            flags: BTreeSet::new(),
        }
    }

    /// The approximate memory that the snapshot takes, in bytes.
    pub fn weight_bytes(&self) -> usize {
        let attempt = size_of::<AttemptSnapshot>();
        let step = |(name, step): (&String, &StepSnapshot)| {
            2 * size_of::<StepSnapshot>() + name.len() + attempt * step.attempts.len()
        };
        size_of::<RunSnapshot>() + self.run_id.len() + self.steps.iter().map(step).sum::<usize>()
    }

    /// Returns whether the run has an illegal event.
    pub fn is_inconsistent(&self) -> bool {
        self.flags.contains(INCONSISTENT)
    }

    /// The SHA-256 of the snapshot's canonical JSON (RFC 8785). Equal snapshots have equal hashes on every
    /// machine.
    ///
    /// ```
    /// use mainstay_model::RunSnapshot;
    /// assert_eq!(RunSnapshot::new("r").hash(), RunSnapshot::new("r").hash());
    /// assert_ne!(RunSnapshot::new("r").hash(), RunSnapshot::new("s").hash());
    /// ```
    pub fn hash(&self) -> String {
        // A snapshot has only texts and integers, all of which have a canonical form.
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
