//! The sweeper of a server: it takes jobs away from silent workers, on the branches that are served, and says so.

use super::desk::Desk;
use mainstay::Result;
use mainstay_jobs::{Jobs, Sweep, SweepReport, Sweeper};
use std::sync::Arc;
use std::time::Duration;

/// Sweeps as often as the settings say; nothing where they say never.
pub fn start_sweeping(desk: &Arc<Desk>) -> Result<Option<Sweeper>> {
    let Some(every_ms) = desk.settings().sweep_interval_ms else { return Ok(None) };
    let (own, desk) = (desk.clone(), desk.clone());
    // Workers that could not be heard while there was no server get a moment to be.
    let mut is_first = true;
    let find = move || match std::mem::take(&mut is_first) {
        true => Ok(Vec::new()),
        false => own.to_be_swept(),
    };
    let mut failing = false;
    let hear = move |sweep: &Sweep| failing = tell(&desk, sweep, failing);
    Sweeper::telling(Duration::from_millis(every_ms), find, hear).map(Some)
}

/// Tells of a sweep that did something, and of the first that failed; says whether this one did.
fn tell(desk: &Desk, sweep: &Sweep, failing: bool) -> bool {
    match &sweep.done {
        Ok(report) if *report == SweepReport::default() => {}
        Ok(SweepReport { looked_at, retried, failed, moved_on, unreadable }) => {
            let took_us = sweep.took_us;
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
    sweep.done.is_err()
}

impl Desk {
    /// The jobs of the branches that are served, if there ever was one.
    fn to_be_swept(&self) -> Result<Vec<Jobs>> {
        let branches = self.served_branches()?;
        let jobs = branches.iter().filter_map(|branch| self.look(branch).transpose());
        jobs.collect()
    }
}
