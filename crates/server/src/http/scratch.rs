//! The scratch directory for uploads and downloads. A download is written here before it is sent, and an
//! upload is kept here until it is imported.
//!
//! ```text
//!   scratch/mainstay-XXXXXX/   a directory per file, only for its owner           --done, failed-->   removed
//!                              files left by a crash                              --next start-->     removed
//! ```

use super::Settings;
use mainstay::DiskReserve;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

const PREFIX: &str = "mainstay-";
/// Scratch files contain the data of the database.
const OWNER_ONLY: u32 = 0o700;

impl Settings {
    /// Returns these settings with a scratch directory. The default is one inside the data directory. The
    /// caller holds the lock of that directory, so leftover files cannot belong to a running server.
    pub fn with_scratch_in(&self, data: &Path) -> io::Result<Settings> {
        let mut settings = self.clone();
        if settings.scratch.is_none() {
            let place = data.join("scratch");
            DirBuilder::new().recursive(true).mode(OWNER_ONLY).create(&place)?;
            empty(&place)?;
            settings.scratch = Some(place);
        }
        Ok(settings)
    }

    /// Creates a directory for one file, if the disk has room for `bytes`. Dropping it removes the file.
    pub(super) fn scratch(&self, bytes: u64) -> io::Result<TempDir> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(Permissions::from_mode(OWNER_ONLY));
        let made = match &self.scratch {
            Some(place) => builder.tempdir_in(place),
            None => builder.tempdir(),
        }?;
        self.spare().check(&File::open(made.path())?, bytes)?;
        Ok(made)
    }

    /// The disk space that scratch files must leave free.
    pub(super) fn spare(&self) -> DiskReserve {
        DiskReserve::leaving(self.scratch_reserve_bytes)
    }
}

/// Removes the leftover directories of an earlier server. Files with other names stay.
fn empty(place: &Path) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings that also work on a nearly full disk.
    fn anywhere() -> Settings {
        Settings { scratch_reserve_bytes: 0, ..Settings::default() }
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_its_owner_gets_in() {
        let root = tempfile::tempdir().unwrap();
        let settings = anywhere().with_scratch_in(root.path()).unwrap();
        assert_eq!(mode(&root.path().join("scratch")), 0o700);
        let shared = Settings { scratch: Some(root.path().into()), ..anywhere() };
        for settings in [settings, shared, anywhere()] {
            assert_eq!(mode(settings.scratch(0).unwrap().path()), 0o700);
        }
    }

    #[test]
    fn what_a_crash_left_goes_and_what_is_not_ours_stays() {
        let root = tempfile::tempdir().unwrap();
        let settings = anywhere().with_scratch_in(root.path()).unwrap();
        let left = settings.scratch(0).unwrap().keep();
        fs::write(left.join("backup"), "secret").unwrap();
        let foreign = root.path().join("scratch/thesis");
        fs::write(&foreign, "x").unwrap();
        Settings::default().with_scratch_in(root.path()).unwrap();
        assert!(!left.exists() && foreign.exists());
        let elsewhere = Settings { scratch: Some("/elsewhere".into()), ..Settings::default() };
        let place = elsewhere.with_scratch_in(root.path()).unwrap().scratch;
        assert_eq!(place, elsewhere.scratch, "a place that is named is left alone");
    }
}
