//! Keep-alive task: renews the lease of an idle session.
//!
//! ```text
//!   last message ---- a third of the lease ----> keep-alive, with the lowest unanswered number
//! ```
//!
//! Every answered request also renews the lease, so a busy session needs no keep-alives. The keeper holds
//! the session only during a keep-alive. So the keeper ends with the last handle.

use crate::core::{Core, Standing};
use crate::failure::{Meaning, meaning};
use mainstay::Result;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Keep-alives per lease.
const PARTS: u64 = 3;

/// Sleep while no session is open.
const REST: Duration = Duration::from_secs(1);

/// Starts the keeper, which runs until the last handle is dropped.
pub(crate) fn start(core: &Arc<Core>) {
    if core.means.settings.keeps_alive {
        core.means.runtime.spawn(Box::pin(keep(Arc::downgrade(core))));
    }
}

async fn keep(core: Weak<Core>) {
    // A failed keep-alive is retried after a pause, and the pauses grow.
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
    /// The sleep until the next keep-alive is due, or `None` if the session is closed.
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

    /// The pause after this many failures in a row.
    fn pause_after(&self, failures: u32) -> Duration {
        let mut pauses = self.pauses();
        (0..failures.min(16)).map(|_| pauses.next()).last().unwrap_or_default()
    }

    /// Returns whether a third of the lease has passed since the last message.
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
        // A faulty server may return any lease.
        (lease_ms.saturating_mul(1000) / PARTS).max(1)
    }

    /// The time when the next keep-alive is due.
    fn due_us(&self) -> u64 {
        self.heard_us.saturating_add(self.part_us())
    }
}
