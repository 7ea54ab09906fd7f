//! The thread that a relay runs on.

use super::{Relay, RelayFigures};
use crate::worker;
use mainstay::Result;
use std::thread::JoinHandle;

/// A relay on a thread of its own. Dropping it stops it.
pub struct RelayThread {
    relay: Relay,
    thread: Option<JoinHandle<()>>,
}

impl RelayThread {
    pub(super) fn start(relay: &Relay) -> Result<RelayThread> {
        let (own, runtime) = (relay.clone(), worker::runtime()?);
        let thread = worker::spawn("mainstay-relay", move || runtime.block_on(own.run()))?;
        Ok(RelayThread { relay: relay.clone(), thread: Some(thread) })
    }

    /// What it has done so far.
    pub fn figures(&self) -> RelayFigures {
        self.relay.figures()
    }

    /// Stops it once what it is delivering is delivered and acknowledged; gives what it has done.
    pub fn stop(mut self) -> RelayFigures {
        self.end();
        self.figures()
    }

    fn end(&mut self) {
        self.relay.stop();
        // Panics of transports are caught; what else panicked is over as well.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for RelayThread {
    fn drop(&mut self) {
        self.end();
    }
}
