//! Exports, imports and backups, optionally with a reserve of free disk space.

use super::backend::Backend;
use super::database::Database;
use mainstay_client::wait;
use mainstay_engine::fs::disk_reserve::DiskReserve;
use mainstay_engine::tools::backup::BackupReport;
use mainstay_engine::tools::export::{ExportReport, ImportReport, Progress};
use mainstay_model::{Result, Revision};
use std::path::Path;

/// Writes exports and backups while keeping a reserve of free disk space. Created by
/// [`Database::with_disk_reserve`].
pub struct WithReserve<'d> {
    db: &'d Database,
    spare: DiskReserve,
}

impl Database {
    /// Returns a writer of exports and backups that fails with `DiskFull` before the disk has less free
    /// space than `spare` demands.
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
    /// Writes a full backup: everything retained at the newest revision, in one file that must not exist
    /// yet. It contains all branches with their history, tags, expiries and receipts.
    ///
    /// Writers continue meanwhile. History is pinned until the backup is done, up to the reader limit. With
    /// [`Options::base`](crate::Options::base), the file fills an empty directory. It can also replace the
    /// part of the log that an index can no longer be rebuilt from. Blocks until the file is complete, and
    /// fails with `Unsupported` for a served database.
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

    /// Writes an incremental backup: everything committed after revision `since`, in one file that must not
    /// exist yet. It contains effects, stamps and receipts, as the log has them.
    ///
    /// [`restore_backup`](crate::restore_backup) restores the current database from this file, a full
    /// [backup](Database::backup) of revision `since` or a later one, and the increments between. Fails
    /// with `HistoryTrimmed` if the log no longer reaches back to `since`; then a full backup is needed.
    /// [`Options::feed_retention`](crate::Options::feed_retention) sets how far the log reaches back.
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

    /// Exports one branch to a file that must not exist yet. Blocks until the file is complete.
    pub fn export(
        &self,
        branch: &str,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ExportReport> {
        self.with_disk_reserve(DiskReserve::default()).export(branch, path, progress)
    }

    /// Creates branch `as_branch` from an exported file. The whole file is verified before anything is
    /// written.
    pub fn import(
        &self,
        path: &Path,
        as_branch: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImportReport> {
        self.here("an import")?.import(path, as_branch, progress)
    }

    /// Returns a hash of all retained versions of a branch. Equal logs give equal hashes on every machine.
    pub fn export_hash(&self, branch: &str) -> Result<[u8; 32]> {
        match &self.place {
            Backend::Local(core) => core.export_hash(branch),
            Backend::Remote(link) => wait(Backend::there(link).export_hash(branch)),
        }
    }
}

impl WithReserve<'_> {
    /// Writes a full backup, as [`Database::backup`] does. Fails with `DiskFull` if it would use the
    /// reserve.
    pub fn backup(&self, path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<BackupReport> {
        self.db.here("a backup")?.backup(path, self.spare, progress)
    }

    /// Writes an incremental backup, as [`Database::backup_since`] does. Fails with `DiskFull` if it would
    /// use the reserve.
    pub fn backup_since(
        &self,
        since: Revision,
        path: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BackupReport> {
        self.db.here("a backup")?.backup_since(since, path, self.spare, progress)
    }

    /// Exports a branch, as [`Database::export`] does. Fails with `DiskFull` if it would use the reserve.
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

    /// A database with more data than an export sorts in memory.
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
        let root = tempfile::tempdir().unwrap();
        let db = large();
        let path = root.path().join("file");
        let nothing = &mut |_| {};
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
