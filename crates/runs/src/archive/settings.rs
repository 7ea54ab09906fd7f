//! Settings of an archive.

use mainstay::{Code, Error, Name, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A day, in milliseconds.
const DAY_MS: u64 = 86_400_000;

/// The selection and the schedule of archived runs.
///
/// ```
/// use mainstay_runs::archive::ArchiveSettings;
/// let settings: ArchiveSettings = serde_json::from_str(r#"{"older_than_ms": 3600000}"#)?;
/// assert!(settings.only_ended && settings.branch == "main" && settings.check().is_ok());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ArchiveSettings {
    /// The branch whose runs are archived.
    pub branch: String,
    /// The prefix of all file paths.
    pub prefix: String,
    /// Archives only runs whose names have this prefix.
    pub runs_prefix: String,
    /// Archives only runs whose last event is at least this old, in milliseconds. The age of an imported run
    /// counts from its import.
    pub older_than_ms: u64,
    /// If set, archives only completed, failed or cancelled runs.
    pub only_ended: bool,
    /// The interval between the rounds of an [`Archiver`](super::Archiver), in milliseconds.
    pub every_ms: u64,
}

impl Default for ArchiveSettings {
    fn default() -> ArchiveSettings {
        ArchiveSettings {
            branch: "main".to_owned(),
            prefix: "archive".to_owned(),
            runs_prefix: String::new(),
            older_than_ms: 30 * DAY_MS,
            only_ended: true,
            every_ms: 3_600_000,
        }
    }
}

impl ArchiveSettings {
    /// Rejects invalid settings.
    pub fn check(&self) -> Result<()> {
        Name::new(&self.branch)?;
        if self.every_ms == 0 {
            return Err(invalid("every_ms of an archive: 0, which leaves time for nothing else"));
        }
        match object_store::path::Path::parse(&self.prefix) {
            Ok(_) => Ok(()),
            Err(error) => Err(invalid(&format!("prefix of an archive: {error}"))),
        }
    }
}

/// The location of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StoreSettings {
    /// A directory, which is created if it does not exist.
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// S3 or a compatible store. Credentials come from the usual environment variables (`AWS_ACCESS_KEY_ID`,
    /// …) or the machine's role. It needs the feature `s3`.
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix of all object names, without the trailing `/`; `None` if the archive uses the whole
        /// bucket.
        #[serde(default)]
        prefix: Option<String>,
        /// The region; `None` to take it from the environment.
        #[serde(default)]
        region: Option<String>,
        /// The endpoint, for stores other than Amazon's.
        #[serde(default)]
        endpoint: Option<String>,
        /// True if the endpoint may be used without TLS.
        #[serde(default)]
        allow_http: bool,
    },
}

/// The URL scheme of a bucket.
const BUCKET: &str = "s3://";

impl StoreSettings {
    /// Parses a location: `s3://BUCKET/PREFIX`, or a directory.
    ///
    /// ```
    /// use mainstay_runs::archive::StoreSettings;
    /// let StoreSettings::S3 { bucket, prefix, .. } = StoreSettings::of("s3://old/runs/") else { panic!() };
    /// assert_eq!((bucket.as_str(), prefix.as_deref()), ("old", Some("runs")));
    /// assert_eq!(StoreSettings::of("old"), StoreSettings::Directory { path: "old".into() });
    /// ```
    pub fn of(place: &str) -> StoreSettings {
        let Some(rest) = place.strip_prefix(BUCKET) else {
            return StoreSettings::Directory { path: place.into() };
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        StoreSettings::S3 {
            bucket: bucket.to_owned(),
            prefix: (!prefix.is_empty()).then(|| prefix.to_owned()),
            region: None,
            endpoint: None,
            allow_http: false,
        }
    }

    /// Rejects invalid settings, and S3 if the program was built without it.
    pub fn check(&self) -> Result<()> {
        let StoreSettings::S3 { bucket, prefix, endpoint, allow_http, .. } = self else {
            return Ok(());
        };
        if bucket.is_empty() {
            return Err(invalid("a bucket has no name: say s3://BUCKET/PREFIX"));
        }
        if let Err(error) = object_store::path::Path::parse(prefix.as_deref().unwrap_or_default()) {
            return Err(invalid(&format!("prefix in bucket `{bucket}`: {error}")));
        }
        let is_plain = endpoint.as_deref().is_some_and(|place| place.starts_with("http://"));
        if is_plain && !allow_http {
            let message = "the archive's endpoint has no TLS: say https, or allow_http = true";
            return Err(invalid(message));
        }
        if cfg!(not(feature = "s3")) {
            return Err(without_s3(bucket));
        }
        Ok(())
    }
}

#[cold]
fn without_s3(bucket: &str) -> Error {
    let message = format!(
        "bucket `{bucket}`: this program was built without S3. Build it with `cargo build --release \
         --features s3`, or name a directory"
    );
    Error::new(Code::Unsupported, message)
}

#[cold]
pub(super) fn invalid(message: &str) -> Error {
    Error::new(Code::InvalidOption, message)
}
