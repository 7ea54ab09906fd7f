//! Keep-alive task: renews the lease of an idle session.
//!
//! ```text
//!   last message ---- a third of the lease ----> keep-alive, with the lowest unanswered number
//! ```
//!
//! Every answered request also renews the lease, so a busy session needs no keep-alives. The task holds
//! the session only during a keep-alive. So the task ends with the last handle.

use crate::failure::{ErrorClass, classify};
use crate::protocol::session_core::{SessionCore, SessionStatus};
use mainstay::Result;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Keep-alives per lease.
const KEEP_ALIVES_PER_LEASE: u64 = 3;

/// Sleep while no session is open.
const IDLE_SLEEP: Duration = Duration::from_secs(1);

/// Starts the task, which runs until the last handle is dropped.
pub(crate) fn start(core: &Arc<SessionCore>) {
    if core.deps.settings.keeps_alive {
        core.deps.runtime.spawn(Box::pin(keep_alive_loop(Arc::downgrade(core))));
    }
}

async fn keep_alive_loop(core: Weak<SessionCore>) {
    // A failed keep-alive is retried after a pause, and the pauses grow.
    let mut failures = 0;
    loop {
        let Some(sleep) = core.upgrade().and_then(|core| core.sleep_until_due(failures)) else {
            return;
        };
        sleep.await;
        let Some(core) = core.upgrade() else { return };
        if core.is_due() {
            failures = match core.keep_alive_once().await {
                Ok(()) => 0,
                Err(error) if classify(&error) == ErrorClass::SessionExpired => 0,
                Err(_) => failures + 1,
            };
        }
    }
}

impl SessionCore {
    /// The sleep until the next keep-alive is due, or `None` if the session is closed.
    fn sleep_until_due(&self, failures: u32) -> Option<crate::runtime::Task> {
        let (status, next_due_us) = {
            let state = self.state.lock();
            (state.status, state.next_due_us())
        };
        let remaining = match status {
            SessionStatus::Closed => return None,
            SessionStatus::Gone | SessionStatus::Opening => IDLE_SLEEP,
            SessionStatus::Live => Duration::from_micros(next_due_us.saturating_sub(self.now_us())),
        };
        let pause = self.pause_after(failures);
        Some(self.deps.runtime.sleep(remaining.max(pause)))
    }

    /// The pause after this many failures in a row.
    fn pause_after(&self, failures: u32) -> Duration {
        let mut backoff = self.backoff();
        (0..failures.min(16)).map(|_| backoff.next()).last().unwrap_or_default()
    }

    /// Returns whether a third of the lease has passed since the last message.
    fn is_due(&self) -> bool {
        let state = self.state.lock();
        state.status == SessionStatus::Live && state.next_due_us() <= self.now_us()
    }

    async fn keep_alive_once(&self) -> Result<()> {
        let interval_us = self.state.lock().interval_us();
        self.keep_alive(self.deadline(Some(Duration::from_micros(interval_us)))).await
    }
}

impl crate::protocol::session_core::SessionState {
    /// A third of the lease.
    fn interval_us(&self) -> u64 {
        let lease_ms = self.info.as_ref().map_or(mainstay::SESSION_LEASE_MS, |info| info.lease_ms);
        // A faulty server may return any lease.
        (lease_ms.saturating_mul(1000) / KEEP_ALIVES_PER_LEASE).max(1)
    }

    /// The time when the next keep-alive is due.
    fn next_due_us(&self) -> u64 {
        self.last_contact_us.saturating_add(self.interval_us())
    }
}
