//! Pinned snapshots: reads of the past that retention does not trim.

use crate::lifecycle::engine::Engine;
use crate::mvcc::pins::PinGuard;
use crate::read::snapshot::Snapshot;
use mainstay_model::{At, Result};
use std::sync::Arc;

/// A snapshot whose history is kept until it is dropped.
pub struct PinnedSnapshot {
    pub snapshot: Snapshot,
    _pin: PinGuard,
}

impl PinnedSnapshot {
    pub fn new(core: &Arc<Engine>, branch: &str, at: At) -> Result<Arc<PinnedSnapshot>> {
        let mut snapshot = Snapshot::new(core, branch, at)?;
        snapshot.fresh = false;
        // Pinned first, checked second: what is readable at the check stays readable.
        let pin = core.pins.hold("reader", core.clock.monotonic_us(), snapshot.revision);
        core.index().check_any_reach(snapshot.revision)?;
        Ok(Arc::new(PinnedSnapshot { snapshot, _pin: pin }))
    }
}
