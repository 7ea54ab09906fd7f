//! Positions of the open feeds, so that monitoring sees a slow consumer before the log is trimmed behind it.

use mainstay_model::Revision;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
struct OpenPositions {
    next: u64,
    positions: BTreeMap<u64, Arc<AtomicU64>>,
}

/// The positions of all open feeds.
#[derive(Default)]
pub struct FeedPositions {
    open: Arc<Mutex<OpenPositions>>,
}

/// The position of one feed, until it is dropped.
pub struct FeedPosition {
    all: Arc<Mutex<OpenPositions>>,
    number: u64,
    after: Arc<AtomicU64>,
}

impl FeedPositions {
    /// Registers a feed that begins after a revision.
    pub fn open(&self, after: Revision) -> FeedPosition {
        let after = Arc::new(AtomicU64::new(after));
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        open.positions.insert(number, after.clone());
        drop(open);
        FeedPosition { all: self.open.clone(), number, after }
    }

    /// Returns the number of open feeds and the revision of the slowest one.
    pub fn count_and_slowest(&self) -> (usize, Option<Revision>) {
        let open = self.open.lock();
        let slowest = open.positions.values().map(|after| after.load(Ordering::Relaxed)).min();
        (open.positions.len(), slowest)
    }
}

impl FeedPosition {
    /// Records the feed's new position.
    pub fn moved(&self, after: Revision) {
        self.after.store(after, Ordering::Relaxed);
    }
}

impl Drop for FeedPosition {
    fn drop(&mut self) {
        self.all.lock().positions.remove(&self.number);
    }
}
