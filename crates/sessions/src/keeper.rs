//! Keeps a session alive while its client is idle.
//!
//! ```text
//!   last word ---- a third of the lease ----> keep-alive, with the lowest number without an answer
//! ```
//!
//! Every request that was answered is a word, so a busy session needs none of this. The keeper holds its session only for
//! the moment of a keep-alive: it ends with the last handle.

use crate::core::{Core, Standing};
use crate::failure::{Meaning, meaning};
use mainstay::Result;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Words per lease.
const PARTS: u64 = 3;

/// How long the keeper sleeps where there is nothing to keep.
const REST: Duration = Duration::from_secs(1);

/// Keeps a session alive until nobody has it any more.
pub(crate) fn start(core: &Arc<Core>) {
    if core.means.settings.keeps_alive {
        core.means.runtime.spawn(Box::pin(keep(Arc::downgrade(core))));
    }
}

async fn keep(core: Weak<Core>) {
    // What failed is tried again after a pause, and pauses grow while it fails.
    let mut failures = 0;
    loop {
        let Some(nap) = core.upgrade().and_then(|core| core.nap(failures)) else { return };
        nap.await;
        let Some(core) = core.upgrade() else { return };
        if core.is_due() {
            failures = match core.keep_once().await {
                Ok(()) => 0,
                Err(error) if meaning(&error) == Meaning::Expired => 0,
                Err(_) => failures + 1,
            };
        }
    }
}

impl Core {
    /// The sleep until the next word is due; nothing when the session is closed.
    fn nap(&self, failures: u32) -> Option<crate::runtime::Task> {
        let (standing, due_us) = {
            let state = self.state.lock();
            (state.standing, state.due_us())
        };
        let left = match standing {
            Standing::Closed => return None,
            Standing::Gone | Standing::Opening => REST,
            Standing::Live => Duration::from_micros(due_us.saturating_sub(self.now_us())),
        };
        let pause = self.pause_after(failures);
        Some(self.means.runtime.sleep(left.max(pause)))
    }

    /// How long to wait after so many failures in a row.
    fn pause_after(&self, failures: u32) -> Duration {
        let mut pauses = self.pauses();
        (0..failures.min(16)).map(|_| pauses.next()).last().unwrap_or_default()
    }

    /// Whether nothing was heard of the client for a third of the lease.
    fn is_due(&self) -> bool {
        let state = self.state.lock();
        state.standing == Standing::Live && state.due_us() <= self.now_us()
    }

    async fn keep_once(&self) -> Result<()> {
        let part_us = self.state.lock().part_us();
        self.keep_alive(self.deadline(Some(Duration::from_micros(part_us)))).await
    }
}

impl crate::core::State {
    /// A third of the lease.
    fn part_us(&self) -> u64 {
        let lease_ms = self.info.as_ref().map_or(mainstay::SESSION_LEASE_MS, |info| info.lease_ms);
        // A server may say anything.
        (lease_ms.saturating_mul(1000) / PARTS).max(1)
    }

    /// When the next word is due.
    fn due_us(&self) -> u64 {
        self.heard_us.saturating_add(self.part_us())
    }
}
