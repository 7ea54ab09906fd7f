//! Disks that are not to be filled: exports and backups that leave some room for others.
//!
//! ```text
//!   a piece of a file --free now, less the piece, is enough?--> written
//!                     --or not--> DiskFull, and the file is removed
//! ```

use crate::handle::db::Database;
use rustix::fs::fstatvfs;
use std::fs::File;
use std::io;

/// How much of a disk stays free; nothing is kept free by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spare {
    reserve_bytes: u64,
}

impl Spare {
    /// Leaves so much free.
    pub fn leaving(reserve_bytes: u64) -> Spare {
        Spare { reserve_bytes }
    }

    /// Refuses what would leave less than that of the disk on which a file or a directory lies.
    pub fn check(self, place: &File, more_bytes: u64) -> io::Result<()> {
        if self.reserve_bytes == 0 {
            return Ok(());
        }
        let disk = fstatvfs(place)?;
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        match free_bytes.saturating_sub(more_bytes) < self.reserve_bytes {
            true => Err(self.refused(free_bytes)),
            false => Ok(()),
        }
    }

    #[cold]
    fn refused(self, free_bytes: u64) -> io::Error {
        let message = format!(
            "the disk has {free_bytes} bytes free, and {} are left to others",
            self.reserve_bytes
        );
        io::Error::new(io::ErrorKind::StorageFull, message)
    }
}

/// Writes exports and backups that leave a part of their disk free; made by [`Database::sparing`].
pub struct Sparing<'d> {
    pub(crate) db: &'d Database,
    pub(crate) spare: Spare,
}

impl Database {
    /// Exports and backups that are given up, as `DiskFull`, before their disk has less than this free.
    ///
    /// ```
    /// use mainstay::{Code, Database, Spare};
    /// let root = tempfile::tempdir().unwrap();
    /// let db = Database::memory()?;
    /// let all_of_it = Spare::leaving(u64::MAX);
    /// let refused = db.sparing(all_of_it).backup(&root.path().join("backup"), &mut |_| {});
    /// assert_eq!(refused.unwrap_err().code(), Code::DiskFull);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn sparing(&self, spare: Spare) -> Sparing<'_> {
        Sparing { db: self, spare }
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
        let all_of_it = db.sparing(Spare::leaving(u64::MAX));
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
        db.sparing(Spare::leaving(1)).backup(&path, nothing).unwrap();
    }

    #[test]
    fn what_would_leave_too_little_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let place = File::open(root.path()).unwrap();
        let disk = fstatvfs(&place).unwrap();
        // Others use this disk as well: what is asked for is far from what there is.
        let some_bytes = disk.f_bavail * disk.f_frsize / 2;
        Spare::leaving(some_bytes).check(&place, 0).unwrap();
        Spare::default().check(&place, u64::MAX).unwrap();
        for (reserve_bytes, more_bytes) in [(u64::MAX, 0), (some_bytes, u64::MAX)] {
            let refused = Spare::leaving(reserve_bytes).check(&place, more_bytes).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        }
    }
}
