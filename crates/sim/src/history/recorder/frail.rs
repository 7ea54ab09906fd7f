//! A fault-injecting disk for the log: slow, full, or failing to sync on demand.
//!
//! Written data stays readable.

use mainstay::{File, Files, MemoryFiles};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The faults to inject.
#[derive(Default)]
pub struct Faults {
    /// The longest duration of a sync, in microseconds.
    pub pause_us: AtomicU64,
    /// Whether the disk is full.
    pub is_full: AtomicBool,
    /// The number of syncs after which all syncs fail; negative means never.
    pub syncs_left: AtomicI64,
    syncs: AtomicU64,
}

impl Faults {
    /// A disk without faults.
    pub fn none() -> Faults {
        Faults { syncs_left: AtomicI64::new(-1), ..Faults::default() }
    }

    /// Removes all faults.
    pub fn heal(&self) {
        // SeqCst for simplicity, here and below: the flags publish no other data.
        self.syncs_left.store(-1, Ordering::SeqCst);
        self.is_full.store(false, Ordering::SeqCst);
    }

    fn sync(&self) -> io::Result<()> {
        self.pause();
        let one_less = |left: i64| if left > 0 { Some(left - 1) } else { None };
        match self.syncs_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Err(0) => Err(io::Error::other("the disk is gone")),
            _ => Ok(()),
        }
    }

    /// Sleeps for a varying time; some syncs take no time at all.
    fn pause(&self) {
        let limit = self.pause_us.load(Ordering::Relaxed);
        let turn = self.syncs.fetch_add(1, Ordering::Relaxed).wrapping_mul(7) % 4;
        if limit > 0 && turn > 0 {
            thread::sleep(Duration::from_micros(limit * turn / 3));
        }
    }

    fn write(&self) -> io::Result<()> {
        if self.is_full.load(Ordering::SeqCst) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }
}

/// Files in memory with fault injection.
pub struct FrailFiles {
    inner: MemoryFiles,
    faults: Arc<Faults>,
}

impl FrailFiles {
    /// Creates an empty directory.
    pub fn new(faults: Arc<Faults>) -> FrailFiles {
        FrailFiles { inner: MemoryFiles::new(), faults }
    }

    fn wrap(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FrailFile { inner, faults: self.faults.clone() })
    }
}

impl Files for FrailFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.faults.write()?;
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

struct FrailFile {
    inner: Arc<dyn File>,
    faults: Arc<Faults>,
}

impl File for FrailFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.faults.write()?;
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
        self.faults.write()?;
        self.inner.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.inner.truncate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}
