//! The archive of a server: the table `[archive]`, and the thread that goes by it.

use crate::config::settings::settings;
use mainstay::{Database, Result};
use mainstay_runs::archive::{Archive, ArchiveSettings, Archiver, StoreSettings};
use std::path::PathBuf;

const DAY_MS: u64 = 86_400_000;
const YEARS_MS: u64 = 36_500 * DAY_MS;

settings! {
    /// The archive, into which runs go that are old enough: written to files, read back, and then deleted.
    pub struct Settings {
        /// The directory of the files, one for each run; "none": nothing is archived.
        pub directory: Option<PathBuf> = None;
        /// The branch whose runs are archived.
        pub branch: String = mainstay::MAIN.to_owned();
        /// Only runs whose names begin with this.
        pub prefix: String = String::new();
        /// Only runs whose last event came so long ago or earlier. One that was restored is as old as that.
        pub older_than_ms: u64 = 30 * DAY_MS, 0..=YEARS_MS;
        /// Only runs that are completed, failed or cancelled.
        pub only_ended: bool = true;
        /// How long the archive rests between its rounds.
        pub interval_ms: u64 = 3_600_000, 1..=YEARS_MS;
    }
}

impl Settings {
    /// What can be wrong with a setting beyond its type and its bounds.
    pub fn check(&self) -> Result<()> {
        self.of_archive().check()
    }

    /// Starts to archive; nothing where no directory is named.
    pub(crate) fn start(&self, db: &Database) -> Result<Option<Archiver>> {
        let Some(path) = self.directory.clone() else { return Ok(None) };
        let archive = Archive::open(db, &StoreSettings::Directory { path }, self.of_archive())?;
        Archiver::start(&archive).map(Some)
    }

    /// The same as the archive itself wants it.
    fn of_archive(&self) -> ArchiveSettings {
        ArchiveSettings {
            branch: self.branch.clone(),
            runs_prefix: self.prefix.clone(),
            older_than_ms: self.older_than_ms,
            only_ended: self.only_ended,
            every_ms: self.interval_ms,
            ..ArchiveSettings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_archive_and_what_makes_no_sense_is_refused() {
        let default = Settings::default();
        assert!(default.check().is_ok());
        assert_eq!(default.of_archive(), ArchiveSettings::default());
        assert!(Settings { branch: String::new(), ..default }.check().is_err());
    }
}
