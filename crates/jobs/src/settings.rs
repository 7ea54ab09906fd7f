//! Settings, as plain data.

use crate::model::name;
use mainstay::{Code, Error, Name, Result};
use std::collections::BTreeMap;
use std::time::Duration;

/// Settings for all jobs under one namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Prefix of every key.
    pub namespace: String,
    /// Default lease in milliseconds, unless the claim, the job or its type sets another. Default: 30,000.
    pub timeout_ms: u64,
    /// Default maximum number of retries, unless the job or its type sets another. Default: 3.
    pub max_retries: u32,
    /// Input and output above this size go to the object store. At most 1 MiB; default 64 KiB.
    pub inline_limit_bytes: usize,
    /// A held job that was not written for this long is stuck, regardless of its lease. Needs an additional
    /// index. `None`: only the lease decides.
    pub stuck_after_ms: Option<u64>,
    /// How long a completed job is kept. `None`: forever.
    pub keep_completed_ms: Option<u64>,
    /// How long a failed or cancelled job without dependents is kept. `None`: forever.
    pub keep_failed_ms: Option<u64>,
    /// Branches on which jobs are claimed and swept.
    pub serve: ServedBranches,
    /// Overrides for single job types.
    pub types: BTreeMap<String, TypeSettings>,
}

/// Branches on which jobs are claimed and swept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServedBranches {
    /// Only on `main`. A job submitted on another branch is claimed after it was merged.
    #[default]
    Main,
    /// On every branch, but only jobs written after its fork. Inherited jobs belong to the branch that they
    /// come from.
    AllBranches,
}

/// Overrides for one job type. `None` keeps the general setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeSettings {
    /// Lease in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Maximum number of retries.
    pub max_retries: Option<u32>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            namespace: "mainstay.".to_owned(),
            timeout_ms: 30_000,
            max_retries: 3,
            inline_limit_bytes: 64 << 10,
            stuck_after_ms: None,
            keep_completed_ms: None,
            keep_failed_ms: None,
            serve: ServedBranches::Main,
            types: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// The default settings under a namespace.
    pub(crate) fn under(namespace: &str) -> Settings {
        Settings { namespace: namespace.to_owned(), ..Settings::default() }
    }

    /// Validates the settings and returns them.
    pub(crate) fn checked(self) -> Result<Settings> {
        self.check().map(|()| self)
    }

    /// Validates the settings, as opening jobs with them does.
    pub fn check(&self) -> Result<()> {
        self.check_namespace()?;
        self.types.keys().try_for_each(|task_type| name::check_type(task_type))?;
        let type_timeouts = self.types.values().filter_map(|settings| settings.timeout_ms);
        for timeout_ms in type_timeouts.chain([self.timeout_ms]) {
            check_duration(timeout_ms, "timeout_ms")?;
        }
        for (value, name) in [
            (self.stuck_after_ms, "stuck_after_ms"),
            (self.keep_completed_ms, "keep_completed_ms"),
            (self.keep_failed_ms, "keep_failed_ms"),
        ] {
            value.map_or(Ok(()), |value| check_duration(value, name))?;
        }
        if self.inline_limit_bytes > INLINE_LIMIT_BYTES {
            let message = format!(
                "inline_limit_bytes: {}, where {INLINE_LIMIT_BYTES} are the most: larger input and output goes to \
                 an object store",
                self.inline_limit_bytes
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(())
    }

    /// Rejects a namespace that is not a valid key prefix, or that leaves no room for the longest type and
    /// id.
    fn check_namespace(&self) -> Result<()> {
        Name::new(&format!("{}x", self.namespace)).map_err(|error| {
            let message = format!("namespace `{}`: {}", self.namespace, error.message());
            Error::new(Code::InvalidName, message)
        })?;
        if self.namespace.len() <= NAMESPACE_LIMIT_BYTES {
            return Ok(());
        }
        let message = format!(
            "a namespace has {} bytes: keys get too long beyond {NAMESPACE_LIMIT_BYTES}",
            self.namespace.len()
        );
        Err(Error::new(Code::InvalidName, message))
    }

    pub(crate) fn timeout_ms(&self, task_type: &str) -> u64 {
        let own = self.types.get(task_type).and_then(|settings| settings.timeout_ms);
        own.unwrap_or(self.timeout_ms)
    }

    pub(crate) fn max_retries(&self, task_type: &str) -> u32 {
        let own = self.types.get(task_type).and_then(|settings| settings.max_retries);
        own.unwrap_or(self.max_retries)
    }
}

/// Maximum length of a namespace: the key limit minus `state.tasks.`, the longest type and the longest id.
const NAMESPACE_LIMIT_BYTES: usize = 500;

/// Maximum size of inline input or output, in bytes. It is limited because many records are written in one
/// transaction.
pub const INLINE_LIMIT_BYTES: usize = 1 << 20;

/// Maximum lease or delay, in milliseconds: a hundred years.
pub(crate) const DURATION_LIMIT_MS: u64 = 100 * 365 * 86_400_000;

/// Converts a duration to milliseconds, rounded up, so that a wait is never too short.
pub(crate) fn duration_ms(duration: Duration, name: &str) -> Result<u64> {
    let ms = u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
    check_duration(ms, name).map(|()| ms)
}

/// Rejects a duration of zero or above the limit.
pub(crate) fn check_duration(ms: u64, name: &str) -> Result<()> {
    if (1..=DURATION_LIMIT_MS).contains(&ms) {
        return Ok(());
    }
    let message = format!("{name}: {ms} ms, where 1 ms to a hundred years make sense");
    Err(Error::new(Code::InvalidArgument, message))
}
