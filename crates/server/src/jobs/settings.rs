//! The table `[jobs]`: settings of jobs and locks.

use super::objects::Directory;
use crate::config::settings::settings;
use mainstay::{Code, Error, Result};
use mainstay_jobs as jobs;
use object_store::ObjectStore;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;
const YEARS_MS: u64 = 36_500 * DAY_MS;

settings! {
    /// Jobs and locks.
    pub struct Settings {
        /// What the keys of all jobs and locks begin with: jobs are records under it and
        /// `state.tasks.`, locks under it and `state.locks.`.
        pub namespace: String = "mainstay.".to_owned();
        /// Whether `KEYS`, `SCAN`, `DBSIZE` and `RANDOMKEY` show jobs and locks, and `FLUSHDB` deletes them.
        pub shown_as_keys: bool = false;
        /// How long a worker may be silent, unless its claim, the job or its type says otherwise.
        pub timeout_ms: u64 = 30_000, 1..=YEARS_MS;
        /// How often a job is tried again, unless it or its type says otherwise.
        pub max_retries: u32 = 3, 0..=1_000_000;
        /// Held jobs that nobody has written to for this long are stuck, whatever their lease says;
        /// "none": the lease decides.
        pub stuck_after_ms: Option<u64> = None, 1..=YEARS_MS;
        /// How long a completed job stays; "none": for good.
        pub keep_completed_ms: Option<u64> = None, 1..=YEARS_MS;
        /// How long a failed or cancelled job stays that nobody waits for; "none": for good.
        pub keep_failed_ms: Option<u64> = None, 1..=YEARS_MS;
        /// Whether jobs are claimed on other branches than "main" too, and there only those that were written since the
        /// branch was forked. Without it, what is submitted on a branch is claimed when it has been merged.
        pub serve_branches: bool = false;
        /// Input and output up to this size stand in the job's record; larger ones in objects_directory.
        pub inline_limit_bytes: usize = 64 << 10, 0..=jobs::INLINE_LIMIT_BYTES as u64;
        /// Where larger input and output is kept, a file for each; "none": it is refused.
        pub objects_directory: Option<PathBuf> = None;
        /// How often jobs are taken away from workers that have fallen silent; "none": only when
        /// somebody asks for it. Where no job was ever submitted, nothing is looked for.
        pub sweep_interval_ms: Option<u64> = Some(1_000), 1..=DAY_MS;
        /// What differs for some types.
        pub types: Vec<TypeSettings> = Vec::new();
    }
}

settings! {
    /// What differs for a type of jobs; the table stands once for each.
    pub struct TypeSettings {
        /// Which type it is.
        pub name: String = String::new();
        /// How long a worker may be silent; "none": as all others.
        pub timeout_ms: Option<u64> = None, 1..=YEARS_MS;
        /// How often a job is tried again; "none": as all others.
        pub max_retries: Option<u32> = None, 0..=1_000_000;
    }
}

impl Settings {
    /// Checks what types and bounds of single settings cannot express.
    pub fn check(&self) -> Result<()> {
        let types = self.types.iter().map(|one| one.name.as_str());
        if types.clone().count() > types.collect::<BTreeSet<_>>().len() {
            return Err(wrong("a type stands twice in jobs.types: once is enough".to_owned()));
        }
        self.of_jobs().check()
    }

    /// Converts the settings to those of the jobs library.
    pub fn of_jobs(&self) -> jobs::Settings {
        jobs::Settings {
            namespace: self.namespace.clone(),
            timeout_ms: self.timeout_ms,
            max_retries: self.max_retries,
            inline_limit_bytes: self.inline_limit_bytes,
            stuck_after_ms: self.stuck_after_ms,
            keep_completed_ms: self.keep_completed_ms,
            keep_failed_ms: self.keep_failed_ms,
            serve: if self.serve_branches {
                jobs::ServedBranches::AllBranches
            } else {
                jobs::ServedBranches::Main
            },
            types: self.types.iter().map(|one| (one.name.clone(), one.of_type())).collect(),
        }
    }

    /// Opens the store for large input and output, if one is configured.
    pub fn objects(&self) -> Result<Option<Arc<dyn ObjectStore>>> {
        self.objects_directory
            .as_ref()
            .map(|at| Ok(Arc::new(Directory::open(at)?) as Arc<dyn ObjectStore>))
            .transpose()
    }
}

impl TypeSettings {
    fn of_type(&self) -> jobs::TypeSettings {
        jobs::TypeSettings { timeout_ms: self.timeout_ms, max_retries: self.max_retries }
    }
}

#[cold]
fn wrong(message: String) -> Error {
    Error::new(Code::InvalidOption, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> TypeSettings {
        TypeSettings { name: name.to_owned(), ..TypeSettings::default() }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_opened() {
        let default = Settings::default();
        assert!(default.check().is_ok());
        assert_eq!(default.of_jobs(), jobs::Settings::default(), "the same as in the library");
        let types = vec![named("a"), named("b")];
        assert!(Settings { types, ..default.clone() }.check().is_ok());
        for wrong in [
            Settings { namespace: "_mainstay/".to_owned(), ..default.clone() },
            Settings { namespace: "x".repeat(501), ..default.clone() },
            Settings { types: vec![named("a"), named("a")], ..default.clone() },
            Settings { types: vec![named("a.b")], ..default.clone() },
            Settings { types: vec![named("")], ..default.clone() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
