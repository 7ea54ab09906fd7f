//! Metrics of a projector and of the runs it follows.

use super::projection::{Projection, ProjectionState};
use mainstay_model::Stamp;
use serde::{Deserialize, Serialize};

/// The state and the counters of a projector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectorStats {
    /// The number of followed runs.
    pub runs: u64,
    /// The number of followed runs that wait for an event.
    pub stale: u64,
    /// The largest lag of a run, in milliseconds.
    pub lag_ms: u64,
    /// The target lag, in milliseconds.
    pub lag_target_ms: u64,
    /// The number of gaps that the projector waits for.
    pub gaps_open: u64,
    /// The number of gaps given up, which are rechecked periodically.
    pub gaps_given_up: u64,
    /// The counters.
    #[serde(flatten)]
    pub counters: ProjectorCounters,
}

/// Monotonic counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectorCounters {
    /// Events folded, without those of a resync.
    pub events: u64,
    /// Resyncs from the first event.
    pub resyncs_full: u64,
    /// Resyncs from a snapshot.
    pub resyncs_from_snapshot: u64,
    /// Gaps given up after waiting in vain.
    pub gaps_passed: u64,
    /// Gaps forgotten because of the limit. A late event in such a gap is not detected.
    pub gaps_forgotten: u64,
    /// Gaps that were filled after they were given up.
    pub late: u64,
    /// Alerts.
    pub alerts: u64,
    /// Alerts dropped because they were not taken in time.
    pub alerts_dropped: u64,
    /// Illegal events not reported because of the limit per run.
    #[serde(rename = "alertsUntold")]
    pub alerts_suppressed: u64,
    /// Polls of a run that failed.
    pub failures: u64,
}

/// The state of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStats {
    /// The run.
    pub run_id: String,
    /// The state: current, or waiting for an event.
    pub state: ProjectionState,
    /// The sequence number of the last event in the snapshot.
    pub watermark: u64,
    /// The age of the oldest stored event that is not in the snapshot, in milliseconds.
    pub lag_ms: u64,
    /// The number of gaps that the projector waits for.
    pub gaps_open: u64,
    /// The number of gaps given up.
    pub gaps_given_up: u64,
}

impl RunStats {
    pub(crate) fn of(run: &Projection, now_us: Stamp) -> RunStats {
        RunStats {
            run_id: run.snapshot.run_id.clone(),
            state: run.state,
            watermark: run.watermark(),
            lag_ms: run.lag_ms(now_us),
            gaps_open: run.open_gaps.len() as u64,
            gaps_given_up: run.abandoned_gaps.len() as u64,
        }
    }
}

impl ProjectorStats {
    pub(crate) fn add(&mut self, run: &RunStats) {
        self.runs += 1;
        self.stale += u64::from(run.state == ProjectionState::Stale);
        self.lag_ms = self.lag_ms.max(run.lag_ms);
        self.gaps_open += run.gaps_open;
        self.gaps_given_up += run.gaps_given_up;
    }
}
