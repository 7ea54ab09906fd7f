//! Thread of a relay.

use super::{Relay, RelayStats};
use crate::threads;
use mainstay::Result;
use std::thread::JoinHandle;

/// A relay on its own thread. Dropping it stops the relay.
pub struct RelayThread {
    relay: Relay,
    thread: Option<JoinHandle<()>>,
}

impl RelayThread {
    pub(super) fn start(relay: &Relay) -> Result<RelayThread> {
        let own = relay.clone();
        let runtime = threads::runtime()?;
        let thread = threads::spawn("mainstay-relay", move || runtime.block_on(own.run()))?;
        Ok(RelayThread { relay: relay.clone(), thread: Some(thread) })
    }

    /// The totals so far.
    pub fn stats(&self) -> RelayStats {
        self.relay.stats()
    }

    /// Stops the relay after the current deliveries are finished and acknowledged. Returns the totals.
    pub fn stop(mut self) -> RelayStats {
        self.end();
        self.stats()
    }

    fn end(&mut self) {
        self.relay.stop();
        // Panics of transports are caught. Any other panic has ended the thread as well.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for RelayThread {
    fn drop(&mut self) {
        self.end();
    }
}
