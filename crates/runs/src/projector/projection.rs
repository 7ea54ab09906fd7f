//! Projection of one run: folds events and tracks gaps and alerts. Pure logic without store or clock.
//!
//! ```text
//!   page   5 6 . 8 9 . 11       watermark 4
//!          | |   '-- missing: the run is STALE, the watermark is 6
//!          v v        7 arrives in time: on to 9; not in time: 7 is given up, on to 9 anyway
//!        snapshot
//!   given up   2  7             rechecked periodically: an event found there was late, and the run is resynced
//! ```

use super::alert::Alert;
use super::gap::Gap;
use super::settings::Settings;
use super::stats::ProjectorCounters;
use mainstay_model::{CanonicalEvent, Judgement, RunSnapshot, Stamp, reduce};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The state of a projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ProjectionState {
    /// All visible events are in the snapshot.
    Current,
    /// An event is missing before later ones, or arrived after them.
    Stale,
}

/// The state of one followed run. It can be stored and resumed later, also by another program. Then no alert
/// is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Projection {
    /// The snapshot of the events up to the watermark.
    pub snapshot: RunSnapshot,
    /// The state: current, or waiting for an event.
    pub state: ProjectionState,
    /// Gaps after the watermark, which the projection waits for.
    #[serde(rename = "open")]
    pub open_gaps: Vec<Gap>,
    /// Gaps before the watermark, which were given up.
    #[serde(rename = "givenUp")]
    pub abandoned_gaps: Vec<Gap>,
    /// Illegal events that were reported.
    #[serde(rename = "told")]
    pub reported: BTreeSet<u64>,
    /// The storage time of the oldest event that is not in the snapshot.
    pub pending_since_us: Option<Stamp>,
    /// True if the current lag was reported.
    #[serde(rename = "lagTold")]
    pub lag_reported: bool,
    /// True if the run was resynced because of the current lag.
    pub lag_resynced: bool,
}

/// The context in which events are processed: clock, limits and outputs.
pub(crate) struct FoldContext<'s> {
    pub settings: &'s Settings,
    pub now_us: Stamp,
    /// True if the store may show an event after later ones.
    pub watches_gaps: bool,
    pub counters: &'s mut ProjectorCounters,
    pub alerts: &'s mut Vec<Alert>,
}

/// The result of folding a run again up to the watermark.
pub(crate) struct ResyncResult {
    /// Events up to here come from the stored snapshot.
    pub base_seq: u64,
    pub snapshot: RunSnapshot,
    /// Gaps after the base: the numbers of the visible events before and after each.
    pub missing: Vec<(u64, u64)>,
    /// Illegal events with the reasons.
    pub illegal: Vec<(CanonicalEvent, String)>,
}

impl ResyncResult {
    /// Starts from a stored snapshot.
    pub fn from(base_seq: u64, snapshot: RunSnapshot) -> ResyncResult {
        ResyncResult { base_seq, snapshot, missing: Vec::new(), illegal: Vec::new() }
    }

    /// Folds the next event; `previous` is the number of the previous one.
    pub fn fold(&mut self, previous: u64, event: &CanonicalEvent) {
        if event.run_seq > previous + 1 {
            self.missing.push((previous, event.run_seq));
        }
        if let Judgement::Illegal(why) = reduce(&mut self.snapshot, event) {
            self.illegal.push((event.clone(), why));
        }
    }
}

impl Projection {
    /// A run without any seen event.
    pub fn new(run: &str) -> Projection {
        Projection {
            snapshot: RunSnapshot::new(run),
            state: ProjectionState::Current,
            open_gaps: Vec::new(),
            abandoned_gaps: Vec::new(),
            reported: BTreeSet::new(),
            pending_since_us: None,
            lag_reported: false,
            lag_resynced: false,
        }
    }

    /// The sequence number of the last event in the snapshot.
    pub fn watermark(&self) -> u64 {
        self.snapshot.last_event_seq
    }

    /// The age of the oldest stored event that is not in the snapshot, in milliseconds.
    pub fn lag_ms(&self, now_us: Stamp) -> u64 {
        self.pending_since_us.map_or(0, |since_us| now_us.saturating_sub(since_us) / 1_000)
    }

    /// Processes the events fetched after the watermark. Returns whether all of them are in the snapshot.
    pub(crate) fn process_page(
        &mut self,
        page: &[CanonicalEvent],
        context: &mut FoldContext<'_>,
    ) -> bool {
        let mut previous = self.watermark();
        let mut open = Vec::new();
        let mut first_pending = None;
        let watermark = previous;
        for event in page.iter().filter(|event| event.run_seq > watermark) {
            let gap = Gap::between(previous, event.run_seq, &self.open_gaps, context.now_us);
            if let Some(gap) = gap.filter(|_| context.watches_gaps) {
                if first_pending.is_none() && context.is_wait_over(&gap) {
                    self.abandon_gap(gap, context)
                } else {
                    open.push(gap)
                }
            }
            previous = event.run_seq;
            if open.is_empty() {
                self.fold(event, context);
            } else if first_pending.is_none() {
                first_pending = Some(event);
            }
        }
        open.truncate(context.settings.gaps_limit);
        self.open_gaps = open;
        self.pending_since_us = first_pending.map(CanonicalEvent::stored_us);
        self.update_staleness(context);
        first_pending.is_none()
    }

    fn fold(&mut self, event: &CanonicalEvent, context: &mut FoldContext<'_>) {
        context.counters.events += 1;
        if let Judgement::Illegal(why) = reduce(&mut self.snapshot, event) {
            self.report_illegal(event, why, context);
        }
    }

    /// Reports an illegal event once, however often it is folded.
    fn report_illegal(
        &mut self,
        event: &CanonicalEvent,
        why: String,
        context: &mut FoldContext<'_>,
    ) {
        if self.reported.contains(&event.run_seq) {
            return;
        }
        if self.reported.len() >= context.settings.told_limit {
            context.counters.alerts_suppressed += 1;
            return;
        }
        self.reported.insert(event.run_seq);
        context.alerts.push(Alert::inconsistent(event, why, context.now_us));
    }

    fn abandon_gap(&mut self, gap: Gap, context: &mut FoldContext<'_>) {
        context.counters.gaps_passed += 1;
        self.abandoned_gaps.push(Gap { checked_us: context.now_us, ..gap });
        self.trim_gaps(context);
    }

    fn trim_gaps(&mut self, context: &mut FoldContext<'_>) {
        let excess = self.abandoned_gaps.len().saturating_sub(context.settings.gaps_limit);
        self.abandoned_gaps.drain(..excess);
        context.counters.gaps_forgotten += excess as u64;
    }

    /// Reports a new gap. Without a gap, the run is current.
    fn update_staleness(&mut self, context: &mut FoldContext<'_>) {
        match self.open_gaps.first() {
            Some(gap) => {
                let first = gap.first;
                let last = gap.last;
                self.mark_stale(first, &format!("numbers {first} to {last} are missing"), context);
            }
            None => self.state = ProjectionState::Current,
        }
    }

    /// Marks the run as stale, and reports it if it was not marked before.
    pub(crate) fn mark_stale(&mut self, seq: u64, what: &str, context: &mut FoldContext<'_>) {
        if self.state == ProjectionState::Current {
            let message = format!("run `{}` is stale: {what}", self.snapshot.run_id);
            let run = &self.snapshot.run_id;
            context.alerts.push(Alert::stale(run, seq, message, context.now_us));
        }
        self.state = ProjectionState::Stale;
    }

    /// Checks the age of the first event after the watermark. Returns whether it requires a resync.
    pub(crate) fn check_lag(
        &mut self,
        page: &[CanonicalEvent],
        context: &mut FoldContext<'_>,
    ) -> bool {
        let first = page.iter().find(|event| event.run_seq > self.watermark());
        self.pending_since_us = first.map(CanonicalEvent::stored_us);
        let lag_ms = self.lag_ms(context.now_us);
        let is_high = lag_ms > context.settings.lag_alert_ms;
        let is_too_high = lag_ms > context.settings.lag_resync_ms;
        if let Some(event) = first.filter(|_| is_high && !self.lag_reported) {
            context.alerts.push(Alert::lag(event, lag_ms, context.now_us));
        }
        let is_due = is_too_high && !self.lag_resynced;
        self.lag_reported = is_high;
        self.lag_resynced = is_too_high;
        is_due
    }

    /// Replaces the state by the result of a resync.
    pub(crate) fn replace(&mut self, result: ResyncResult, context: &mut FoldContext<'_>) {
        self.snapshot = result.snapshot;
        for (event, why) in result.illegal {
            self.report_illegal(&event, why, context);
        }
        let old = std::mem::take(&mut self.abandoned_gaps);
        let now_us = context.now_us;
        let missing = result.missing.into_iter();
        let new_gaps =
            missing.filter_map(|(previous, next)| Gap::between(previous, next, &old, now_us));
        let new_gaps: Vec<Gap> = new_gaps.filter(|_| context.watches_gaps).collect();
        let older = old.into_iter().filter(|gap| gap.last <= result.base_seq);
        self.abandoned_gaps = older.chain(new_gaps).collect();
        self.trim_gaps(context);
        self.update_staleness(context);
    }

    /// Returns the gaps that are due for a recheck, and marks them as checked.
    pub(crate) fn take_due_gaps(&mut self, context: &FoldContext<'_>) -> Vec<Gap> {
        let Settings { recheck_least_ms, recheck_most_ms, .. } = *context.settings;
        let is_due = |gap: &&mut Gap| gap.is_due(context.now_us, recheck_least_ms, recheck_most_ms);
        let mark_checked = |gap: &mut Gap| {
            gap.checked_us = context.now_us;
            gap.clone()
        };
        self.abandoned_gaps.iter_mut().filter(is_due).map(mark_checked).collect()
    }

    /// The last event before the first gap that was given up. A partial resync starts there.
    pub(crate) fn gap_free_seq(&self) -> u64 {
        self.abandoned_gaps.first().map_or(self.watermark(), |gap| gap.first - 1)
    }
}

impl FoldContext<'_> {
    fn is_wait_over(&self, gap: &Gap) -> bool {
        let waited_us = self.now_us.saturating_sub(gap.seen_us);
        waited_us >= self.settings.patience_ms.saturating_mul(1_000)
    }
}
