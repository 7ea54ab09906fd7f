//! How far the feeds are that are open: a consumer that has fallen behind is seen before it loses its place.

use mainstay_model::Revision;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
struct Open {
    next: u64,
    places: BTreeMap<u64, Arc<AtomicU64>>,
}

/// The places of all open feeds.
#[derive(Default)]
pub(crate) struct FeedPlaces {
    open: Arc<Mutex<Open>>,
}

/// The place of one feed, until it is dropped.
pub(crate) struct FeedPlace {
    all: Arc<Mutex<Open>>,
    number: u64,
    after: Arc<AtomicU64>,
}

impl FeedPlaces {
    /// Takes on a feed that begins after a revision.
    pub fn open(&self, after: Revision) -> FeedPlace {
        let after = Arc::new(AtomicU64::new(after));
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        open.places.insert(number, after.clone());
        drop(open);
        FeedPlace { all: self.open.clone(), number, after }
    }

    /// How many feeds are open, and the revision that the slowest of them is at.
    pub fn look(&self) -> (usize, Option<Revision>) {
        let open = self.open.lock();
        let slowest = open.places.values().map(|after| after.load(Ordering::Relaxed)).min();
        (open.places.len(), slowest)
    }
}

impl FeedPlace {
    /// Notes how far the feed is now.
    pub fn moved(&self, after: Revision) {
        self.after.store(after, Ordering::Relaxed);
    }
}

impl Drop for FeedPlace {
    fn drop(&mut self) {
        self.all.lock().places.remove(&self.number);
    }
}
