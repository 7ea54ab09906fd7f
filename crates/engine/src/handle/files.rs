//! Exports, imports and backups; those that leave a part of their disk free.

use super::backend::Backend;
use super::database::Database;
use crate::fs::disk_reserve::DiskReserve;
use crate::remote::wait;
use crate::tools::backup::BackupReport;
use crate::tools::export::{ExportReport, ImportReport, Progress};
use mainstay_model::{Result, Revision};
use std::path::Path;

/// Writes exports and backups that leave a part of their disk free; made by [`Database::with_disk_reserve`].
pub struct WithReserve<'d> {
    db: &'d Database,
    spare: DiskReserve,
}

impl Database {
    /// Exports and backups that are given up, as `DiskFull`, before their disk has less than this free.
    ///
    /// ```
    /// use mainstay::{Code, Database, DiskReserve};
    /// let root = tempfile::tempdir().unwrap();
    /// let db = Database::memory()?;
    /// let all_of_it = DiskReserve::leaving(u64::MAX);
    /// let refused = db.with_disk_reserve(all_of_it).backup(&root.path().join("backup"), &mut |_| {});
    /// assert_eq!(refused.unwrap_err().code(), Code::DiskFull);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn with_disk_reserve(&self, spare: DiskReserve) -> WithReserve<'_> {
        WithReserve { db: self, spare }
    }
}

impl Database {
    /// Writes everything that is kept at the newest revision to one file, which must not exist yet:
    /// all branches with their history, tags, expiries and receipts.
    ///
    /// Writers go on meanwhile; history is held back until it is done, up to the reader limit. With
    /// [`Options::base`](crate::Options::base) the file fills an empty directory, or stands in for
    /// the part of the log that an index cannot be rebuilt from any more.
    ///
    /// ```
    /// use mainstay::{Database, Options};
    /// let root = tempfile::tempdir().unwrap();
    /// let (file, copy) = (root.path().join("backup"), root.path().join("copy"));
    /// let db = Database::memory()?;
    /// db.cells().set("a", 1)?;
    /// let report = db.backup(&file, &mut |_| {})?;
    /// db.cells().set("a", 2)?;
    ///
    /// let restored = Options::new().base(&file).open(&copy)?;
    /// assert_eq!(restored.revision(), report.revision);
    /// assert_eq!(restored.cells().get("a")?, Some(1.into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn backup(&self, path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<BackupReport> {
        self.with_disk_reserve(DiskReserve::default()).backup(path, progress)
    }

    /// Writes everything that was committed after a revision to one file, which must not exist yet:
    /// effects, stamps and receipts, as the log has them.
    ///
    /// Together with a full [backup](Database::backup) of that revision, or of a later one, and the
    /// increments between, it makes the database as it is now: see
    /// [`restore_backup`](crate::restore_backup). Where the log no longer reaches back so far the
    /// answer is `HistoryTrimmed`, and a full backup is due;
    /// [`Options::feed_retention`](crate::Options::feed_retention) says how long it does.
    ///
    /// ```
    /// use mainstay::{Database, restore_backup};
    /// let root = tempfile::tempdir().unwrap();
    /// let (full, more) = (root.path().join("full"), root.path().join("more"));
    /// let db = Database::memory()?;
    /// db.cells().set("a", 1)?;
    /// let report = db.backup(&full, &mut |_| {})?;
    /// db.cells().set("a", 2)?;
    /// db.backup_since(report.revision, &more, &mut |_| {})?;
    ///
    /// let copy = root.path().join("copy");
    /// restore_backup(&copy, &[full, more], &mut |_| {})?;
    /// assert_eq!(Database::open(&copy)?.cells().get("a")?, Some(2.into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn backup_since(
        &self,
        since: Revision,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BackupReport> {
        self.with_disk_reserve(DiskReserve::default()).backup_since(since, path, progress)
    }

    /// Writes a branch to one file, which must not exist yet.
    pub fn export(
        &self,
        branch: &str,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ExportReport> {
        self.with_disk_reserve(DiskReserve::default()).export(branch, path, progress)
    }

    /// Makes a branch from a file; the file is checked as a whole before anything is written.
    pub fn import(
        &self,
        path: &Path,
        as_branch: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImportReport> {
        self.here("an import")?.import(path, as_branch, progress)
    }

    /// A hash of all retained versions of a branch: equal for equal logs, on any machine.
    pub fn export_hash(&self, branch: &str) -> Result<[u8; 32]> {
        match &self.place {
            Backend::Local(core) => core.export_hash(branch),
            Backend::Remote(link) => wait(Backend::there(link).export_hash(branch)),
        }
    }
}

impl WithReserve<'_> {
    /// Writes a full backup, as [`Database::backup`] does.
    pub fn backup(&self, path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<BackupReport> {
        self.db.here("a backup")?.backup(path, self.spare, progress)
    }

    /// Writes an increment, as [`Database::backup_since`] does.
    pub fn backup_since(
        &self,
        since: Revision,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BackupReport> {
        self.db.here("a backup")?.backup_since(since, path, self.spare, progress)
    }

    /// Writes a branch to one file, as [`Database::export`] does.
    pub fn export(
        &self,
        branch: &str,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ExportReport> {
        self.db.here("an export")?.export(branch, path, self.spare, progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_model::{At, Code};

    /// A database with more than is sorted in memory.
    fn large() -> Database {
        let db = Database::memory().unwrap();
        for name in ["a", "b", "c"] {
            let value = mainstay_model::Value::Bytes(vec![7; 12 << 20]);
            db.cells().set(name, value).unwrap();
        }
        db
    }

    #[test]
    fn files_of_a_database_stop_before_the_disk_is_full_and_leave_nothing() {
        let (root, db) = (tempfile::tempdir().unwrap(), large());
        let (path, nothing) = (root.path().join("file"), &mut |_| {});
        let all_of_it = db.with_disk_reserve(DiskReserve::leaving(u64::MAX));
        let sorted = all_of_it.export("main", &path, nothing).unwrap_err();
        assert!(sorted.message().contains("sort"), "{sorted}");
        db.fork("empty", "main", At::Revision(0)).unwrap();
        let refused = [
            sorted,
            all_of_it.export("empty", &path, nothing).unwrap_err(),
            all_of_it.backup(&path, nothing).unwrap_err(),
            all_of_it.backup_since(0, &path, nothing).unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.code(), Code::DiskFull, "{error}");
        }
        assert!(root.path().read_dir().unwrap().next().is_none());
        db.with_disk_reserve(DiskReserve::leaving(1)).backup(&path, nothing).unwrap();
    }
}
