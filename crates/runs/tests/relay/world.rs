//! Test fixture: an outbox in memory with a manual clock.

use mainstay::{Database, Durability, ManualClock, Options};
use mainstay_runs::relay::{Relay, RelaySettings, Transport};
use std::sync::Arc;
use std::time::Duration;

pub struct World {
    pub clock: Arc<ManualClock>,
    pub db: Database,
}

impl World {
    pub fn new() -> World {
        World::with(Options::new())
    }

    pub fn serving_branches() -> World {
        World::with(Options::new().serve_branches(true))
    }

    fn with(options: Options) -> World {
        let clock = ManualClock::new(1_700_000_000_000_000);
        let options = options.durability(Durability::Memory).clock(clock.clone());
        World { clock, db: options.sweep_interval(None).memory().unwrap() }
    }

    pub fn pass_ms(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    pub fn put(&self, subject: &str, run: Option<&str>) -> u64 {
        self.db.outbox().put(subject, subject, run).unwrap()
    }

    pub fn pending(&self) -> u64 {
        self.db.outbox().state().unwrap().pending
    }

    pub fn relay(&self, transport: Arc<dyn Transport>, settings: RelaySettings) -> Relay {
        Relay::new(&self.db, transport, settings).unwrap()
    }
}

/// Runs a future on its own runtime.
pub fn now<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}
