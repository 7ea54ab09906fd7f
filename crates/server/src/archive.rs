//! The archive of runs: the table `[archive]`, and the start of its background thread.

use crate::config::settings::settings;
use mainstay::{Code, Database, Error, Result};
use mainstay_runs::archive::{Archive, ArchiveSettings, Archiver, StoreSettings};
use std::path::PathBuf;

const DAY_MS: u64 = 86_400_000;
const YEARS_MS: u64 = 36_500 * DAY_MS;

settings! {
    /// The archive, into which runs go that are old enough: written to files, read back, and then deleted.
    pub struct Settings {
        /// The directory of the files, one for each run; without it and without `url`, nothing is archived.
        pub directory: Option<PathBuf> = None;
        /// The bucket of the files instead, as s3://BUCKET/PREFIX, on S3 or what speaks its protocol; who asks is said by the
        /// usual variables of the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY). Only in a program built with
        /// the feature `s3`.
        pub url: Option<String> = None;
        /// Where S3 is, if it is not Amazon's.
        pub endpoint: Option<String> = None;
        /// The region of S3; "none": as the environment says.
        pub region: Option<String> = None;
        /// Whether S3 may be reached without TLS.
        pub allow_http: bool = false;
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
    /// Checks what types and bounds of a setting cannot express, independent of other settings.
    pub fn check(&self) -> Result<()> {
        self.of_archive().check()?;
        match &self.url {
            Some(url) => self.bucket(url).map(drop),
            None => Ok(()),
        }
    }

    /// Checks the settings in combination.
    pub fn check_together(&self) -> Result<()> {
        self.store()?.map_or(Ok(()), |store| store.check())
    }

    /// Starts the archiver. Returns `None` if neither a directory nor a bucket is configured.
    pub(crate) fn start(&self, db: &Database) -> Result<Option<Archiver>> {
        let Some(store) = self.store()? else { return Ok(None) };
        let archive = Archive::open(db, &store, self.of_archive())?;
        Archiver::start(&archive).map(Some)
    }

    /// Returns the configured location of the files.
    fn store(&self) -> Result<Option<StoreSettings>> {
        match (&self.directory, &self.url) {
            (Some(_), Some(_)) => Err(invalid("archive: either directory or url, not both")),
            (_, None) if self.endpoint.is_some() || self.region.is_some() || self.allow_http => {
                Err(invalid(
                    "archive: endpoint, region and allow_http are those of a bucket: give its url, too",
                ))
            }
            (Some(path), None) => Ok(Some(StoreSettings::Directory { path: path.clone() })),
            (None, Some(url)) => self.bucket(url).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn bucket(&self, url: &str) -> Result<StoreSettings> {
        let Settings { endpoint, region, allow_http, .. } = self.clone();
        match StoreSettings::of(url) {
            StoreSettings::S3 { bucket, prefix, .. } => {
                Ok(StoreSettings::S3 { bucket, prefix, region, endpoint, allow_http })
            }
            StoreSettings::Directory { .. } => Err(invalid(&format!(
                "archive.url: {url:?} is no bucket, which begins with s3://; a directory is archive.directory"
            ))),
        }
    }

    /// Converts the settings to those of the archive library.
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

#[cold]
fn invalid(message: &str) -> Error {
    Error::new(Code::InvalidOption, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(settings: &Settings) -> Error {
        settings.check().and_then(|()| settings.check_together()).unwrap_err()
    }

    fn on_s3(url: &str) -> Settings {
        Settings { url: Some(url.to_owned()), ..Settings::default() }
    }

    #[test]
    fn a_bucket_has_all_that_is_said_of_it() {
        let endpoint = "https://s3.example:9000".to_owned();
        let region = "somewhere".to_owned();
        let settings = Settings {
            endpoint: Some(endpoint.clone()),
            region: Some(region.clone()),
            ..on_s3("s3://old/runs/of/ours/")
        };
        let expected = StoreSettings::S3 {
            bucket: "old".to_owned(),
            prefix: Some("runs/of/ours".to_owned()),
            region: Some(region),
            endpoint: Some(endpoint),
            allow_http: false,
        };
        assert_eq!(settings.store().unwrap(), Some(expected));
        assert_eq!(Settings::default().store().unwrap(), None);
    }

    /// Programs without the feature say in the error which programs have it.
    #[test]
    fn s3_is_taken_by_programs_that_have_it() {
        match (cfg!(feature = "s3"), on_s3("s3://old").check_together()) {
            (true, checked) => checked.unwrap(),
            (false, checked) => {
                let error = checked.unwrap_err();
                assert_eq!(error.code(), Code::Unsupported);
                assert!(error.message().contains("--features s3"), "{error}");
            }
        }
    }

    #[test]
    fn places_that_make_no_sense_are_refused() {
        let both = Settings { directory: Some("old".into()), ..on_s3("s3://old") };
        let plain =
            Settings { endpoint: Some("http://localhost:9000".into()), ..on_s3("s3://old") };
        for (settings, why) in [
            (both, "not both"),
            (on_s3("gs://old"), "begins with s3://"),
            (on_s3("s3:///runs"), "no name"),
            (on_s3("s3://old/runs//ours"), "prefix"),
            (plain, "allow_http"),
        ] {
            let error = refusal(&settings);
            assert_eq!(error.code(), Code::InvalidOption, "{error}");
            assert!(error.message().contains(why), "{error}");
        }
    }

    #[test]
    fn what_is_said_of_a_bucket_is_refused_without_the_bucket() {
        let endpoint =
            Settings { endpoint: Some("https://s3.example".into()), ..Settings::default() };
        let region = Settings { region: Some("somewhere".into()), ..Settings::default() };
        let allow_http = Settings { allow_http: true, ..Settings::default() };
        for settings in [endpoint, region, allow_http] {
            let in_directory = Settings { directory: Some("old".into()), ..settings.clone() };
            for settings in [settings, in_directory] {
                let error = refusal(&settings);
                assert_eq!(error.code(), Code::InvalidOption, "{error}");
                assert!(error.message().contains("give its url"), "{error}");
            }
        }
    }

    #[test]
    fn a_url_that_is_not_of_s3_is_refused_whatever_else_is_said() {
        for url in ["old/runs", "/old", "https://s3.example/old", "S3://old", "s3:/old", ""] {
            let settings = Settings { region: Some("somewhere".into()), ..on_s3(url) };
            let error = refusal(&settings);
            assert_eq!(error.code(), Code::InvalidOption, "{error}");
            assert!(error.message().contains("begins with s3://"), "{error}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_archive_and_what_makes_no_sense_is_refused() {
        let default = Settings::default();
        assert!(default.check().is_ok());
        assert_eq!(default.of_archive(), ArchiveSettings::default());
        assert!(Settings { branch: String::new(), ..default }.check().is_err());
    }
}
