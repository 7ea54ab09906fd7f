//! The gappy store as a world: it skips sequence numbers, and shows some events only after `settle`.

use mainstay_conformance::RunWorld;
use mainstay_conformance::world::START_US;
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

impl RunWorld for Gappy {
    fn store(&self) -> Arc<dyn RunStore> {
        self.store.clone()
    }

    fn pass_ms(&self, ms: u64) {
        self.time.pass_ms(ms);
    }

    fn settle(&self) {
        self.store.make_all_visible();
    }

    fn has_clock_in_hand(&self) -> bool {
        true
    }
}
