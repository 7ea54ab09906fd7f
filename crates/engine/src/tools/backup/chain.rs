//! Backup chains: a full backup and its increments, each continuing the one before.
//!
//! ```text
//!   full         R1 |
//!   increment       | R1 + 1 ... R2 |
//!   increment              | ......... R3 |      an overlap is fine, a gap is not
//! ```
//!
//! Copies of a database diverge under one id, with the same revision numbers. So where two files meet,
//! the stamps of the shared revision must be equal.

use super::increment::{self, IncrementContents, IncrementHeader};
use super::progress::ReadProgress;
use super::restore::Base;
use super::{BackupHead, BackupReport, Kind, file};
use crate::fs::checksummed_file::ChecksummedReader;
use crate::lifecycle::open::RebuildSource;
use crate::log::{DatabaseId, Frame};
use crate::tools::export::Progress;
use mainstay_model::{Code, Error, Result, Revision, Stamp};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Reads and verifies a backup of either kind. Changes nothing.
///
/// ```
/// let root = tempfile::tempdir().unwrap();
/// let file = root.path().join("backup");
/// let db = mainstay::Database::memory()?;
/// db.cells().set("a", 1)?;
/// let report = db.backup(&file, &mut |_| {})?;
/// assert_eq!(mainstay::verify_backup(&file)?, report);
/// # Ok::<(), mainstay::Error>(())
/// ```
pub fn verify_backup(path: &Path) -> Result<BackupReport> {
    first(path, &mut ReadProgress::silent()).map(|(_, report, _)| report)
}

/// Reads and verifies a full backup and its increments, and verifies that they join. Changes nothing. A
/// chain of increments without the full backup is verified in the same way.
pub fn verify_chain(
    files: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<BackupReport>> {
    check_chain(files, progress).map(|(reports, _)| reports)
}

/// As `verify_chain`, but also returns the full backup that the chain begins with, if any.
pub(super) fn check_chain(
    files: &[PathBuf],
    progress: &mut dyn FnMut(Progress),
) -> Result<(Vec<BackupReport>, Option<Base>)> {
    let mut watch = ReadProgress::over(files, "checking", progress);
    let mut reports = Vec::new();
    let mut full = None;
    let mut end: Option<ChainEnd> = None;
    for path in files {
        let next = match end {
            None => {
                let (next, report, base) = first(path, &mut watch)?;
                full = base;
                (next, report)
            }
            Some(end) => {
                let contents = end.read(path, &mut watch, &mut |_| Ok(()))?;
                (ChainEnd::of(path, &contents), contents.report())
            }
        };
        watch.file_done(next.1.bytes);
        reports.push(next.1);
        end = Some(next.0);
    }
    Ok((reports, full))
}

/// Reads the header of a backup without verifying the rest.
pub fn backup_head(path: &Path) -> Result<BackupHead> {
    let mut file = ChecksummedReader::open(path)?;
    if is_increment(path) {
        let IncrementHeader { database, since, last, .. } = IncrementHeader::read(&mut file)?;
        return Ok(BackupHead { database, kind: Kind::Increment { since }, revision: last });
    }
    let (database, revision, _) = file::head(&mut file)?;
    Ok(BackupHead { database: DatabaseId(database), kind: Kind::Full, revision })
}

/// Reads the first file of a chain.
fn first(
    path: &Path,
    watch: &mut ReadProgress<'_>,
) -> Result<(ChainEnd, BackupReport, Option<Base>)> {
    if is_increment(path) {
        let contents = increment::read(path, watch, &mut |_| Ok(()))?;
        return Ok((ChainEnd::of(path, &contents), contents.report(), None));
    }
    let base = Base::read(path, watch)?;
    Ok((ChainEnd::of_base(path, &base), base.report(), Some(base)))
}

/// Returns whether a file is an increment. For an unreadable file it returns false: the reader of full
/// backups reports the error.
fn is_increment(path: &Path) -> bool {
    begins_with(path, increment::MAGIC)
}

fn begins_with(path: &Path, magic: &[u8; 8]) -> bool {
    let mut found = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut found));
    read.is_ok() && found == *magic
}

/// The current end of a chain.
pub(super) struct ChainEnd {
    path: PathBuf,
    pub database: DatabaseId,
    pub revision: Revision,
    stamp: Option<Stamp>,
}

impl ChainEnd {
    pub fn of_base(path: &Path, base: &Base) -> ChainEnd {
        let database = DatabaseId(base.database());
        ChainEnd { path: path.to_owned(), database, revision: base.revision(), stamp: base.stamp() }
    }

    pub fn of(path: &Path, contents: &IncrementContents) -> ChainEnd {
        let IncrementHeader { database, last, .. } = contents.head;
        ChainEnd { path: path.to_owned(), database, revision: last, stamp: contents.stamp }
    }

    /// Reads the next increment, which must join this end.
    pub fn read(
        &self,
        path: &Path,
        watch: &mut ReadProgress<'_>,
        visit: increment::IncrementVisitor<'_>,
    ) -> Result<IncrementContents> {
        if begins_with(path, file::MAGIC) {
            return Err(self.not_increment(path));
        }
        self.check_head(path, &IncrementHeader::read(&mut ChecksummedReader::open(path)?)?)?;
        increment::read(path, watch, &mut |frame| {
            self.check_meeting(path, frame)?;
            visit(frame)
        })
    }

    fn check_head(&self, path: &Path, head: &IncrementHeader) -> Result<()> {
        if head.database != self.database {
            return Err(self.foreign(path, head.database));
        }
        if head.since > self.revision {
            return Err(self.gap(path, head.since));
        }
        if head.last < self.revision {
            return Err(self.out_of_order(path, head.last));
        }
        if head.since == self.revision { self.check_stamp(path, head.since_stamp) } else { Ok(()) }
    }

    /// Checks that the histories match: where files overlap, the revision at this end is in the next
    /// file, too.
    fn check_meeting(&self, path: &Path, frame: &Frame<'_>) -> Result<()> {
        if frame.first_revision() > self.revision {
            return Ok(());
        }
        for transaction in frame.transactions() {
            let transaction = transaction?;
            if transaction.revision == self.revision {
                self.check_stamp(path, Some(transaction.stamp))?;
            }
        }
        Ok(())
    }

    fn check_stamp(&self, path: &Path, stamp: Option<Stamp>) -> Result<()> {
        if stamp.is_none() || self.stamp.is_none() || stamp == self.stamp {
            Ok(())
        } else {
            Err(self.other_copy(path))
        }
    }

    #[cold]
    fn refused(&self, what: String) -> Error {
        Error::new(Code::InvalidArgument, format!("{what}; nothing was changed"))
    }

    #[cold]
    fn not_increment(&self, path: &Path) -> Error {
        self.refused(format!(
            "{} is a full backup, so it cannot come behind {}: name the full backup first, and its \
             increments in the order in which they were taken",
            path.display(),
            self.path.display()
        ))
    }

    #[cold]
    fn foreign(&self, path: &Path, database: DatabaseId) -> Error {
        self.refused(format!(
            "{} is of database {database}, but {} is of {}: name files of one database",
            path.display(),
            self.path.display(),
            self.database
        ))
    }

    #[cold]
    fn gap(&self, path: &Path, since: Revision) -> Error {
        self.refused(format!(
            "{} begins behind revision {since}, but {} ends at revision {}: revisions {} to {since} \
             are missing; name the increments between, in the order in which they were taken",
            path.display(),
            self.path.display(),
            self.revision,
            self.revision + 1
        ))
    }

    #[cold]
    fn out_of_order(&self, path: &Path, last: Revision) -> Error {
        self.refused(format!(
            "{} ends at revision {last}, before {} does, at {}: name the increments in the order in \
             which they were taken",
            path.display(),
            self.path.display(),
            self.revision
        ))
    }

    #[cold]
    fn other_copy(&self, path: &Path) -> Error {
        self.refused(format!(
            "{} has another revision {} than {}: they are of two copies of the database that went \
             ways of their own",
            path.display(),
            self.revision,
            self.path.display()
        ))
    }
}
