//! Command line parsing, by hand: four flags need no library.

use crate::context::Outcome;
use mainstay::Durability;
use std::path::PathBuf;

/// The help text.
pub const USAGE: &str = "\
bench engine [--seconds n] [--quick] [--json file] [--only substring]
bench server [--seconds n] [--quick] [--json file] [--only substring]
bench records [--seconds n] [--quick] [--json file] [--only substring]
bench runs [--seconds n] [--quick] [--json file] [--only substring]
bench keyed [--seconds n] [--quick] [--json file] [--only substring]
bench sessions [--seconds n] [--quick] [--json file] [--only substring]

engine: the library beside a bare log, fjall, redb and papaya.
server: the server beside Redis; redis-server and redis-benchmark have to be installed.
records: records beside hashes of Redis.
runs: runs beside a table of events in PostgreSQL, where that is installed (apt-get install postgresql-15).
keyed: keyed state beside the store in memory, fjall and a map that is written as JSON.
sessions: transactions with sessions beside the same without, and retries beside reads.

  --seconds n       measure each comparison that has a bar for n seconds (default 8)
  --quick           every figure within 50 seconds, at a tenth of the size where size matters
  --json file       write the figures as an array of
                    {bench, case, unit, ours, peer_name, peer, ratio, must, sense}
  --only substring  run only the cases whose name holds this";

/// The task of this process.
#[derive(Debug, PartialEq)]
pub enum Task {
    Help,
    /// Benchmark the engine.
    Engine(Args),
    /// Benchmark the server.
    Server(Args),
    /// Benchmark records.
    Records(Args),
    /// Benchmark runs.
    Runs(Args),
    /// Benchmark keyed state.
    Keyed(Args),
    /// Benchmark sessions.
    Sessions(Args),
    /// Child process that writes cells until its parent kills it.
    WriteUntilKilled {
        /// Database directory.
        directory: PathBuf,
        /// Number of cells to make durable before it reports.
        cells: u64,
    },
    /// Child process that writes cells and reports its peak memory.
    MeasureMemory {
        /// Database directory.
        directory: PathBuf,
        /// Number of cells to write.
        cells: u64,
    },
    /// Child process that serves until its parent stops it.
    Serve {
        /// Database directory.
        directory: PathBuf,
        /// RESP port.
        port: u16,
        /// Durability of a write before it is answered.
        durability: Durability,
    },
}

/// Command line flags of a benchmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args {
    /// Measured time per comparison with a target, in seconds.
    pub seconds: Option<f64>,
    /// Smaller data and shorter runs.
    pub quick: bool,
    /// Output file for the figures.
    pub json: Option<PathBuf>,
    /// Run only the cases whose name contains this text.
    pub only: Option<String>,
}

/// Internal argument: the child that writes until it is killed.
pub const WRITE_UNTIL_KILLED: &str = "child-write-until-killed";
/// Internal argument: the child that measures its memory.
pub const MEASURE_MEMORY: &str = "child-measure-memory";
/// Internal argument: the child that runs our server.
pub const SERVE: &str = "child-serve";

/// Parses the arguments after the program name.
pub fn parse(mut words: impl Iterator<Item = String>) -> Outcome<Task> {
    match words.next().as_deref() {
        Some("engine") => flags(words, Task::Engine),
        Some("server") => flags(words, Task::Server),
        Some("records") => flags(words, Task::Records),
        Some("runs") => flags(words, Task::Runs),
        Some("keyed") => flags(words, Task::Keyed),
        Some("sessions") => flags(words, Task::Sessions),
        Some("--help" | "-h") | None => Ok(Task::Help),
        Some(WRITE_UNTIL_KILLED) => {
            let (directory, cells) = child(words)?;
            Ok(Task::WriteUntilKilled { directory, cells })
        }
        Some(MEASURE_MEMORY) => {
            let (directory, cells) = child(words)?;
            Ok(Task::MeasureMemory { directory, cells })
        }
        Some(SERVE) => serve(words),
        Some(other) => Err(format!("there is no bench `{other}`\n\n{USAGE}").into()),
    }
}

fn flags(mut words: impl Iterator<Item = String>, bench: fn(Args) -> Task) -> Outcome<Task> {
    let mut args = Args::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "--quick" => args.quick = true,
            "--seconds" => args.seconds = Some(seconds(&value()?)?),
            "--json" => args.json = Some(PathBuf::from(value()?)),
            "--only" => args.only = Some(value()?),
            "--help" | "-h" => return Ok(Task::Help),
            _ => return Err(format!("unknown argument `{word}`\n\n{USAGE}").into()),
        }
    }
    Ok(bench(args))
}

fn seconds(text: &str) -> Outcome<f64> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds > 0.0 => Ok(seconds),
        _ => Err(format!("`--seconds {text}`: give a number above zero").into()),
    }
}

fn child(mut words: impl Iterator<Item = String>) -> Outcome<(PathBuf, u64)> {
    let directory = words.next().ok_or("the child process needs a directory")?;
    let cells = words.next().ok_or("the child process needs a number of cells")?;
    Ok((PathBuf::from(directory), cells.parse()?))
}

fn serve(mut words: impl Iterator<Item = String>) -> Outcome<Task> {
    let directory = words.next().ok_or("the serving child needs a directory")?;
    let port = words.next().ok_or("the serving child needs a port")?.parse()?;
    let durability = match words.next().as_deref() {
        Some("sync") => Durability::Sync,
        Some("interval") => Durability::Interval,
        _ => return Err("the serving child needs a durability: sync or interval".into()),
    };
    Ok(Task::Serve { directory: PathBuf::from(directory), port, durability })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(line: &str) -> Outcome<Task> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn all_flags_are_read() {
        let expected = Args {
            seconds: Some(2.5),
            quick: true,
            json: Some(PathBuf::from("out.json")),
            only: Some("set".to_string()),
        };
        let line = "engine --seconds 2.5 --quick --json out.json --only set";
        assert_eq!(task(line).unwrap(), Task::Engine(expected));
        assert_eq!(task("engine").unwrap(), Task::Engine(Args::default()));
        assert_eq!(task("server").unwrap(), Task::Server(Args::default()));
        assert_eq!(task("runs").unwrap(), Task::Runs(Args::default()));
        assert_eq!(task("server --help").unwrap(), Task::Help);
        assert_eq!(task("").unwrap(), Task::Help);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["serve", "engine --fast", "engine --json", "engine --seconds 0"] {
            assert!(task(line).is_err(), "{line}");
        }
        assert!(task("engine --seconds NaN").is_err());
        assert!(task("child-measure-memory /somewhere many").is_err());
        assert!(task("child-serve /somewhere 7379 perhaps").is_err());
        assert!(task("child-serve /somewhere 70000 sync").is_err());
    }

    #[test]
    fn the_serving_child_is_told_everything() {
        let directory = PathBuf::from("/somewhere");
        let port = 7379;
        let serve = |durability| Task::Serve { directory: directory.clone(), port, durability };
        let line = |word: &str| task(&format!("child-serve /somewhere 7379 {word}")).unwrap();
        assert_eq!(line("sync"), serve(Durability::Sync));
        assert_eq!(line("interval"), serve(Durability::Interval));
    }
}
