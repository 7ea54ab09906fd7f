//! Settings, which are data.

use crate::name;
use mainstay::{Code, Error, Name, Result};
use std::collections::BTreeMap;
use std::time::Duration;

/// What holds for all jobs under one namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What every key begins with.
    pub namespace: String,
    /// How long a worker may be silent, unless its claim, the job or its type says otherwise.
    pub timeout_ms: u64,
    /// How often a job is tried again, unless it or its type says otherwise.
    pub max_retries: u32,
    /// Input and output beyond this go to the object store; 1 MiB at most.
    pub inline_limit_bytes: usize,
    /// Held jobs that nobody has written to for this long are stuck, whatever their lease says; an index is
    /// kept for it. `None`: the lease decides.
    pub stuck_after_ms: Option<u64>,
    /// How long a completed job stays; `None`: for good.
    pub keep_completed_ms: Option<u64>,
    /// How long a failed or cancelled job stays that nobody waits for; `None`: for good.
    pub keep_failed_ms: Option<u64>,
    /// Where jobs are claimed and swept.
    pub serve: Serve,
    /// What differs for some types.
    pub types: BTreeMap<String, TypeSettings>,
}

/// On which branches jobs are claimed and swept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serve {
    /// On `main` alone: what is submitted on another branch is claimed when it has been merged.
    #[default]
    Main,
    /// On every branch, and there only what was written since it was forked: what it inherited belongs to the
    /// branch that it comes from.
    AllBranches,
}

/// What differs for a type; what is `None` does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeSettings {
    /// How long a worker may be silent.
    pub timeout_ms: Option<u64>,
    /// How often a job is tried again.
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
            serve: Serve::Main,
            types: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// The default ones under a namespace.
    pub(crate) fn under(namespace: &str) -> Settings {
        Settings { namespace: namespace.to_owned(), ..Settings::default() }
    }

    /// The same, if they make sense.
    pub(crate) fn checked(self) -> Result<Settings> {
        self.check().map(|()| self)
    }

    /// Refuses what makes no sense, as opening jobs with it does.
    pub fn check(&self) -> Result<()> {
        self.check_namespace()?;
        self.types.keys().try_for_each(|task_type| name::check_type(task_type))?;
        let of_types = self.types.values().filter_map(|one| one.timeout_ms);
        for timeout_ms in of_types.chain([self.timeout_ms]) {
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

    /// Refuses what no key can begin with, and what leaves no room for the longest type and id behind it.
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
        let own = self.types.get(task_type).and_then(|one| one.timeout_ms);
        own.unwrap_or(self.timeout_ms)
    }

    pub(crate) fn max_retries(&self, task_type: &str) -> u32 {
        let own = self.types.get(task_type).and_then(|one| one.max_retries);
        own.unwrap_or(self.max_retries)
    }
}

/// The longest namespace: what is left of the longest key behind `state.tasks.`, the longest type and id.
const NAMESPACE_LIMIT_BYTES: usize = 500;

/// The largest input or output that stands in a record, in bytes: many records are written together.
pub const INLINE_LIMIT_BYTES: usize = 1 << 20;

/// The longest lease or delay, in milliseconds: a hundred years.
pub(crate) const DURATION_LIMIT_MS: u64 = 100 * 365 * 86_400_000;

/// A duration in milliseconds, rounded up: whoever waits does so for at least as long.
pub(crate) fn duration_ms(duration: Duration, name: &str) -> Result<u64> {
    let ms = u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
    check_duration(ms, name).map(|()| ms)
}

/// Refuses a duration that is none or endless.
pub(crate) fn check_duration(ms: u64, name: &str) -> Result<()> {
    if (1..=DURATION_LIMIT_MS).contains(&ms) {
        return Ok(());
    }
    let message = format!("{name}: {ms} ms, where 1 ms to a hundred years make sense");
    Err(Error::new(Code::InvalidArgument, message))
}
