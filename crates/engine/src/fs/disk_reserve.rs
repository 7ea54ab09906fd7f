//! Disks that are not to be filled: exports and backups that leave some room for others.
//!
//! ```text
//!   a piece of a file --free now, less the piece, is enough?--> written
//!                     --or not--> DiskFull, and the file is removed
//! ```

use rustix::fs::fstatvfs;
use std::fs::File;
use std::io;

/// How much of a disk stays free; nothing is kept free by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReserve {
    reserve_bytes: u64,
}

impl DiskReserve {
    /// Leaves so much free.
    pub fn leaving(reserve_bytes: u64) -> DiskReserve {
        DiskReserve { reserve_bytes }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_leave_too_little_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let place = File::open(root.path()).unwrap();
        let disk = fstatvfs(&place).unwrap();
        // Others use this disk as well: what is asked for is far from what there is.
        let some_bytes = disk.f_bavail * disk.f_frsize / 2;
        DiskReserve::leaving(some_bytes).check(&place, 0).unwrap();
        DiskReserve::default().check(&place, u64::MAX).unwrap();
        for (reserve_bytes, more_bytes) in [(u64::MAX, 0), (some_bytes, u64::MAX)] {
            let refused =
                DiskReserve::leaving(reserve_bytes).check(&place, more_bytes).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        }
    }
}
