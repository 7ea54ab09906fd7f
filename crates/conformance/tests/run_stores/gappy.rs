//! The gappy store as a fixture: it skips sequence numbers, and shows some events only after `settle`.

use mainstay_conformance::suite::Fixture;
use mainstay_conformance::test_db::START_US;
use mainstay_model::RunStore;
use mainstay_runs::{GapBehaviour, GappyStore, ManualClock};
use std::sync::Arc;

pub struct Gappy {
    time: Arc<ManualClock>,
    pub store: Arc<GappyStore>,
}

impl Gappy {
    pub fn with_habits() -> Gappy {
        Gappy::new(GapBehaviour { skip_every: 3, hide_every: 2 })
    }

    pub fn without_habits() -> Gappy {
        Gappy::new(GapBehaviour::default())
    }

    fn new(behaviour: GapBehaviour) -> Gappy {
        let time = ManualClock::at_us(START_US);
        let store = Arc::new(GappyStore::with_behaviour(time.clone(), behaviour));
        Gappy { time, store }
    }
}

impl Fixture<dyn RunStore> for Gappy {
    fn open(&self, _: &str) -> Arc<dyn RunStore> {
        self.store.clone()
    }

    fn pass_ms(&self, ms: u64) {
        self.time.pass_ms(ms);
    }

    fn settle(&self) {
        self.store.make_all_visible();
    }

    fn has_manual_clock(&self) -> bool {
        true
    }
}
