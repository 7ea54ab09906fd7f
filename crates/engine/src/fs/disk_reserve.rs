//! Keeps a reserve of free disk space while exports and backups are written.
//!
//! ```text
//!   a piece of a file --free bytes minus the piece >= reserve--> written
//!                     --otherwise--> DiskFull, and the file is removed
//! ```

use rustix::fs::fstatvfs;
use std::fs::File;
use std::io;

/// Number of bytes of a disk that must stay free. The default is 0: no reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReserve {
    reserve_bytes: u64,
}

impl DiskReserve {
    /// Keeps at least `reserve_bytes` free.
    pub fn leaving(reserve_bytes: u64) -> DiskReserve {
        DiskReserve { reserve_bytes }
    }

    /// Fails with `StorageFull` if `more_bytes` more would leave less than the reserve free on the disk of
    /// `place`.
    pub fn check(self, place: &File, more_bytes: u64) -> io::Result<()> {
        if self.reserve_bytes == 0 {
            return Ok(());
        }
        let disk = fstatvfs(place)?;
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free_bytes.saturating_sub(more_bytes) < self.reserve_bytes {
            Err(self.refused(free_bytes))
        } else {
            Ok(())
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
        // Other programs use this disk too, so the test asks for amounts far from the limit.
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
