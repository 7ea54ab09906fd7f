//! Environments of the recorded database.

use super::frail::{Faults, FrailFiles};
use mainstay::{Database, Durability, Options};
use mainstay_conformance::random::Random;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

/// The environment of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Memory without faults.
    Memory,
    /// Memory with slow syncs, so that many calls wait and overlap.
    Slow,
    /// Memory that is full again and again.
    Full,
    /// A real directory.
    Disk,
    /// A real directory, and a log whose syncs fail at some point. The database is then reopened and
    /// the run continues.
    Failing,
}

impl Setting {
    const ALL: [Setting; 8] = [
        Setting::Memory,
        Setting::Slow,
        Setting::Slow,
        Setting::Slow,
        Setting::Full,
        Setting::Disk,
        Setting::Failing,
        Setting::Failing,
    ];

    /// Returns a random setting.
    pub fn choose(random: &mut Random) -> Setting {
        Setting::ALL[random.below(Setting::ALL.len() as u64) as usize]
    }
}

/// A place for a database, which can be opened repeatedly.
pub struct Home {
    /// The environment.
    pub setting: Setting,
    /// The durability of transactions that do not set one.
    pub durability: Durability,
    /// The injected faults of its disk.
    pub faults: Arc<Faults>,
    files: Arc<FrailFiles>,
    directory: Option<TempDir>,
}

impl Home {
    /// Creates a new place.
    pub fn new(setting: Setting, random: &mut Random) -> Result<Home, String> {
        let durability = match random.below(6) {
            0 => Durability::Memory,
            1 => Durability::Interval,
            _ => Durability::Sync,
        };
        let faults = Arc::new(Faults::none());
        if setting != Setting::Disk {
            faults.pause_us.store(random.below(300), Ordering::Relaxed);
        }
        let directory = match setting {
            Setting::Disk | Setting::Failing => Some(TempDir::new()),
            _ => None,
        };
        let directory = directory.transpose().map_err(|error| format!("no directory: {error}"))?;
        let files = Arc::new(FrailFiles::new(faults.clone()));
        Ok(Home { setting, durability, faults, files, directory })
    }

    /// Opens the database.
    pub fn open(&self) -> mainstay::Result<Database> {
        let options = options().durability(self.durability);
        match (self.setting, &self.directory) {
            (Setting::Disk, Some(directory)) => options.open(directory.path().join("db")),
            (_, Some(directory)) => {
                options.files(self.files.clone()).open(directory.path().join("db"))
            }
            (Setting::Memory, None) => options.memory(),
            (_, None) => options.files(self.files.clone()).memory(),
        }
    }
}

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, durability {:?}", self.setting, self.durability)
    }
}

/// Buffers and segments so small that segment rolls, flushes and compactions happen all the time.
/// Nothing is trimmed, because the check reads all versions of every key.
fn options() -> Options {
    Options::new()
        .retention_all()
        .record_retention(None)
        .segment_bytes(32 << 10)
        .write_buffer_bytes(64 << 10)
        .cache_bytes(16 << 10)
        .block_cache_bytes(64 << 10)
        .sync_interval(Duration::from_millis(3))
        .sweep_interval(Some(Duration::from_millis(20)))
}
