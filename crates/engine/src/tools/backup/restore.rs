//! Restores an index from a full backup.
//!
//! ```text
//!   base --checked--> index.next/ stores of its own classes, MARK at R with its floors
//!   then  index -> index.damaged, index.next -> index;  opening continues as with any index
//! ```
//!
//! A crash in between leaves the old index or none, and the next open starts again.

use super::BackupReport;
use super::file::{self, BackupContents};
use super::progress::ReadProgress;
use crate::fs::error::io_error;
use crate::lifecycle::open::{OpenRebuildSource, RebuildSource};
use crate::log::{self, DatabaseId, Files, LogReport};
use crate::storage::bulk_load::BulkLoader;
use crate::storage::lsm::{Store, StoreOptions};
use crate::storage::reclassify;
use crate::storage::retention_class::{self, RetentionClasses};
use mainstay_model::{Code, Error, Result, Revision, Stamp};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A full backup that has been verified completely.
pub(crate) struct Base {
    path: PathBuf,
    contents: BackupContents,
}

/// Makes a backup the source of a rebuild. The file is opened when the rebuild needs it.
pub fn rebuild_source(backup: PathBuf) -> OpenRebuildSource {
    Arc::new(move || Ok(Box::new(Base::open(&backup)?)))
}

impl RebuildSource for Base {
    fn database(&self) -> [u8; 16] {
        self.contents.mark.database
    }

    fn revision(&self) -> Revision {
        self.contents.mark.revision
    }

    fn check_owner(&self, database: [u8; 16]) -> Result<()> {
        if self.database() == database {
            return Ok(());
        }
        let message = format!(
            "{} is a backup of database {}, not of {}: give one of this database; nothing was \
             changed",
            self.path.display(),
            DatabaseId(self.database()),
            DatabaseId(database)
        );
        Err(Error::new(Code::InvalidArgument, message))
    }

    fn check_reach(&self, log: &LogReport) -> Result<()> {
        let revision = self.revision();
        let Some(first) = log.segments.first().map(|segment| segment.first_revision) else {
            return Err(self.short("the log is gone, and with it what came behind"));
        };
        if first > revision + 1 {
            let missing = format!("revisions {} to {} are missing", revision + 1, first - 1);
            return Err(self.short(&format!("the log begins at revision {first}: {missing}")));
        }
        let last = log.last_revision().unwrap_or(first - 1);
        if last < revision {
            let missing = format!("revisions {} to {revision} are missing in it", last + 1);
            return Err(self.short(&format!("the log ends at revision {last}: {missing}")));
        }
        Ok(())
    }

    fn check_history(&self, files: &dyn Files) -> Result<()> {
        let logged = log::stamp_in(files, self.revision())?;
        if logged.is_none() || self.contents.stamp.is_none() || logged == self.contents.stamp {
            return Ok(());
        }
        Err(self.short("the log has another revision of that number: it is of another copy"))
    }

    fn fill(&self, directory: &Path, options: &StoreOptions) -> Result<()> {
        self.fill_watched(directory, options, &mut ReadProgress::silent())
    }
}

impl Base {
    /// Verifies a file. Changes nothing.
    pub fn open(path: &Path) -> Result<Base> {
        Base::read(path, &mut ReadProgress::silent())
    }

    /// As `open`, with progress.
    pub fn read(path: &Path, watch: &mut ReadProgress<'_>) -> Result<Base> {
        let contents = file::read(path, watch, &mut |_, _| Ok(()))?;
        if contents.mark.classes.len() > retention_class::CELLS {
            return Ok(Base { path: path.to_owned(), contents });
        }
        let message = format!("{} is damaged: it names no classes", path.display());
        Err(Error::new(Code::CorruptData, message))
    }

    /// The stamp of its revision, if known.
    pub fn stamp(&self) -> Option<Stamp> {
        self.contents.stamp
    }

    pub fn report(&self) -> BackupReport {
        super::report(&self.contents.mark, &self.contents)
    }

    #[cold]
    fn short(&self, what: &str) -> Error {
        let message = format!(
            "{} ends at revision {}, but {what}; nothing was changed: give a backup that the log \
             goes on from, or restore this one to an empty directory",
            self.path.display(),
            self.revision()
        );
        Error::new(Code::CorruptIndex, message)
    }

    /// Builds an index from the backup. The existing index is kept under another name.
    pub fn fill_watched(
        &self,
        directory: &Path,
        options: &StoreOptions,
        watch: &mut ReadProgress<'_>,
    ) -> Result<()> {
        reclassify::settle(directory)?;
        let next = reclassify::beside(directory, "next");
        let filled = self.fill_stores(&next, options, watch);
        if let Err(error) = filled {
            // The remains are removed by the next open, if not now.
            let _ = fs::remove_dir_all(&next);
            return Err(error);
        }
        self.contents.mark.write(&next)?;
        if directory.exists() {
            crate::lifecycle::open::set_aside(directory)?;
        }
        reclassify::rename_durably(&next, directory)
            .map_err(|error| io_error("put in place", directory, &error))
    }

    fn fill_stores(
        &self,
        next: &Path,
        options: &StoreOptions,
        watch: &mut ReadProgress<'_>,
    ) -> Result<()> {
        fs::create_dir(next).map_err(|error| io_error("make", next, &error))?;
        let labels = self.contents.mark.classes.iter().map(|class| class.0.as_str());
        let classes = RetentionClasses::from_labels(labels);
        let stores = (0..classes.all().len())
            .map(|class| Store::open(&next.join(classes.directory(class)), options, false))
            .collect::<Result<Vec<_>>>()?;
        let mut pour = BulkLoader::new(&stores, &classes);
        let read = file::read(&self.path, watch, &mut |key, entry| pour.version(key, entry))?;
        pour.finish()?;
        if read == self.contents {
            return Ok(());
        }
        let message = format!("{} was changed while it was read", self.path.display());
        Err(Error::new(Code::CorruptData, message))
    }
}
