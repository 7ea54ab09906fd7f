//! Shared context of the cases: durations, sizes, directories and the report.

use crate::args::Args;
use crate::harness::Pace;
use crate::report::Report;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// A result whose error is only printed.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// One run of one benchmark.
pub struct Context {
    args: Args,
    scratch: TempDir,
    /// The figures so far.
    pub report: Report,
}

impl Context {
    /// Prepares a run. Its files are in a temporary directory that is removed when the run ends.
    pub fn new(bench: &'static str, args: Args) -> Outcome<Context> {
        Ok(Context { args, scratch: scratch()?, report: Report::new(bench) })
    }

    /// Returns whether the user selected this case.
    pub fn wants(&self, case: &str) -> bool {
        self.args.only.as_deref().is_none_or(|only| case.contains(only))
    }

    /// The full size, or a tenth of it for a quick run.
    pub fn sized(&self, full: usize) -> usize {
        self.either(full, full / 10)
    }

    /// One size for a full run, and another one for a quick run.
    pub fn either(&self, full: usize, quick: usize) -> usize {
        if self.args.quick { quick } else { full }
    }

    /// The pace of a disk-bound comparison with a target.
    ///
    /// Disk speed varies from second to second, so slices are short and rounds are many.
    pub fn disk_bar(&self) -> Pace {
        self.pace(1, if self.args.quick { 7 } else { 15 })
    }

    /// The pace of a CPU-bound comparison with a target.
    pub fn processor_bar(&self) -> Pace {
        self.pace(2, if self.args.quick { 7 } else { 15 })
    }

    /// The pace of a comparison without a target.
    pub fn shown(&self) -> Pace {
        self.pace(7, 5)
    }

    /// The pace of a comparison without a target and without fsyncs.
    pub fn shown_unsynced(&self) -> Pace {
        self.pace(14, 5)
    }

    /// The pace of a server comparison with a target.
    ///
    /// A slice starts a process and its connections, so slices are longer and rounds are fewer.
    pub fn process_bar(&self) -> Pace {
        let (rounds, seconds) = if self.args.quick { (5, 3.0) } else { (11, 8.0) };
        let total = Duration::from_secs_f64(self.args.seconds.unwrap_or(seconds));
        Pace { rounds, total }
    }

    /// The pace of a server comparison without a target.
    pub fn process_shown(&self) -> Pace {
        Pace { rounds: 5, total: self.process_bar().total * 2 / 5 }
    }

    /// A fraction of the duration of a disk-bound comparison.
    fn pace(&self, part: u32, rounds: usize) -> Pace {
        let whole = self.args.seconds.unwrap_or(if self.args.quick { 1.8 } else { 8.0 });
        Pace { rounds, total: Duration::from_secs_f64(whole) / part }
    }

    /// Creates a new directory inside the run's own.
    pub fn directory(&self, name: &str) -> Outcome<TempDir> {
        let prefix = format!("{name}-");
        Ok(tempfile::Builder::new().prefix(&prefix).tempdir_in(self.scratch.path())?)
    }
}

/// Prefers `target/`, because the system's temporary directory may be in memory, where an fsync costs
/// nothing.
fn scratch() -> Outcome<TempDir> {
    let target = PathBuf::from("target");
    let parent = match std::fs::create_dir_all(&target) {
        Ok(()) => target.canonicalize()?,
        Err(_) => std::env::temp_dir(),
    };
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(parent)?)
}

/// A short form of a count: `10M`, `100k`, `10`.
pub fn short_count(n: usize) -> String {
    match n {
        _ if n >= 1_000_000 && n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        _ if n >= 1_000 && n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        _ => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        let shown: Vec<String> = [10, 100_000, 10_000_000, 1_500].map(short_count).to_vec();
        assert_eq!(shown, ["10", "100k", "10M", "1500"]);
    }

    #[test]
    fn the_scratch_directory_goes_with_the_run() {
        let context = Context::new("engine", Args::default()).unwrap();
        let inner = context.directory("case").unwrap().keep();
        assert!(inner.exists());
        drop(context);
        assert!(!inner.exists());
    }
}
