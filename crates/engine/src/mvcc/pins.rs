//! Pins of open readers: what they look at is kept while they look, up to a limit.

use crate::lifecycle::core::Core;
use mainstay_model::{Revision, Stamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A revision that something holds, and what that costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The revision held.
    pub revision: Revision,
    /// What holds it: a branch, a tag, a merge, a reader, a transaction.
    pub holder: String,
    /// How long ago the revision was stamped, in microseconds.
    pub age_us: u64,
    /// How many revisions lie between it and the newest: what retention cannot trim.
    pub revisions_behind: u64,
}

/// All pins of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinSummary {
    /// The kind: `branch`, `tag`, `merge`, `import`, `reader`, `transaction`, `backup` and the like.
    pub kind: String,
    /// How many there are.
    pub count: u64,
    /// How long ago the revision of the oldest was stamped, in microseconds.
    pub oldest_age_us: u64,
    /// How many revisions lie between the oldest and the newest revision.
    pub revisions_behind: u64,
}

impl Pin {
    /// All pins of a database, oldest first.
    pub(crate) fn all(core: &Core) -> Vec<Pin> {
        let (newest, now) = (core.sequencer.published(), core.now());
        let mut pins = pinned(core, newest);
        pins.sort();
        let pin = |(revision, holder): (Revision, String)| {
            let age_us = age_us(core, revision, now);
            Pin { revision, holder, age_us, revisions_behind: newest.saturating_sub(revision) }
        };
        pins.into_iter().map(pin).collect()
    }
}

impl PinSummary {
    /// The pins of a database by kind. Stamps are looked up for the oldest of each kind only: there may
    /// be very many pins.
    pub(crate) fn all(core: &Core) -> Vec<PinSummary> {
        let (newest, now) = (core.sequencer.published(), core.now());
        let mut kinds: BTreeMap<String, (u64, Revision)> = BTreeMap::new();
        for (revision, holder) in pinned(core, newest) {
            let kind = holder.split(' ').next().unwrap_or_default().to_owned();
            let (count, oldest) = kinds.entry(kind).or_insert((0, revision));
            (*count, *oldest) = (*count + 1, revision.min(*oldest));
        }
        let summary = |(kind, (count, oldest))| PinSummary {
            kind,
            count,
            oldest_age_us: age_us(core, oldest, now),
            revisions_behind: newest.saturating_sub(oldest),
        };
        kinds.into_iter().map(summary).collect()
    }
}

/// What holds which revision.
fn pinned(core: &Core, newest: Revision) -> Vec<(Revision, String)> {
    let mut pins = core.state.catalog.read().pins(newest);
    let readers = core.pins.held();
    pins.extend(readers.into_iter().map(|held| (held.revision, held.holder.to_owned())));
    pins
}

/// How long ago a revision was stamped.
fn age_us(core: &Core, revision: Revision, now: Stamp) -> u64 {
    let stamp = core.index().stamp_of(revision).ok().flatten().unwrap_or(now);
    now.saturating_sub(stamp)
}

#[derive(Default)]
pub(crate) struct Pins {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    held: BTreeMap<u64, Held>,
}

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub revision: Revision,
    pub holder: &'static str,
    /// The monotonic clock when it was taken.
    pub since_us: u64,
}

/// Holds a revision until it is dropped.
pub(crate) struct PinGuard {
    pins: Arc<Pins>,
    id: u64,
}

impl Pins {
    /// Holds a revision; look at the floor afterwards.
    pub fn hold(
        self: &Arc<Pins>,
        holder: &'static str,
        since_us: u64,
        revision: Revision,
    ) -> PinGuard {
        let mut open = self.open.lock();
        let id = open.next;
        open.next += 1;
        open.held.insert(id, Held { revision, holder, since_us });
        PinGuard { pins: self.clone(), id }
    }

    pub fn held(&self) -> Vec<Held> {
        self.open.lock().held.values().cloned().collect()
    }

    /// The oldest revision held by a reader that is not older than its limit.
    pub fn oldest(&self, not_before_us: u64) -> Option<Revision> {
        let open = self.open.lock();
        let young = open.held.values().filter(|held| held.since_us >= not_before_us);
        young.map(|held| held.revision).min()
    }
}

impl Drop for PinGuard {
    fn drop(&mut self) {
        self.pins.open.lock().held.remove(&self.id);
    }
}
