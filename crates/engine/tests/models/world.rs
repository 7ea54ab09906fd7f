//! What models are written in: a database on a noted disk, writes with names, and what must be true of answers.
//!
//! Every write sets a cell of its own, so a name stands for its transaction: on the disk, in a feed, to a reader. Each
//! takes one revision, so there are as many names as revisions.

use crate::disk::{Disk, NotedFiles};
use mainstay::{
    CellCommand, Code, Database, Durability, Filter, ManualClock, Name, Options, Receipt, Result,
    Revision, Transaction,
};
use shuttle::thread::{self, JoinHandle};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than any model: who is not woken before is never woken.
pub const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// What names begin with; two more bytes follow.
const MARK: &[u8] = b"cell-";

/// All names in bytes of the log.
pub fn names_in(bytes: &[u8]) -> Vec<String> {
    let named = bytes.windows(MARK.len() + 2).filter(|window| window.starts_with(MARK));
    named.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// A database and what is known of it.
#[derive(Clone)]
pub struct World {
    pub db: Database,
    pub disk: Arc<Disk>,
    /// Which revision each name was told to have.
    told: Arc<Mutex<BTreeMap<String, Revision>>>,
    /// What was wrong, wherever it was found: a callback's panic ends with the callback.
    complaints: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub fn new() -> World {
        World::with_buffers(1 << 20)
    }

    /// One whose write buffers are full when this has come.
    pub fn with_buffers(bytes: u64) -> World {
        World::with(bytes, |options| options)
    }

    /// One with other options.
    pub fn with(bytes: u64, change: impl FnOnce(Options) -> Options) -> World {
        let disk: Arc<Disk> = Arc::default();
        let options = Options::new().files(Arc::new(NotedFiles::new(&disk))).segment_bytes(4096);
        let options = options.clock(ManualClock::new(1_700_000_000_000_000)).sweep_interval(None);
        // No sync comes by itself, and the log thread's pause has no end.
        let options = options.sync_interval(FOR_EVER).cache_bytes(64 << 10);
        let db = change(options.write_buffer_bytes(bytes)).memory().unwrap();
        World { db, disk, told: Arc::default(), complaints: Arc::default() }
    }

    /// Lets a thread do something with this world.
    pub fn spawn(&self, run: impl FnOnce(&World) + Send + 'static) -> JoinHandle<()> {
        let own = self.clone();
        thread::spawn(move || run(&own))
    }

    pub fn execute(&self, name: &str) {
        self.answered(name, self.db.execute(set(name)));
    }

    pub fn execute_all(&self, names: &[&str]) {
        let answers = self.db.execute_all(names.iter().map(|name| set(name)).collect());
        assert_eq!(answers.len(), names.len());
        for (name, answer) in names.iter().zip(answers) {
            self.answered(name, answer);
        }
    }

    /// Whoever is told that a write is done can rely on it. Others are told why not; says whether it was done.
    pub fn answered(&self, name: &str, answer: Result<Receipt>) -> bool {
        match answer {
            Ok(receipt) => {
                self.demand(self.disk.holds(name), || {
                    format!("{name} was acknowledged before it was synced")
                });
                let is_seen = self.db.revision() >= receipt.revision;
                self.demand(is_seen, || format!("{name} cannot be seen"));
                self.note(name, receipt.revision);
                true
            }
            Err(error) => {
                let expected =
                    [Code::Closed, Code::DiskFull, Code::SyncFailed, Code::UnknownOutcome];
                self.demand(expected.contains(&error.code()), || format!("{name}: {error}"));
                false
            }
        }
    }

    fn note(&self, name: &str, revision: Revision) {
        let mut told = self.told.lock().unwrap();
        let before = told.insert(name.to_owned(), revision);
        self.demand(before.is_none(), || format!("{name} was answered twice"));
        // Those of one letter come from one thread, in their order.
        let letter = &name[..name.len() - 1];
        let own = told.iter().filter(|(name, _)| name.starts_with(letter));
        let is_sorted = own.is_sorted_by_key(|(_, revision)| revision);
        self.demand(is_sorted, || format!("out of order: {told:?}"));
    }

    fn demand(&self, holds: bool, words: impl Fn() -> String) {
        if !holds {
            self.complaints.lock().unwrap().push(words());
            panic!("{}", words());
        }
    }

    /// At the end of a model with callbacks: all of them are called when this returns, and found nothing wrong.
    pub fn close(&self) {
        self.db.close().unwrap();
        let complaints = self.complaints.lock().unwrap().clone();
        assert!(complaints.is_empty(), "{complaints:?}");
    }

    /// How many writes were acknowledged.
    pub fn told(&self) -> usize {
        self.told.lock().unwrap().len()
    }

    /// What anybody can see is on the disk.
    pub fn look(&self) {
        let seen = self.db.revision();
        assert!(seen <= self.disk.count(), "revision {seen} was seen before it was synced");
    }

    /// At the end: revisions have no gaps, each was given once, and the log has what was told and in that order.
    pub fn settle(&self) {
        let mut feed = self.db.watch(Filter::default(), 0).unwrap();
        let mut logged = BTreeMap::new();
        while let Some(event) = feed.next(Duration::ZERO).unwrap() {
            assert_eq!(event.revision, logged.len() as Revision + 1, "revisions have a gap");
            assert!(self.disk.holds(&event.key), "{} was shown before it was synced", event.key);
            logged.insert(event.key, event.revision);
        }
        for (name, revision) in &*self.told.lock().unwrap() {
            assert_eq!(logged.get(name), Some(revision), "{name} is not where it was said to be");
        }
        assert_eq!(self.db.stats().in_flight, 0, "somebody is under way for ever");
    }
}

/// A transaction that sets the cell of this name.
pub fn set(name: &str) -> Transaction {
    Transaction::new().step(CellCommand::set(Name::new(name).unwrap(), 1))
}

/// The same with a value of so many bytes.
pub fn set_large(name: &str, bytes: usize) -> Transaction {
    Transaction::new().step(CellCommand::set(Name::new(name).unwrap(), "x".repeat(bytes).as_str()))
}

/// The same as the first, acknowledged before it is synced.
pub fn set_in_memory(name: &str) -> Transaction {
    set(name).durability(Durability::Memory)
}

/// Waits for threads of a model.
pub fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
