//! Settings of a projector.

use super::Resync;
use mainstay_model::limits::check_page;
use mainstay_model::{Code, Error, Result};
use serde::{Deserialize, Serialize};

/// The settings of a projector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Settings {
    /// The pause between two polls of all runs, in milliseconds.
    pub poll_ms: u64,
    /// The page size of a fetch, in events.
    pub page: usize,
    /// The most fetches per run and poll. A resync is not limited.
    pub pages_per_poll: usize,
    /// How long the projector waits for a gap before it gives up, in milliseconds.
    pub patience_ms: u64,
    /// The recheck interval of a recent given-up gap, in milliseconds.
    pub recheck_least_ms: u64,
    /// The recheck interval of an old given-up gap, in milliseconds.
    pub recheck_most_ms: u64,
    /// The target lag, in milliseconds.
    pub lag_target_ms: u64,
    /// The lag above which an alert is raised, in milliseconds.
    pub lag_alert_ms: u64,
    /// The lag above which a run is resynced, in milliseconds.
    pub lag_resync_ms: u64,
    /// The starting point of automatic resyncs.
    pub resync: Resync,
    /// The most followed runs.
    pub runs_limit: usize,
    /// The most gaps remembered per run. Above it the oldest is forgotten.
    pub gaps_limit: usize,
    /// The most reported illegal events remembered per run. Above it no more are reported.
    pub told_limit: usize,
    /// The most alerts in the queue. Above it the oldest is dropped.
    pub alerts_limit: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            poll_ms: 200,
            page: 1_000,
            pages_per_poll: 10,
            patience_ms: 2_000,
            recheck_least_ms: 1_000,
            recheck_most_ms: 60_000,
            lag_target_ms: 1_000,
            lag_alert_ms: 5_000,
            lag_resync_ms: 10_000,
            resync: Resync::FromSnapshot,
            runs_limit: 4_096,
            gaps_limit: 256,
            told_limit: 1_024,
            alerts_limit: 10_000,
        }
    }
}

impl Settings {
    /// Rejects invalid settings.
    pub fn check(&self) -> Result<()> {
        check_page(self.page)?;
        let counts = [
            ("pages_per_poll", self.pages_per_poll),
            ("runs_limit", self.runs_limit),
            ("gaps_limit", self.gaps_limit),
            ("told_limit", self.told_limit),
            ("alerts_limit", self.alerts_limit),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(Error::new(Code::InvalidOption, format!("{name} is 0: it is 1 or more")));
        }
        if self.recheck_least_ms > self.recheck_most_ms {
            let message = "recheck_least_ms is above recheck_most_ms: make it smaller";
            return Err(Error::new(Code::InvalidOption, message));
        }
        Ok(())
    }
}
