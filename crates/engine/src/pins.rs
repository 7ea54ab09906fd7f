//! Pins of open readers: what they look at is kept while they look, up to a limit.

use crate::core::Core;
use mainstay_model::Revision;
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

impl Pin {
    /// All pins of a database, oldest first.
    pub(crate) fn all(core: &Core) -> Vec<Pin> {
        let newest = core.sequencer.published();
        let now = core.now();
        let mut pins: Vec<(Revision, String)> = core.state.catalog.read().pins(newest);
        let readers = core.pins.held();
        pins.extend(readers.into_iter().map(|held| (held.revision, held.holder.to_owned())));
        pins.sort();
        let pin = |(revision, holder): (Revision, String)| {
            let stamp = core.index().stamp_of(revision).ok().flatten().unwrap_or(now);
            let age_us = now.saturating_sub(stamp);
            Pin { revision, holder, age_us, revisions_behind: newest.saturating_sub(revision) }
        };
        pins.into_iter().map(pin).collect()
    }
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
