//! Views of the past that retention leaves alone.

use crate::lifecycle::core::Core;
use crate::mvcc::pins::PinGuard;
use crate::read::snapshot::Snapshot;
use mainstay_model::{At, Result};
use std::sync::Arc;

/// A snapshot that retention leaves alone for as long as it is there.
pub(crate) struct Pinned {
    pub snapshot: Snapshot,
    _pin: PinGuard,
}

impl Pinned {
    pub fn new(core: &Arc<Core>, branch: &str, at: At) -> Result<Arc<Pinned>> {
        let mut snapshot = Snapshot::new(core, branch, at)?;
        snapshot.fresh = false;
        // Pinned first, checked second: what is readable now stays so.
        let pin = core.pins.hold("reader", core.clock.monotonic_us(), snapshot.revision);
        core.index().check_any_reach(snapshot.revision)?;
        Ok(Arc::new(Pinned { snapshot, _pin: pin }))
    }
}
