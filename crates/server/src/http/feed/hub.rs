//! Fan-out of the feed: one thread tails the log and sends every change to all readers that are up to date.
//!
//! ```text
//!   tail of the log --> group --try_send--> reader's channel
//!                                  |full, or the group is large
//!                                  v
//!                       the reader is removed here and reads the log itself, from its own position
//! ```
//!
//! The thread never waits for a reader. While no reader is connected, it does not read the log.

use super::Wanted;
use super::change::{Change, Group, next_group};
use crate::memory::{Account, Exceeded, Kind, Reservation};
use mainstay::{Database, Filter, Revision};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;

/// The most groups that are queued for a reader before it has to read the log itself.
const CHANNEL_GROUPS: usize = 16;
/// A larger group is not sent through channels: its readers read it from the log.
const GROUP_LIMIT_BYTES: usize = 1 << 20;
/// The most bytes, without the last group, that are queued for a reader before it has to read the log itself.
const CHANNEL_BYTES: usize = 1 << 20;
/// The longest time that the thread waits for a change before it checks whether readers remain.
const LOOK: Duration = Duration::from_millis(200);

/// The wanted changes of one transaction, as a live reader receives them.
pub(crate) struct Delivery {
    pub revision: Revision,
    pub changes: Vec<Arc<Change>>,
    pub held: Held,
}

/// The memory of a delivery on its reader's account, until it is dropped.
#[derive(Default)]
pub(crate) struct Held {
    _reserved: Option<Reservation>,
    /// The reader's count of queued bytes, and the part of this delivery in it.
    queued: Option<(Arc<AtomicUsize>, usize)>,
}

impl Held {
    /// Reserves memory for a delivery. Fails if the reader's account is full.
    pub fn reserve(account: &Arc<Account>, bytes: usize) -> Result<Held, Exceeded> {
        let reserved = account.reserve(Kind::Feeds, bytes)?;
        Ok(Held { _reserved: Some(reserved), queued: None })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((queued, bytes)) = &self.queued {
            queued.fetch_sub(*bytes, Ordering::Relaxed);
        }
    }
}

struct Live {
    wanted: Wanted,
    account: Arc<Account>,
    sender: mpsc::Sender<Delivery>,
    /// The bytes that are queued for the reader.
    queued: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    /// All readers have received every change up to this revision.
    position: Revision,
    /// True while the thread tails the log from `position` on.
    following: bool,
    readers: Vec<Live>,
    stopped: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signals the first reader, or the shutdown.
    changed: Condvar,
}

/// Owns the thread, which stops when this is dropped.
pub(crate) struct Hub {
    shared: Arc<Shared>,
    db: Database,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    pub fn start(db: Database) -> std::io::Result<Hub> {
        let shared = Arc::new(Shared::default());
        let follow = {
            let shared = shared.clone();
            let db = db.clone();
            move || while shared.follow(&db) {}
        };
        let thread = std::thread::Builder::new().name("mainstay-http-feed".into()).spawn(follow)?;
        Ok(Hub { shared, db, thread: Some(thread) })
    }

    /// Joins at a position. Returns `None` if the hub is ahead of it: the reader reads on in the log and
    /// tries again.
    pub fn join(
        &self,
        wanted: Wanted,
        position: Revision,
        account: &Arc<Account>,
    ) -> Option<mpsc::Receiver<Delivery>> {
        let mut state = self.shared.state.lock();
        if !state.following {
            state.following = true;
            // A reader may join at a revision that is not durable yet. The hub starts at the durable end of
            // the log, so that other readers can join there.
            state.position = position.min(self.db.durable_revision()).min(self.db.revision());
            self.shared.changed.notify_all();
        }
        if state.position > position {
            return None;
        }
        let (sender, receiver) = mpsc::channel(CHANNEL_GROUPS);
        let account = account.clone();
        let queued = Arc::default();
        state.readers.push(Live { wanted, account, sender, queued });
        Some(receiver)
    }

    /// The position of a reader with an empty channel. It includes changes that the reader did not want.
    pub fn position_of(&self, receiver: &mpsc::Receiver<Delivery>) -> Option<Revision> {
        let state = self.shared.state.lock();
        (receiver.is_empty() && !receiver.is_closed()).then_some(state.position)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.state.lock().stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The panic was already reported on its own thread.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Waits for readers, then tails the log while some remain. Returns false on shutdown.
    fn follow(&self, db: &Database) -> bool {
        let Some(position) = self.wait_for_readers() else { return false };
        match db.watch(Filter::default(), position) {
            Ok(mut tail) => while self.deliver(&mut tail) {},
            Err(_) => self.let_go(),
        }
        true
    }

    fn wait_for_readers(&self) -> Option<Revision> {
        let mut state = self.state.lock();
        while !state.following && !state.stopped {
            self.changed.wait(&mut state);
        }
        (!state.stopped).then_some(state.position)
    }

    /// Sends the next transaction to all readers. Returns false if no reader remains.
    fn deliver(&self, tail: &mut mainstay::Feed) -> bool {
        match next_group(tail, &Wanted::default(), LOOK) {
            Ok(Some(group)) => self.send(&group),
            Ok(None) => self.state.lock().advance(tail.position()),
            // Each reader reads the log itself, meets the error there, and reports it to its client.
            Err(_) => {
                self.let_go();
                return false;
            }
        }
        self.go_on()
    }

    fn send(&self, group: &Group) {
        let mut state = self.state.lock();
        state.readers.retain(|reader| reader.take(group));
        state.advance(group.revision);
    }

    /// Returns whether readers remain. `following` is cleared under the same lock, so that a new reader
    /// cannot join a stopped tail.
    fn go_on(&self) -> bool {
        let mut state = self.state.lock();
        state.readers.retain(|reader| !reader.sender.is_closed());
        state.following = !state.readers.is_empty() && !state.stopped;
        state.following
    }

    fn let_go(&self) {
        let mut state = self.state.lock();
        state.readers.clear();
        state.following = false;
    }
}

impl State {
    fn advance(&mut self, position: Revision) {
        self.position = self.position.max(position);
    }
}

impl Live {
    /// Sends a reader its part of a group. Returns false if the reader has to read the log itself.
    fn take(&self, group: &Group) -> bool {
        let is_wanted = |change: &&Arc<Change>| {
            self.wanted.includes(change.contract, &change.branch, &change.key)
        };
        let changes: Vec<_> = group.changes.iter().filter(is_wanted).cloned().collect();
        if changes.is_empty() {
            return true;
        }
        let bytes = changes.iter().map(|change| change.text.get().len()).sum();
        let Some(held) = self.hold(bytes) else { return false };
        let delivery = Delivery { revision: group.revision, changes, held };
        self.sender.try_send(delivery).is_ok()
    }

    /// Reserves memory for `bytes`; `None` if too much is queued for the reader.
    fn hold(&self, bytes: usize) -> Option<Held> {
        let waits = self.queued.load(Ordering::Relaxed);
        if bytes > GROUP_LIMIT_BYTES || waits >= CHANNEL_BYTES {
            return None;
        }
        let mut held = Held::reserve(&self.account, bytes).ok()?;
        self.queued.fetch_add(bytes, Ordering::Relaxed);
        held.queued = Some((self.queued.clone(), bytes));
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryBudget, Settings};

    #[test]
    fn whoever_is_behind_the_hub_cannot_join_it() {
        let db = Database::memory().unwrap();
        let hub = Hub::start(db.clone()).unwrap();
        let account = MemoryBudget::new(Settings::default()).connect(None);
        let mut first = hub.join(Wanted::default(), 0, &account).unwrap();
        for revision in 1..=3 {
            db.cells().set("a", 1).unwrap();
            assert_eq!(first.blocking_recv().unwrap().revision, revision);
        }
        assert!(hub.join(Wanted::default(), 2, &account).is_none(), "it would miss revision 3");
        let mut second = hub.join(Wanted::default(), 3, &account).unwrap();
        assert_eq!(hub.position_of(&second), Some(3));
        db.cells().set("a", 1).unwrap();
        assert_eq!(second.blocking_recv().unwrap().revision, 4);
    }

    /// A client may read from after its own write, which may not be durable yet.
    #[test]
    fn the_first_reader_does_not_keep_others_from_joining() {
        let options = mainstay::Options::new().durability(mainstay::Durability::Memory);
        let dir = tempfile::tempdir().unwrap();
        let db =
            options.sync_interval(std::time::Duration::from_secs(3_600)).open(dir.path()).unwrap();
        let hub = Hub::start(db.clone()).unwrap();
        let account = MemoryBudget::new(Settings::default()).connect(None);
        db.cells().set("a", 1).unwrap();
        assert!(db.durable_revision() < db.revision());
        let ahead = hub.join(Wanted::default(), db.revision(), &account);
        let behind = hub.join(Wanted::default(), db.durable_revision(), &account);
        assert!(ahead.is_some() && behind.is_some());
    }

    #[test]
    fn a_reader_that_is_full_is_let_go_and_nobody_waits_for_it() {
        let db = Database::memory().unwrap();
        let hub = Hub::start(db.clone()).unwrap();
        let account = MemoryBudget::new(Settings::default()).connect(None);
        let mut full = hub.join(Wanted::default(), 0, &account).unwrap();
        let mut quick = hub.join(Wanted::default(), 0, &account).unwrap();
        for revision in 1..=40 {
            db.cells().set("a", 1).unwrap();
            assert_eq!(quick.blocking_recv().unwrap().revision, revision);
        }
        assert_eq!(hub.position_of(&full), None, "it has to go on by itself");
        let mut seen = Vec::new();
        while let Some(delivery) = full.blocking_recv() {
            seen.push(delivery.revision);
        }
        assert_eq!(seen, (1..=CHANNEL_GROUPS as u64).collect::<Vec<_>>(), "without a gap");
    }
}
