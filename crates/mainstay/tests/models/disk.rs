//! Fake disk that tracks durable names and fails on demand.

use crate::world::names_in;
use mainstay::{File, Files, MemoryFiles};
use shuttle::thread;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// State shared by the files of one database. Its locks are real ones, and no scheduling point occurs while
/// one is held.
#[derive(Default)]
pub struct Disk {
    /// Names that were written but not synced.
    written: Mutex<BTreeSet<String>>,
    synced: Mutex<BTreeSet<String>>,
    /// Countdown to the frame write that finds no space, and to the first sync that fails. Zero: no failure.
    full_in: AtomicUsize,
    broken_in: AtomicUsize,
}

impl Disk {
    /// Lets the given write, counted from one, fail for lack of space. Later writes succeed.
    pub fn run_full_in(&self, writes: usize) {
        // SeqCst for both countdowns: the simplest order, and tests need no speed.
        self.full_in.store(writes, Ordering::SeqCst);
    }

    /// Lets all syncs fail from the given one on, counted from one.
    pub fn break_in(&self, syncs: usize) {
        self.broken_in.store(syncs, Ordering::SeqCst);
    }

    pub fn holds(&self, name: &str) -> bool {
        self.synced.lock().unwrap().contains(name)
    }

    /// Returns the number of durable names.
    pub fn count(&self) -> u64 {
        self.synced.lock().unwrap().len() as u64
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let names = names_in(bytes);
        if names.is_empty() {
            return Ok(());
        }
        if comes_to_one(&self.full_in) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.lock().unwrap().extend(names);
        Ok(())
    }

    /// While a sync is under way, all other threads may run.
    fn sync(&self) -> io::Result<()> {
        let written = self.written.lock().unwrap().clone();
        switch();
        if comes_to_one(&self.broken_in) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.synced.lock().unwrap().extend(written);
        switch();
        Ok(())
    }
}

/// Scheduling point: another thread may run.
fn switch() {
    thread::sleep(Duration::ZERO);
}

/// Counts down. Returns whether the count went from one to zero.
fn comes_to_one(left: &AtomicUsize) -> bool {
    let before = left.load(Ordering::SeqCst);
    left.store(before.saturating_sub(1), Ordering::SeqCst);
    before == 1
}

/// The files of a database on the fake disk.
pub struct NotedFiles {
    inner: MemoryFiles,
    disk: Arc<Disk>,
}

impl NotedFiles {
    pub fn new(disk: &Arc<Disk>) -> NotedFiles {
        NotedFiles { inner: MemoryFiles::new(), disk: disk.clone() }
    }

    fn noted(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(NotedFile { inner, disk: self.disk.clone() })
    }
}

impl Files for NotedFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.inner.create(name).map(|file| self.noted(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.inner.open(name).map(|file| self.noted(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }
}

struct NotedFile {
    inner: Arc<dyn File>,
    disk: Arc<Disk>,
}

impl File for NotedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.write(bytes)?;
        self.inner.write_at(bytes, offset)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()?;
        self.inner.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}
