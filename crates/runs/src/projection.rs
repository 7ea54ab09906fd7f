//! Projection of one run: folds events and tracks gaps and alerts. Pure logic without store or clock.
//!
//! ```text
//!   page   5 6 . 8 9 . 11       watermark 4
//!          | |   '-- missing: the run is STALE, the watermark is 6
//!          v v        7 arrives in time: on to 9; not in time: 7 is given up, on to 9 anyway
//!        snapshot
//!   given up   2  7             rechecked periodically: an event found there was late, and the run is resynced
//! ```

use crate::alert::Alert;
use crate::figures::Counted;
use crate::gap::Gap;
use crate::settings::Settings;
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
    pub open: Vec<Gap>,
    /// Gaps before the watermark, which were given up.
    pub given_up: Vec<Gap>,
    /// Illegal events that were reported.
    pub told: BTreeSet<u64>,
    /// The storage time of the oldest event that is not in the snapshot.
    pub pending_since_us: Option<Stamp>,
    /// True if the current lag was reported.
    pub lag_told: bool,
    /// True if the run was resynced because of the current lag.
    pub lag_resynced: bool,
}

/// The context in which events are processed: clock, limits and outputs.
pub(crate) struct Scene<'s> {
    pub settings: &'s Settings,
    pub now_us: Stamp,
    /// True if the store may show an event after later ones.
    pub watches_gaps: bool,
    pub counted: &'s mut Counted,
    pub alerts: &'s mut Vec<Alert>,
}

/// The result of folding a run again up to the watermark.
pub(crate) struct Anew {
    /// Events up to here come from the stored snapshot.
    pub base_seq: u64,
    pub snapshot: RunSnapshot,
    /// Gaps after the base: the numbers of the visible events before and after each.
    pub missing: Vec<(u64, u64)>,
    /// Illegal events with the reasons.
    pub illegal: Vec<(CanonicalEvent, String)>,
}

impl Anew {
    /// Starts from a stored snapshot.
    pub fn from(base_seq: u64, snapshot: RunSnapshot) -> Anew {
        Anew { base_seq, snapshot, missing: Vec::new(), illegal: Vec::new() }
    }

    /// Folds the next event; `before` is the number of the previous one.
    pub fn fold(&mut self, before: u64, event: &CanonicalEvent) {
        if event.run_seq > before + 1 {
            self.missing.push((before, event.run_seq));
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
            open: Vec::new(),
            given_up: Vec::new(),
            told: BTreeSet::new(),
            pending_since_us: None,
            lag_told: false,
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
    pub(crate) fn absorb(&mut self, page: &[CanonicalEvent], scene: &mut Scene<'_>) -> bool {
        let mut before = self.watermark();
        let mut open = Vec::new();
        let mut first_left = None;
        let seen = before;
        for event in page.iter().filter(|event| event.run_seq > seen) {
            let gap = Gap::between(before, event.run_seq, &self.open, scene.now_us);
            if let Some(gap) = gap.filter(|_| scene.watches_gaps) {
                if first_left.is_none() && scene.is_in_vain(&gap) {
                    self.give_up(gap, scene)
                } else {
                    open.push(gap)
                }
            }
            before = event.run_seq;
            if open.is_empty() {
                self.fold(event, scene);
            } else if first_left.is_none() {
                first_left = Some(event);
            }
        }
        open.truncate(scene.settings.gaps_limit);
        self.open = open;
        self.pending_since_us = first_left.map(CanonicalEvent::stored_us);
        self.settle(scene);
        first_left.is_none()
    }

    fn fold(&mut self, event: &CanonicalEvent, scene: &mut Scene<'_>) {
        scene.counted.events += 1;
        if let Judgement::Illegal(why) = reduce(&mut self.snapshot, event) {
            self.tell(event, why, scene);
        }
    }

    /// Reports an illegal event once, however often it is folded.
    fn tell(&mut self, event: &CanonicalEvent, why: String, scene: &mut Scene<'_>) {
        if self.told.contains(&event.run_seq) {
            return;
        }
        if self.told.len() >= scene.settings.told_limit {
            scene.counted.alerts_untold += 1;
            return;
        }
        self.told.insert(event.run_seq);
        scene.alerts.push(Alert::inconsistent(event, why, scene.now_us));
    }

    fn give_up(&mut self, gap: Gap, scene: &mut Scene<'_>) {
        scene.counted.gaps_passed += 1;
        self.given_up.push(Gap { checked_us: scene.now_us, ..gap });
        self.forget(scene);
    }

    fn forget(&mut self, scene: &mut Scene<'_>) {
        let over = self.given_up.len().saturating_sub(scene.settings.gaps_limit);
        self.given_up.drain(..over);
        scene.counted.gaps_forgotten += over as u64;
    }

    /// Reports a new gap. Without a gap, the run is current.
    fn settle(&mut self, scene: &mut Scene<'_>) {
        match self.open.first() {
            Some(gap) => {
                let first = gap.first;
                let last = gap.last;
                self.stale(first, &format!("numbers {first} to {last} are missing"), scene);
            }
            None => self.state = ProjectionState::Current,
        }
    }

    /// Marks the run as stale, and reports it if it was not marked before.
    pub(crate) fn stale(&mut self, seq: u64, what: &str, scene: &mut Scene<'_>) {
        if self.state == ProjectionState::Current {
            let message = format!("run `{}` is stale: {what}", self.snapshot.run_id);
            let run = &self.snapshot.run_id;
            scene.alerts.push(Alert::stale(run, seq, message, scene.now_us));
        }
        self.state = ProjectionState::Stale;
    }

    /// Checks the age of the first event after the watermark. Returns whether it requires a resync.
    pub(crate) fn watch_lag(&mut self, page: &[CanonicalEvent], scene: &mut Scene<'_>) -> bool {
        let first = page.iter().find(|event| event.run_seq > self.watermark());
        self.pending_since_us = first.map(CanonicalEvent::stored_us);
        let lag_ms = self.lag_ms(scene.now_us);
        let is_high = lag_ms > scene.settings.lag_alert_ms;
        let is_too_high = lag_ms > scene.settings.lag_resync_ms;
        if let Some(event) = first.filter(|_| is_high && !self.lag_told) {
            scene.alerts.push(Alert::lag(event, lag_ms, scene.now_us));
        }
        let is_due = is_too_high && !self.lag_resynced;
        self.lag_told = is_high;
        self.lag_resynced = is_too_high;
        is_due
    }

    /// Replaces the state by the result of a resync.
    pub(crate) fn replace(&mut self, anew: Anew, scene: &mut Scene<'_>) {
        self.snapshot = anew.snapshot;
        for (event, why) in anew.illegal {
            self.tell(&event, why, scene);
        }
        let old = std::mem::take(&mut self.given_up);
        let now_us = scene.now_us;
        let missing = anew.missing.into_iter();
        let found = missing.filter_map(|(before, next)| Gap::between(before, next, &old, now_us));
        let found: Vec<Gap> = found.filter(|_| scene.watches_gaps).collect();
        let below = old.into_iter().filter(|gap| gap.last <= anew.base_seq);
        self.given_up = below.chain(found).collect();
        self.forget(scene);
        self.settle(scene);
    }

    /// Returns the gaps that are due for a recheck, and marks them as checked.
    pub(crate) fn due(&mut self, scene: &Scene<'_>) -> Vec<Gap> {
        let Settings { recheck_least_ms, recheck_most_ms, .. } = *scene.settings;
        let is_due = |gap: &&mut Gap| gap.is_due(scene.now_us, recheck_least_ms, recheck_most_ms);
        let look = |gap: &mut Gap| {
            gap.checked_us = scene.now_us;
            gap.clone()
        };
        self.given_up.iter_mut().filter(is_due).map(look).collect()
    }

    /// The last event before the first gap that was given up. A partial resync starts there.
    pub(crate) fn sound_seq(&self) -> u64 {
        self.given_up.first().map_or(self.watermark(), |gap| gap.first - 1)
    }
}

impl Scene<'_> {
    fn is_in_vain(&self, gap: &Gap) -> bool {
        let waited_us = self.now_us.saturating_sub(gap.seen_us);
        waited_us >= self.settings.patience_ms.saturating_mul(1_000)
    }
}
