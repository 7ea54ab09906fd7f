//! Projector: maintains snapshots of runs in stores with gaps and late events.
//!
//! ```text
//!             .---------------- poll: for each run ----------------.
//!   store --> | recheck given-up gaps       late? -> resync        |
//!             | fetch after the watermark -> Projection::absorb    | --> snapshot, alerts, figures
//!             |    gap -> STALE    lag > 10 s -> resync            |
//!             '----------------------------------------------------'
//! ```
//!
//! For a monotone store, gaps are not tracked.

use crate::alert::Alert;
use crate::figures::{Counted, Figures, RunFigures};
use crate::gap::Gap;
use crate::projection::{Anew, Projection, ProjectionState, Scene};
use crate::settings::Settings;
use crate::time::Time;
use mainstay_model::{CanonicalEvent, Code, Error, Name, PageSize, Result, RunSnapshot, RunStore};
use parking_lot::Mutex;
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
    time: Arc<dyn Time>,
    settings: Settings,
    watches_gaps: bool,
    kept: Mutex<Kept>,
    /// Held during a poll.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Kept {
    runs: BTreeMap<String, Projection>,
    alerts: VecDeque<Alert>,
    counted: Counted,
}

impl Projector {
    /// Creates a projector that follows no run yet.
    pub fn new(
        store: Arc<dyn RunStore>,
        time: Arc<dyn Time>,
        settings: Settings,
    ) -> Result<Projector> {
        settings.check()?;
        let watches_gaps = !store.capabilities().monotone;
        let kept = Mutex::default();
        let turn = tokio::sync::Mutex::default();
        Ok(Projector { store, time, settings, watches_gaps, kept, turn })
    }

    /// Follows a run from its first event. A followed run is left unchanged.
    pub fn follow(&self, run: &str) -> Result<()> {
        Name::new(run)?;
        if self.kept.lock().runs.contains_key(run) {
            return Ok(());
        }
        self.follow_from(Projection::new(run))
    }

    /// Follows a run from a stored projection.
    pub fn follow_from(&self, known: Projection) -> Result<()> {
        let mut kept = self.kept.lock();
        let run = known.snapshot.run_id.clone();
        let limit = self.settings.runs_limit;
        if kept.runs.len() >= limit && !kept.runs.contains_key(&run) {
            let message = format!(
                "run `{run}` is one too many: {limit} are followed; forget one, or raise runs_limit"
            );
            return Err(Error::new(Code::QueueFull, message));
        }
        kept.runs.insert(run, known);
        Ok(())
    }

    /// Stops following a run. Returns its projection.
    pub fn forget(&self, run: &str) -> Option<Projection> {
        self.kept.lock().runs.remove(run)
    }

    /// The projection of a run.
    pub fn projection(&self, run: &str) -> Option<Projection> {
        self.kept.lock().runs.get(run).cloned()
    }

    /// The snapshot of a run.
    pub fn snapshot(&self, run: &str) -> Option<RunSnapshot> {
        self.kept.lock().runs.get(run).map(|run| run.snapshot.clone())
    }

    /// Returns whether a run waits for an event.
    pub fn is_stale(&self, run: &str) -> bool {
        let kept = self.kept.lock();
        kept.runs.get(run).is_some_and(|run| run.state == ProjectionState::Stale)
    }

    /// The gaps of a run that were given up. They may never be filled.
    pub fn gaps(&self, run: &str) -> Vec<Gap> {
        self.kept.lock().runs.get(run).map_or_else(Vec::new, |run| run.given_up.clone())
    }

    /// Takes the alerts since the last call.
    pub fn take_alerts(&self) -> Vec<Alert> {
        self.kept.lock().alerts.drain(..).collect()
    }

    /// The metrics of all runs.
    pub fn figures(&self) -> Figures {
        let kept = self.kept.lock();
        let now_us = self.time.now_us();
        let lag_target_ms = self.settings.lag_target_ms;
        let counted = kept.counted.clone();
        let mut figures = Figures { lag_target_ms, counted, ..Figures::default() };
        kept.runs.values().for_each(|run| figures.add(&RunFigures::of(run, now_us)));
        figures
    }

    /// The metrics of one run.
    pub fn run_figures(&self, run: &str) -> Option<RunFigures> {
        let now_us = self.time.now_us();
        self.kept.lock().runs.get(run).map(|run| RunFigures::of(run, now_us))
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
        let runs: Vec<String> = self.kept.lock().runs.keys().cloned().collect();
        let mut failed = Vec::new();
        for run in runs {
            if let Err(error) = self.poll(&run).await {
                failed.push((run, error));
            }
        }
        failed
    }

    /// Polls a run once.
    pub async fn poll(&self, run: &str) -> Result<()> {
        let _turn = self.turn.lock().await;
        let looked = self.look(run).await;
        self.kept.lock().counted.failures += u64::from(looked.is_err());
        looked
    }

    /// Folds a run again, then processes all visible events.
    pub async fn resync(&self, run: &str, how: Resync) -> Result<()> {
        let _turn = self.turn.lock().await;
        self.resync_from(run, how, None).await?;
        self.catch_up(run, usize::MAX).await
    }

    async fn look(&self, run: &str) -> Result<()> {
        if let Some(sound_seq) = self.late(run).await? {
            self.resync_from(run, self.settings.resync, Some(sound_seq)).await?;
        }
        self.catch_up(run, self.settings.pages_per_poll).await
    }

    /// Rechecks gaps that were given up. If one has an event now, returns the number before that gap.
    async fn late(&self, run: &str) -> Result<Option<u64>> {
        let due = self.with(run, |run, scene| run.due(scene))?;
        for gap in due {
            let limit = usize::try_from(gap.width()).unwrap_or(usize::MAX).min(self.settings.page);
            let found = self.fetch(run, gap.first - 1, &mut PageSize::upto(limit)).await?;
            let Some(seq) = found.first().map(|event| event.run_seq).filter(|seq| *seq <= gap.last)
            else {
                continue;
            };
            self.with(run, |run, scene| {
                scene.counted.late += 1;
                run.stale(seq, &format!("event {seq} came behind later ones"), scene);
            })?;
            return Ok(Some(gap.first - 1));
        }
        Ok(None)
    }

    /// Processes events after the watermark, at most this many pages.
    async fn catch_up(&self, run: &str, pages: usize) -> Result<()> {
        let mut left = pages;
        let mut size = PageSize::upto(self.settings.page);
        loop {
            // The page budget is used up: fetch one event to measure the lag.
            let mut one = PageSize::upto(1);
            let size = if left == 0 { &mut one } else { &mut size };
            let page = self.fetch(run, self.watermark(run)?, size).await?;
            if self.with(run, |run, scene| run.watch_lag(&page, scene))? {
                self.resync_from(run, self.settings.resync, None).await?;
                left = usize::MAX;
                continue;
            }
            if left == 0 {
                return Ok(());
            }
            let took_all = self.with(run, |run, scene| run.absorb(&page, scene))?;
            if page.is_empty() || !took_all {
                return Ok(());
            }
            left -= 1;
        }
    }

    /// Folds a run again up to its watermark: from the first event, or from a snapshot at `seq` or before the
    /// first gap.
    async fn resync_from(&self, run: &str, how: Resync, seq: Option<u64>) -> Result<()> {
        let (upto, sound) = self.with(run, |run, _| (run.watermark(), run.sound_seq()))?;
        let base_seq = match how {
            Resync::Full => 0,
            Resync::FromSnapshot => seq.unwrap_or(sound),
        };
        let anew = self.fold(run, base_seq, upto).await?;
        self.with(run, |run, scene| {
            match how {
                Resync::Full => scene.counted.resyncs_full += 1,
                Resync::FromSnapshot => scene.counted.resyncs_from_snapshot += 1,
            }
            run.replace(anew, scene);
        })
    }

    async fn fold(&self, run: &str, base_seq: u64, upto: u64) -> Result<Anew> {
        let base = match base_seq {
            0 => None,
            _ => self.store.snapshot_at(run, base_seq).await?,
        };
        let mut anew = Anew::from(base_seq, base.unwrap_or_else(|| RunSnapshot::new(run)));
        let mut before = base_seq;
        let mut size = PageSize::upto(self.settings.page);
        while before < upto {
            let page = self.fetch(run, before, &mut size).await?;
            for event in page.iter().take_while(|event| event.run_seq <= upto) {
                anew.fold(before, event);
                before = event.run_seq;
            }
            if page.last().is_none_or(|last| last.run_seq > upto) {
                break;
            }
        }
        Ok(anew)
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
        self.with(run, |run, _| run.watermark())
    }

    /// Changes the projection of a run and stores the resulting alerts.
    fn with<T>(
        &self,
        run: &str,
        change: impl FnOnce(&mut Projection, &mut Scene<'_>) -> T,
    ) -> Result<T> {
        let mut kept = self.kept.lock();
        let Kept { runs, counted, .. } = &mut *kept;
        let Some(known) = runs.get_mut(run) else {
            let message = format!("run `{run}` is not followed: call `follow` first");
            return Err(Error::new(Code::RunNotFound, message));
        };
        let mut alerts = Vec::new();
        let mut scene = Scene {
            settings: &self.settings,
            now_us: self.time.now_us(),
            watches_gaps: self.watches_gaps,
            counted,
            alerts: &mut alerts,
        };
        let changed = change(known, &mut scene);
        kept.keep(alerts, self.settings.alerts_limit);
        Ok(changed)
    }
}

impl Kept {
    fn keep(&mut self, alerts: Vec<Alert>, limit: usize) {
        self.counted.alerts += alerts.len() as u64;
        self.alerts.extend(alerts);
        let over = self.alerts.len().saturating_sub(limit);
        self.alerts.drain(..over);
        self.counted.alerts_dropped += over as u64;
    }
}
