//! Test fixture of the models: a database on a fake disk, named writes, and invariants of their answers.
//!
//! Every write sets a cell of its own, so the cell's name identifies its transaction on the disk, in a feed
//! and for a reader. Each takes one revision, so the numbers of names and revisions
//! are equal.

use crate::disk::{Disk, NotedFiles};
use mainstay::{
    CellCommand, Code, Database, Durability, Filter, ManualClock, Name, Options, Receipt, Result,
    Revision, Transaction,
};
use shuttle::thread::{self, JoinHandle};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than any model: a thread that is not woken before is never woken.
pub const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// Prefix of all names. Two more bytes follow.
const MARK: &[u8] = b"cell-";

/// Returns all names in bytes of the log.
pub fn names_in(bytes: &[u8]) -> Vec<String> {
    let named = bytes.windows(MARK.len() + 2).filter(|window| window.starts_with(MARK));
    named.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[derive(Clone)]
pub struct World {
    pub db: Database,
    pub disk: Arc<Disk>,
    /// The revision that was acknowledged for each name.
    told: Arc<Mutex<BTreeMap<String, Revision>>>,
    /// All violations. They are collected, because a panic in a callback ends only that callback.
    complaints: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub fn new() -> World {
        World::with_buffers(1 << 20)
    }

    /// Returns a world whose write buffers are full after `bytes` bytes.
    pub fn with_buffers(bytes: u64) -> World {
        World::with(bytes, |options| options)
    }

    /// Returns a world with changed options.
    pub fn with(bytes: u64, change: impl FnOnce(Options) -> Options) -> World {
        let disk: Arc<Disk> = Arc::default();
        let options = Options::new().files(Arc::new(NotedFiles::new(&disk))).segment_bytes(4096);
        let options = options.clock(ManualClock::new(1_700_000_000_000_000)).sweep_interval(None);
        // No sync happens by itself, because the log thread's interval never ends.
        let options = options.sync_interval(FOR_EVER).cache_bytes(64 << 10);
        let db = change(options.write_buffer_bytes(bytes)).memory().unwrap();
        World { db, disk, told: Arc::default(), complaints: Arc::default() }
    }

    /// Runs a thread on this world.
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

    /// Checks an answer: an acknowledged write must be durable and visible. Returns whether the write was
    /// acknowledged.
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
        // Names that share a letter are written by one thread, in order.
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

    /// Closes a world with callbacks. When this returns, all callbacks have run, and none may have found a
    /// violation.
    pub fn close(&self) {
        self.db.close().unwrap();
        let complaints = self.complaints.lock().unwrap().clone();
        assert!(complaints.is_empty(), "{complaints:?}");
    }

    /// Returns the number of acknowledged writes.
    pub fn told(&self) -> usize {
        self.told.lock().unwrap().len()
    }

    /// Checks that every visible revision is durable.
    pub fn look(&self) {
        let seen = self.db.revision();
        assert!(seen <= self.disk.count(), "revision {seen} was seen before it was synced");
    }

    /// Final check: revisions have no gaps, each was assigned once, and the log has the acknowledged writes
    /// in that order.
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

/// Returns a transaction that sets the cell of this name.
pub fn set(name: &str) -> Transaction {
    Transaction::new().step(CellCommand::set(Name::new(name).unwrap(), 1))
}

/// Like `set`, with a value of this size.
pub fn set_large(name: &str, bytes: usize) -> Transaction {
    Transaction::new().step(CellCommand::set(Name::new(name).unwrap(), "x".repeat(bytes).as_str()))
}

/// Like `set`, but acknowledged before it is synced.
pub fn set_in_memory(name: &str) -> Transaction {
    set(name).durability(Durability::Memory)
}

/// Waits for the threads of a model.
pub fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
