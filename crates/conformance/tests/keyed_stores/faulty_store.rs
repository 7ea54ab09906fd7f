//! Fault injection for keyed state stores: a correct store with some operations replaced.

use mainstay_conformance::suite::Fixture;
use mainstay_model::{
    Item, Kept, KeySelection, KeyedCapabilities, KeyedState, Result, SnapshotSummary, SpaceInfo,
    SpaceOptions, StatePage, StateWrite, Version, WaitingEntry, Wrote,
};
use mainstay_streams::MemoryState;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

mainstay_conformance::faulty_store! {
    impl KeyedState for FaultySpace {
        fn capabilities() -> KeyedCapabilities;
        fn declare(options: SpaceOptions) -> Result<bool>;
        fn info() -> Result<Option<SpaceInfo>>;
        fn write(writes: Vec<StateWrite>) -> Result<Vec<Wrote>>;
        fn look(keys: &[&[u8]]) -> Result<Vec<Option<Kept>>>;
        fn scan(prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage>;
        fn items(key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>>;
        fn positions() -> Result<BTreeMap<String, u64>>;
        fn waiting(below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>>;
        fn seal(frontier: Version) -> Result<u64>;
        fn clear() -> Result<bool>;
        fn snapshot_to(out: &mut dyn Write) -> Result<SnapshotSummary>;
        fn restore_from(from: &mut dyn Read) -> Result<u64>;
        fn snapshot_keys_to(keys: &KeySelection, out: &mut dyn Write) -> Result<SnapshotSummary>;
        fn restore_keys_from(from: &mut dyn Read) -> Result<u64>;
    }
}

/// Spaces with faults.
pub struct FaultySpaces {
    faults: Box<dyn Fn() -> Faults + Send + Sync>,
    spaces: Mutex<HashMap<String, Arc<dyn KeyedState>>>,
    /// Whether the spaces can be reopened and, if so, whether their data survives.
    reopens: Option<bool>,
}

impl FaultySpaces {
    /// Creates a fixture in which each space gets its own instance of the faults.
    pub fn new(faults: impl Fn() -> Faults + Send + Sync + 'static) -> FaultySpaces {
        FaultySpaces { faults: Box::new(faults), spaces: Mutex::default(), reopens: None }
    }

    /// Makes the spaces reopenable without data loss.
    pub fn keeping_all(mut self) -> FaultySpaces {
        self.reopens = Some(true);
        self
    }

    /// Makes the spaces reopenable with loss of all data.
    pub fn losing_all(mut self) -> FaultySpaces {
        self.reopens = Some(false);
        self
    }
}

impl Fixture<dyn KeyedState> for FaultySpaces {
    fn open(&self, name: &str) -> Arc<dyn KeyedState> {
        // A failed case may have poisoned the lock.
        let mut spaces = self.spaces.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let space = spaces.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(FaultySpace { inner: Arc::new(MemoryState::new()), faults: (self.faults)() })
        });
        space.clone()
    }

    fn can_reopen(&self) -> bool {
        self.reopens.is_some()
    }

    fn reopen(&self) {
        if self.reopens == Some(false) {
            self.spaces.lock().unwrap().clear();
        }
    }
}
