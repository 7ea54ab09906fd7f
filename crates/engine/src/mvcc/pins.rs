//! Pins of open readers: the history they read is retained while they read, up to a time limit.

use mainstay_model::Revision;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub struct Pins {
    open: Mutex<OpenPins>,
}

#[derive(Default)]
struct OpenPins {
    next: u64,
    held: BTreeMap<u64, PinnedRevision>,
}

#[derive(Clone, Debug)]
pub struct PinnedRevision {
    pub revision: Revision,
    pub holder: &'static str,
    /// The monotonic clock when the pin was taken, in microseconds.
    pub since_us: u64,
}

/// Holds a pin until it is dropped.
pub struct PinGuard {
    pins: Arc<Pins>,
    id: u64,
}

impl Pins {
    /// Pins a revision. The caller must check the floor afterwards, because it may have risen before the pin
    /// was taken.
    pub fn hold(
        self: &Arc<Pins>,
        holder: &'static str,
        since_us: u64,
        revision: Revision,
    ) -> PinGuard {
        let mut open = self.open.lock();
        let id = open.next;
        open.next += 1;
        open.held.insert(id, PinnedRevision { revision, holder, since_us });
        PinGuard { pins: self.clone(), id }
    }

    pub fn held(&self) -> Vec<PinnedRevision> {
        self.open.lock().held.values().cloned().collect()
    }

    /// The oldest pinned revision among pins taken at or after `not_before_us`. Older pins have expired.
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
