//! The place of files on their way: what is sent is written first, what is received lies there until it
//! is taken in.
//!
//! ```text
//!   scratch/mainstay-XXXXXX/   a directory for each file, its owner's alone   --done, failed-->   removed
//!                              what a crash left                              --next start-->     removed
//! ```

use super::Settings;
use mainstay::DiskReserve;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

const PREFIX: &str = "mainstay-";
/// Files on their way hold what the database holds.
const OWNER_ONLY: u32 = 0o700;

impl Settings {
    /// These settings with a place for files on their way: where they name none, one beside the data,
    /// whose lock the caller holds, so that nobody else's files are there.
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

    /// A directory for one file, which goes with it, where there is room for so much.
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

    /// What these files leave free of their disk.
    pub(super) fn spare(&self) -> DiskReserve {
        DiskReserve::leaving(self.scratch_reserve_bytes)
    }
}

/// Removes what an earlier server left; what is not ours stays.
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

    /// Settings for a disk that may be nearly full.
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
