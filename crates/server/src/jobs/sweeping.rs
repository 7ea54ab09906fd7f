//! The periodic sweep of the server: takes jobs away from workers whose lease has expired, and logs it.

use super::desk::Desk;
use mainstay::Result;
use mainstay_jobs::{Jobs, Sweep, SweepReport, Sweeper};
use std::sync::Arc;
use std::time::Duration;

/// Starts the sweep at the configured interval. Returns `None` if it is disabled.
pub fn start_sweeping(desk: &Arc<Desk>) -> Result<Option<Sweeper>> {
    let Some(every_ms) = desk.settings().sweep_interval_ms else { return Ok(None) };
    let own = desk.clone();
    let desk = desk.clone();
    // The first sweep does nothing, because workers could not send heartbeats while the server was down.
    let mut is_first = true;
    let find =
        move || if std::mem::take(&mut is_first) { Ok(Vec::new()) } else { own.to_be_swept() };
    let mut failing = false;
    Sweeper::with_callback(Duration::from_millis(every_ms), find, move |sweep| {
        failing = tell(&desk, sweep, failing)
    })
    .map(Some)
}

/// Logs a sweep that changed something, and the first of a series of failures. Returns whether this sweep
/// failed.
fn tell(desk: &Desk, sweep: &Sweep, failing: bool) -> bool {
    match &sweep.result {
        Ok(report) if *report == SweepReport::default() => {}
        Ok(SweepReport { looked_at, retried, failed, moved_on, unreadable }) => {
            let took_us = sweep.duration_us;
            let jobs = sweep.jobs.iter().map(|(name, state)| format!("{name} {state}"));
            let jobs = jobs.collect::<Vec<_>>().join(", ");
            tracing::info!(
                looked_at,
                retried,
                failed,
                moved_on,
                unreadable,
                took_us,
                jobs,
                "jobs were swept"
            );
        }
        Err(error) => {
            desk.note_failed_sweep();
            if !failing {
                tracing::warn!(%error, "jobs could not be swept");
            }
        }
    }
    sweep.result.is_err()
}

impl Desk {
    /// Returns the jobs of the served branches that have any.
    fn to_be_swept(&self) -> Result<Vec<Jobs>> {
        let branches = self.served_branches()?;
        let jobs = branches.iter().filter_map(|branch| self.look(branch).transpose());
        jobs.collect()
    }
}
