//! Fault injection at the seam of the log's files: the disk is full, fails to sync, or holds up a sync.

#![allow(dead_code, reason = "every test uses its own part of it")]

use mainstay::{File, Files, MemoryFiles};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

/// A gate that threads pass, or at which they are held up.
#[derive(Default)]
pub struct Gate {
    held: Mutex<bool>,
    let_go: Condvar,
    /// Number of threads that came to the gate.
    came: AtomicU64,
}

impl Gate {
    /// Holds up all threads that come from now on.
    pub fn hold(&self) {
        *self.held.lock().unwrap() = true;
    }

    pub fn let_go(&self) {
        *self.held.lock().unwrap() = false;
        self.let_go.notify_all();
    }

    pub fn came(&self) -> u64 {
        // SeqCst for all flags and counters in this file: the simplest order, and tests need no speed.
        self.came.load(Ordering::SeqCst)
    }

    /// Waits until more than `before` threads have come.
    pub fn wait_for_more_than(&self, before: u64) {
        while self.came() <= before {
            std::thread::yield_now();
        }
    }

    pub fn pass(&self) {
        self.came.fetch_add(1, Ordering::SeqCst);
        let held = self.held.lock().unwrap();
        drop(self.let_go.wait_while(held, |held| *held).unwrap());
    }
}

/// The faults to inject.
#[derive(Default)]
pub struct Faults {
    /// Number of bytes that may still be written. Negative: no limit.
    pub room: AtomicI64,
    pub sync_fails: AtomicBool,
    /// No more files can be opened.
    pub no_files: AtomicBool,
    /// After the disk was full, syncs fail, too.
    pub full_is_broken: AtomicBool,
    pub writes: Gate,
    pub syncs: Gate,
}

impl Faults {
    /// Takes bytes off the remaining room.
    fn take_room(&self, bytes: usize) -> io::Result<()> {
        let bytes = i64::try_from(bytes).map_err(io::Error::other)?;
        let take = |room: i64| match room {
            ..0 => Some(room),
            room => (bytes <= room).then_some(room - bytes),
        };
        let taken = self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        if taken.is_err() && self.full_is_broken.load(Ordering::SeqCst) {
            self.sync_fails.store(true, Ordering::SeqCst);
        }
        taken.map(drop).map_err(|_| io::Error::from(io::ErrorKind::StorageFull))
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.pass();
        if self.sync_fails.load(Ordering::SeqCst) {
            Err(io::Error::other("the disk is gone"))
        } else {
            Ok(())
        }
    }
}

pub struct FaultyFiles {
    inner: MemoryFiles,
    faults: Arc<Faults>,
}

struct FaultyFile {
    inner: Arc<dyn File>,
    faults: Arc<Faults>,
}

impl FaultyFiles {
    pub fn new() -> (Arc<FaultyFiles>, Arc<Faults>) {
        let faults = Arc::new(Faults { room: AtomicI64::new(-1), ..Faults::default() });
        (Arc::new(FaultyFiles { inner: MemoryFiles::new(), faults: faults.clone() }), faults)
    }

    fn wrap(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile { inner, faults: self.faults.clone() })
    }
}

impl Files for FaultyFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        if self.faults.no_files.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error()));
        }
        self.inner.create(name).map(|file| self.wrap(file))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.inner.open(name).map(|file| self.wrap(file))
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

impl File for FaultyFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.faults.writes.pass();
        self.faults.take_room(bytes.len())?;
        self.inner.write_at(bytes, offset)
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.faults.sync()?;
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

/// Runs a test on a thread of its own, so that a hang is a failure.
pub fn within(secs: u64, test: impl FnOnce() + Send + 'static) {
    let (done, over) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        // The receiver may have timed out.
        let _ = done.send(());
    });
    match over.recv_timeout(Duration::from_secs(secs)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("still waiting after {secs} s"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}
