//! What a projector is told beforehand: times, sizes, limits.

use crate::projector::Resync;
use mainstay_model::limits::check_page;
use mainstay_model::{Code, Error, Result};
use serde::{Deserialize, Serialize};

/// Settings of a projector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Settings {
    /// How long it rests between two looks at all runs.
    pub poll_ms: u64,
    /// Events per fetch.
    pub page: usize,
    /// Fetches per run and look; a resync goes on to the end.
    pub pages_per_poll: usize,
    /// How long a gap is waited for before it is given up.
    pub patience_ms: u64,
    /// A young gap that was given up is looked at so often.
    pub recheck_least_ms: u64,
    /// An old one so often.
    pub recheck_most_ms: u64,
    /// The lag that is aimed at.
    pub lag_target_ms: u64,
    /// Above this lag there is an alert.
    pub lag_alert_ms: u64,
    /// Above this lag a run is resynced.
    pub lag_resync_ms: u64,
    /// How a run is resynced.
    pub resync: Resync,
    /// The most runs that are followed.
    pub runs_limit: usize,
    /// The most gaps that are known of one run; over it the oldest is forgotten.
    pub gaps_limit: usize,
    /// The most events of one run of which it is remembered that they were told; over it no more are told.
    pub told_limit: usize,
    /// The most alerts that wait to be taken; over it the oldest is dropped.
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
    /// Refuses settings that nothing can work with.
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
