//! Full and incremental backups: a consistent snapshot of the index in one file.
//!
//! ```text
//!   index at revision R --backup--> file --verify--> index.next --rename--> index
//!     versions of all spaces,                          the log is replayed from R + 1 on
//!     classes and floors
//! ```
//!
//! A full backup is a snapshot at one published revision, taken while writers continue. A pin keeps the
//! history of user data. No pin keeps old versions of the database's own metadata, so that is read from
//! a store snapshot acquired at that revision.
//!
//! An increment holds the changes after a revision, as frames of the log:
//!
//! ```text
//!   full, R1 | increment R1..R2 | increment R2..R3   --joined-->  index of R1 + log of R1 + 1 to R3
//! ```

mod chain;
mod file;
mod increment;
mod incremental;
#[cfg(any(test, fuzzing, feature = "test-hooks"))]
mod mend;
mod progress;
mod rebuild;
pub mod restore;

pub use chain::{backup_head, verify_backup, verify_chain};
#[cfg(any(test, fuzzing, feature = "test-hooks"))]
pub use mend::mend;
pub use rebuild::restore_backup;
pub use restore::rebuild_source;

use crate::base::fault_points::{self, InjectedFault};
use crate::fs::checksummed_file::ChecksummedWriter;
use crate::fs::disk_reserve::DiskReserve;
use crate::key::entry;
use crate::key::keyspace;
use crate::lifecycle::engine::Engine;
use crate::log::DatabaseId;
use crate::storage::flush_mark::FlushMark;
use crate::storage::retention_class;
use crate::storage::scan::Scan;
use crate::storage::timestamp_index::TimestampSnapshot;
use crate::tools::export::Progress;
use file::{BackupContents, Blocks};
use mainstay_model::{Code, Error, Result, Revision};
use std::ops::Bound;
use std::path::Path;

/// The kind of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A full backup: it holds everything.
    Full,
    /// An increment: it holds the transactions committed after a revision.
    Increment {
        /// The revision that it continues from.
        since: Revision,
    },
}

/// The header of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupHead {
    /// The database that was backed up.
    pub database: DatabaseId,
    /// Full or increment.
    pub kind: Kind,
    /// The last revision in it; the next increment continues from here.
    pub revision: Revision,
}

/// The contents of a verified backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The database that was backed up.
    pub database: DatabaseId,
    /// Full or increment.
    pub kind: Kind,
    /// The revision of the snapshot: the backup holds everything up to it and nothing after it.
    pub revision: Revision,
    /// The number of keys: user data of all branches, deleted keys included, and the database's own
    /// metadata. `None` for an increment, which does not count them.
    pub keys: Option<u64>,
    /// The number of versions of these keys.
    pub versions: u64,
    /// The size of the file in bytes.
    pub bytes: u64,
}

impl Engine {
    /// Writes a full backup.
    pub fn backup(
        &self,
        path: &Path,
        spare: DiskReserve,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BackupReport> {
        self.check_open()?;
        let file = ChecksummedWriter::create(path, spare)?;
        let index = self.index();
        let now = self.clock.monotonic_us();
        let _pin = self.pins.hold("backup", now, index.data_floor_min());
        let moment = BackupSource::take(self);
        let mut backup = Backup { core: self, progress, keys: 0, versions: 0 };
        let blocks = Blocks::begin(file, &index.database(), moment.revision)?;
        backup.run(moment, blocks)
    }
}

fn report(mark: &FlushMark, contents: &BackupContents) -> BackupReport {
    BackupReport {
        database: DatabaseId(mark.database),
        revision: mark.revision,
        kind: Kind::Full,
        keys: Some(contents.keys),
        versions: contents.versions,
        bytes: contents.bytes,
    }
}

/// One published revision with the snapshots of its stores.
struct BackupSource {
    revision: Revision,
    data: Scan,
    system: Scan,
    times: TimestampSnapshot,
}

impl BackupSource {
    /// Floors are raised only while the executor is held, and never above the published revision. So no
    /// floor is above this revision, and the acquired snapshots are complete at it.
    fn take(core: &Engine) -> BackupSource {
        core.sequencer.with_exec(|_| {
            let revision = core.sequencer.published();
            let first = [keyspace::SESSIONS];
            let end = [keyspace::TIMES];
            let first = &first[..];
            let end = &end[..];
            let index = core.index();
            BackupSource {
                revision,
                data: index.scan(Bound::Unbounded, Bound::Excluded(first), revision),
                system: index.scan(Bound::Included(first), Bound::Excluded(end), revision),
                times: index.times(),
            }
        })
    }
}

struct Backup<'a> {
    core: &'a Engine,
    progress: &'a mut dyn FnMut(Progress),
    keys: u64,
    versions: u64,
}

impl Backup<'_> {
    fn run(&mut self, moment: BackupSource, mut blocks: Blocks) -> Result<BackupReport> {
        self.data(moment.data, &mut blocks)?;
        self.system(moment.system, &mut blocks)?;
        let index = self.core.index();
        let store = &index.stores()[retention_class::SYSTEM];
        let is_forgotten = |first| index.first_time().is_none_or(|known| known.0 > first);
        for version in moment.times.blocks_upto(moment.revision, store, is_forgotten) {
            let version = version?;
            self.keys += 1;
            self.put(&mut blocks, version.key(), version.entry())?;
        }
        let mark = self.mark(moment.revision)?;
        make_durable(self.core, moment.revision)?;
        let bytes = blocks.end(&mark, self.keys, self.versions)?;
        self.tell();
        let stamp = index.stamp_of(moment.revision)?;
        let contents =
            BackupContents { mark, stamp, keys: self.keys, versions: self.versions, bytes };
        Ok(report(&contents.mark, &contents))
    }

    /// Writes all retained versions of user data.
    fn data(&mut self, scan: Scan, blocks: &mut Blocks) -> Result<()> {
        let index = self.core.index();
        for row in scan {
            let row = row?;
            self.keys += 1;
            self.put(blocks, row.key(), row.entry())?;
            let newest = entry::revision_of(row.entry());
            if newest > index.floor(index.classes.of(row.key())) {
                index.versions(row.key(), newest - 1, &mut |entry| {
                    self.put(blocks, row.key(), entry).map(|()| true)
                })?;
            }
        }
        Ok(())
    }

    /// Writes the newest version of the database's own metadata; older ones are not needed.
    fn system(&mut self, scan: Scan, blocks: &mut Blocks) -> Result<()> {
        for row in scan {
            let row = row?;
            self.keys += 1;
            self.put(blocks, row.key(), row.entry())?;
        }
        Ok(())
    }

    fn put(&mut self, blocks: &mut Blocks, key: &[u8], entry: &[u8]) -> Result<()> {
        blocks.version(key, entry)?;
        self.versions += 1;
        if self.versions.is_multiple_of(1024) {
            self.tell();
        }
        Ok(())
    }

    fn tell(&mut self) {
        let done = self.versions;
        (self.progress)(Progress { phase: "writing", done, total: None });
    }

    /// Returns the mark of an index with the backup's contents and the current floors. If the backup
    /// outlived its pin, history trimmed meanwhile counts as trimmed in the backup, too.
    fn mark(&self, revision: Revision) -> Result<FlushMark> {
        let index = self.core.index();
        if index.data_floor() > revision {
            return Err(outlived(revision));
        }
        let floor = |class| index.floor(class).min(revision);
        let all = index.classes.all().iter().enumerate();
        let classes = all.map(|(class, rule)| (rule.label.clone(), floor(class))).collect();
        Ok(FlushMark { database: index.database(), revision, classes })
    }
}

/// Makes a revision durable first: the backup must not hold data that the database could still lose,
/// because the log would not reach up to it.
pub fn make_durable(core: &Engine, revision: Revision) -> Result<()> {
    if core.sequencer.durable() >= revision || fault_points::is(InjectedFault::NoSyncBeforeBackup) {
        Ok(())
    } else {
        core.sequencer.sync().map(|_| ())
    }
}

#[cold]
fn outlived(revision: Revision) -> Error {
    let message = format!(
        "the backup of revision {revision} took longer than a reader may hold history back, and \
         some of it was trimmed meanwhile: raise `reader_limit` and take it again"
    );
    Error::new(Code::HistoryTrimmed, message)
}
