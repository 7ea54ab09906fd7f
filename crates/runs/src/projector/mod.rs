//! Projector: maintains snapshots of runs in stores with gaps and late events.
//!
//! ```text
//!             .------------------ poll: for each run -----------------.
//!   store --> | recheck given-up gaps       late? -> resync           |
//!             | fetch after the watermark -> Projection::process_page | --> snapshot, alerts, statistics
//!             |    gap -> STALE    lag > 10 s -> resync               |
//!             '-------------------------------------------------------'
//! ```
//!
//! For a monotone store, gaps are not tracked.

mod alert;
mod gap;
mod projection;
mod settings;
mod stats;

pub use alert::{Alert, AlertKind, Severity};
pub use gap::Gap;
pub use projection::{Projection, ProjectionState};
pub use settings::Settings;
pub use stats::{ProjectorCounters, ProjectorStats, RunStats};

use crate::clock::AsyncClock;
use mainstay_model::{CanonicalEvent, Code, Error, Name, PageSize, Result, RunSnapshot, RunStore};
use parking_lot::Mutex;
use projection::{FoldContext, ResyncResult};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The starting point of a resync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Resync {
    /// The first event.
    Full,
    /// The store's snapshot before the first gap, followed by the events after it.
    FromSnapshot,
}

/// Maintains snapshots of runs. It can be shared; polls run one at a time.
pub struct Projector {
    store: Arc<dyn RunStore>,
    time: Arc<dyn AsyncClock>,
    settings: Settings,
    watches_gaps: bool,
    state: Mutex<ProjectorState>,
    /// Held during a poll.
    poll_lock: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct ProjectorState {
    runs: BTreeMap<String, Projection>,
    alerts: VecDeque<Alert>,
    counters: ProjectorCounters,
}

impl Projector {
    /// Creates a projector that follows no run yet.
    pub fn new(
        store: Arc<dyn RunStore>,
        time: Arc<dyn AsyncClock>,
        settings: Settings,
    ) -> Result<Projector> {
        settings.check()?;
        let watches_gaps = !store.capabilities().monotone;
        let state = Mutex::default();
        let poll_lock = tokio::sync::Mutex::default();
        Ok(Projector { store, time, settings, watches_gaps, state, poll_lock })
    }

    /// Follows a run from its first event. A followed run is left unchanged.
    pub fn follow(&self, run: &str) -> Result<()> {
        Name::new(run)?;
        if self.state.lock().runs.contains_key(run) {
            return Ok(());
        }
        self.follow_from(Projection::new(run))
    }

    /// Follows a run from a stored projection.
    pub fn follow_from(&self, projection: Projection) -> Result<()> {
        let mut state = self.state.lock();
        let run = projection.snapshot.run_id.clone();
        let limit = self.settings.runs_limit;
        if state.runs.len() >= limit && !state.runs.contains_key(&run) {
            let message = format!(
                "run `{run}` is one too many: {limit} are followed; forget one, or raise runs_limit"
            );
            return Err(Error::new(Code::QueueFull, message));
        }
        state.runs.insert(run, projection);
        Ok(())
    }

    /// Stops following a run. Returns its projection.
    pub fn unfollow(&self, run: &str) -> Option<Projection> {
        self.state.lock().runs.remove(run)
    }

    /// The projection of a run.
    pub fn projection(&self, run: &str) -> Option<Projection> {
        self.state.lock().runs.get(run).cloned()
    }

    /// The snapshot of a run.
    pub fn snapshot(&self, run: &str) -> Option<RunSnapshot> {
        self.state.lock().runs.get(run).map(|run| run.snapshot.clone())
    }

    /// Returns whether a run waits for an event.
    pub fn is_stale(&self, run: &str) -> bool {
        let state = self.state.lock();
        state.runs.get(run).is_some_and(|run| run.state == ProjectionState::Stale)
    }

    /// The gaps of a run that were given up. They may never be filled.
    pub fn gaps(&self, run: &str) -> Vec<Gap> {
        self.state.lock().runs.get(run).map_or_else(Vec::new, |run| run.abandoned_gaps.clone())
    }

    /// Takes the alerts since the last call.
    pub fn take_alerts(&self) -> Vec<Alert> {
        self.state.lock().alerts.drain(..).collect()
    }

    /// The metrics of all runs.
    pub fn stats(&self) -> ProjectorStats {
        let state = self.state.lock();
        let now_us = self.time.now_us();
        let lag_target_ms = self.settings.lag_target_ms;
        let counters = state.counters.clone();
        let mut stats = ProjectorStats { lag_target_ms, counters, ..ProjectorStats::default() };
        state.runs.values().for_each(|run| stats.add(&RunStats::of(run, now_us)));
        stats
    }

    /// The metrics of one run.
    pub fn run_stats(&self, run: &str) -> Option<RunStats> {
        let now_us = self.time.now_us();
        self.state.lock().runs.get(run).map(|run| RunStats::of(run, now_us))
    }

    /// Polls all runs periodically until it is dropped. Errors are counted, and the poll is retried.
    pub async fn run(&self) {
        loop {
            self.poll_all().await;
            self.time.sleep(self.settings.poll_ms).await;
        }
    }

    /// Polls all runs once. Returns the errors.
    pub async fn poll_all(&self) -> Vec<(String, Error)> {
        let runs: Vec<String> = self.state.lock().runs.keys().cloned().collect();
        let mut errors = Vec::new();
        for run in runs {
            if let Err(error) = self.poll(&run).await {
                errors.push((run, error));
            }
        }
        errors
    }

    /// Polls a run once.
    pub async fn poll(&self, run: &str) -> Result<()> {
        let _guard = self.poll_lock.lock().await;
        let result = self.poll_run(run).await;
        self.state.lock().counters.failures += u64::from(result.is_err());
        result
    }

    /// Folds a run again, then processes all visible events.
    pub async fn resync(&self, run: &str, start: Resync) -> Result<()> {
        let _guard = self.poll_lock.lock().await;
        self.resync_from(run, start, None).await?;
        self.catch_up(run, usize::MAX).await
    }

    async fn poll_run(&self, run: &str) -> Result<()> {
        if let Some(gap_free_seq) = self.find_late_event(run).await? {
            self.resync_from(run, self.settings.resync, Some(gap_free_seq)).await?;
        }
        self.catch_up(run, self.settings.pages_per_poll).await
    }

    /// Rechecks gaps that were given up. If one has an event now, returns the number before that gap.
    async fn find_late_event(&self, run: &str) -> Result<Option<u64>> {
        let due = self.with_run(run, |run, context| run.take_due_gaps(context))?;
        for gap in due {
            let limit = usize::try_from(gap.width()).unwrap_or(usize::MAX).min(self.settings.page);
            let page = self.fetch(run, gap.first - 1, &mut PageSize::upto(limit)).await?;
            let Some(seq) = page.first().map(|event| event.run_seq).filter(|seq| *seq <= gap.last)
            else {
                continue;
            };
            self.with_run(run, |run, context| {
                context.counters.late += 1;
                run.mark_stale(seq, &format!("event {seq} came behind later ones"), context);
            })?;
            return Ok(Some(gap.first - 1));
        }
        Ok(None)
    }

    /// Processes events after the watermark, at most this many pages.
    async fn catch_up(&self, run: &str, pages: usize) -> Result<()> {
        let mut remaining = pages;
        let mut size = PageSize::upto(self.settings.page);
        loop {
            // The page budget is used up: fetch one event to measure the lag.
            let mut one = PageSize::upto(1);
            let size = if remaining == 0 { &mut one } else { &mut size };
            let page = self.fetch(run, self.watermark(run)?, size).await?;
            if self.with_run(run, |run, context| run.check_lag(&page, context))? {
                self.resync_from(run, self.settings.resync, None).await?;
                remaining = usize::MAX;
                continue;
            }
            if remaining == 0 {
                return Ok(());
            }
            let is_caught_up =
                self.with_run(run, |run, context| run.process_page(&page, context))?;
            if page.is_empty() || !is_caught_up {
                return Ok(());
            }
            remaining -= 1;
        }
    }

    /// Folds a run again up to its watermark: from the first event, or from a snapshot at `seq` or before the
    /// first gap.
    async fn resync_from(&self, run: &str, start: Resync, seq: Option<u64>) -> Result<()> {
        let (upto, gap_free) =
            self.with_run(run, |run, _| (run.watermark(), run.gap_free_seq()))?;
        let base_seq = match start {
            Resync::Full => 0,
            Resync::FromSnapshot => seq.unwrap_or(gap_free),
        };
        let result = self.fold(run, base_seq, upto).await?;
        self.with_run(run, |run, context| {
            match start {
                Resync::Full => context.counters.resyncs_full += 1,
                Resync::FromSnapshot => context.counters.resyncs_from_snapshot += 1,
            }
            run.replace(result, context);
        })
    }

    async fn fold(&self, run: &str, base_seq: u64, upto: u64) -> Result<ResyncResult> {
        let base = match base_seq {
            0 => None,
            _ => self.store.snapshot_at(run, base_seq).await?,
        };
        let mut result =
            ResyncResult::from(base_seq, base.unwrap_or_else(|| RunSnapshot::new(run)));
        let mut previous = base_seq;
        let mut size = PageSize::upto(self.settings.page);
        while previous < upto {
            let page = self.fetch(run, previous, &mut size).await?;
            for event in page.iter().take_while(|event| event.run_seq <= upto) {
                result.fold(previous, event);
                previous = event.run_seq;
            }
            if page.last().is_none_or(|last| last.run_seq > upto) {
                break;
            }
        }
        Ok(result)
    }

    async fn fetch(
        &self,
        run: &str,
        after: u64,
        size: &mut PageSize,
    ) -> Result<Vec<CanonicalEvent>> {
        size.fetch(&*self.store, run, after).await
    }

    fn watermark(&self, run: &str) -> Result<u64> {
        self.with_run(run, |run, _| run.watermark())
    }

    /// Changes the projection of a run and stores the resulting alerts.
    fn with_run<T>(
        &self,
        run: &str,
        change: impl FnOnce(&mut Projection, &mut FoldContext<'_>) -> T,
    ) -> Result<T> {
        let mut state = self.state.lock();
        let ProjectorState { runs, counters, .. } = &mut *state;
        let Some(projection) = runs.get_mut(run) else {
            let message = format!("run `{run}` is not followed: call `follow` first");
            return Err(Error::new(Code::RunNotFound, message));
        };
        let mut alerts = Vec::new();
        let mut context = FoldContext {
            settings: &self.settings,
            now_us: self.time.now_us(),
            watches_gaps: self.watches_gaps,
            counters,
            alerts: &mut alerts,
        };
        let result = change(projection, &mut context);
        state.add_alerts(alerts, self.settings.alerts_limit);
        Ok(result)
    }
}

impl ProjectorState {
    fn add_alerts(&mut self, alerts: Vec<Alert>, limit: usize) {
        self.counters.alerts += alerts.len() as u64;
        self.alerts.extend(alerts);
        let excess = self.alerts.len().saturating_sub(limit);
        self.alerts.drain(..excess);
        self.counters.alerts_dropped += excess as u64;
    }
}
