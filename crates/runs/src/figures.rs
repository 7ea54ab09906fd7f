//! Figures about a projector and the runs that it follows.

use crate::projection::{Projection, ProjectionState};
use mainstay_model::Stamp;
use serde::{Deserialize, Serialize};

/// What a projector has done, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Runs that are followed.
    pub runs: u64,
    /// Those of them that wait for an event.
    pub stale: u64,
    /// The largest lag of them.
    pub lag_ms: u64,
    /// The lag that is aimed at.
    pub lag_target_ms: u64,
    /// Gaps that are waited for.
    pub gaps_open: u64,
    /// Gaps that were given up and are looked at now and then.
    pub gaps_given_up: u64,
    /// What was counted on the way.
    #[serde(flatten)]
    pub counted: Counted,
}

/// What is counted on the way; it only rises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    /// Events that were folded; those of a resync not again.
    pub events: u64,
    /// Resyncs from the first event on.
    pub resyncs_full: u64,
    /// Resyncs from a snapshot.
    pub resyncs_from_snapshot: u64,
    /// Gaps that came to be known for good since they were waited for in vain.
    pub gaps_passed: u64,
    /// Gaps that were forgotten since there were too many: what comes there is not noticed.
    pub gaps_forgotten: u64,
    /// Gaps that were given up and then filled.
    pub late: u64,
    /// Alerts.
    pub alerts: u64,
    /// Alerts that nobody took in time.
    pub alerts_dropped: u64,
    /// Events that would have been told, in runs with too many of them.
    pub alerts_untold: u64,
    /// Looks at a run that failed.
    pub failures: u64,
}

/// How far one run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunFigures {
    /// The run.
    pub run_id: String,
    /// Whether it waits for an event.
    pub state: ProjectionState,
    /// The last event in its snapshot.
    pub watermark: u64,
    /// For how long the oldest event that is not in it has been stored.
    pub lag_ms: u64,
    /// Gaps that are waited for.
    pub gaps_open: u64,
    /// Gaps that were given up.
    pub gaps_given_up: u64,
}

impl RunFigures {
    pub(crate) fn of(run: &Projection, now_us: Stamp) -> RunFigures {
        RunFigures {
            run_id: run.snapshot.run_id.clone(),
            state: run.state,
            watermark: run.watermark(),
            lag_ms: run.lag_ms(now_us),
            gaps_open: run.open.len() as u64,
            gaps_given_up: run.given_up.len() as u64,
        }
    }
}

impl Figures {
    pub(crate) fn add(&mut self, run: &RunFigures) {
        self.runs += 1;
        self.stale += u64::from(run.state == ProjectionState::Stale);
        self.lag_ms = self.lag_ms.max(run.lag_ms);
        self.gaps_open += run.gaps_open;
        self.gaps_given_up += run.gaps_given_up;
    }
}
