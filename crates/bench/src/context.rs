//! What every case needs to know: how long, how big, where, and where its figures go.

use crate::args::Args;
use crate::harness::Pace;
use crate::report::Report;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// A result whose error is only ever printed.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// One run of one bench.
pub struct Context {
    args: Args,
    scratch: TempDir,
    /// The figures so far.
    pub report: Report,
}

impl Context {
    /// Prepares a run; its files live in a directory that goes when the run ends.
    pub fn new(bench: &'static str, args: Args) -> Outcome<Context> {
        Ok(Context { args, scratch: scratch()?, report: Report::new(bench) })
    }

    /// Whether the user asked for this case.
    pub fn wants(&self, case: &str) -> bool {
        self.args.only.as_deref().is_none_or(|only| case.contains(only))
    }

    /// A tenth of the size where size matters.
    pub fn sized(&self, full: usize) -> usize {
        self.either(full, full / 10)
    }

    /// One size for a full run, another one where it is to be quick.
    pub fn either(&self, full: usize, quick: usize) -> usize {
        if self.args.quick { quick } else { full }
    }

    /// The pace of a comparison on the disk that has to reach a bar.
    ///
    /// The disk swings between one second and the next, so slices are short and rounds are many.
    pub fn disk_bar(&self) -> Pace {
        self.pace(1, if self.args.quick { 7 } else { 15 })
    }

    /// The pace of a comparison of processor work that has to reach a bar.
    pub fn processor_bar(&self) -> Pace {
        self.pace(2, if self.args.quick { 7 } else { 15 })
    }

    /// The pace of a comparison that is only shown.
    pub fn shown(&self) -> Pace {
        self.pace(7, 5)
    }

    /// The pace of a comparison that is only shown and needs no sync.
    pub fn shown_unsynced(&self) -> Pace {
        self.pace(14, 5)
    }

    /// The pace of a comparison of servers that has to reach a bar.
    ///
    /// A slice of theirs begins with a process and its connections, so it is longer and rounds are fewer.
    pub fn process_bar(&self) -> Pace {
        let (rounds, seconds) = if self.args.quick { (5, 3.0) } else { (11, 8.0) };
        let total = Duration::from_secs_f64(self.args.seconds.unwrap_or(seconds));
        Pace { rounds, total }
    }

    /// The pace of a comparison of servers that is only shown.
    pub fn process_shown(&self) -> Pace {
        Pace { rounds: 5, total: self.process_bar().total * 2 / 5 }
    }

    /// A part of the time that a comparison on the disk takes.
    fn pace(&self, part: u32, rounds: usize) -> Pace {
        let whole = self.args.seconds.unwrap_or(if self.args.quick { 1.8 } else { 8.0 });
        Pace { rounds, total: Duration::from_secs_f64(whole) / part }
    }

    /// A fresh directory inside the run's own.
    pub fn directory(&self, name: &str) -> Outcome<TempDir> {
        let prefix = format!("{name}-");
        Ok(tempfile::Builder::new().prefix(&prefix).tempdir_in(self.scratch.path())?)
    }
}

/// Prefers `target/`: the system's directory may be memory, where a sync costs nothing.
fn scratch() -> Outcome<TempDir> {
    let target = PathBuf::from("target");
    let parent = match std::fs::create_dir_all(&target) {
        Ok(()) => target.canonicalize()?,
        Err(_) => std::env::temp_dir(),
    };
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(parent)?)
}

/// A count as people write it: `10M`, `100k`, `10`.
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
