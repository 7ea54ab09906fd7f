//! The command line, parsed by hand: four flags need no library.

use crate::context::Outcome;
use std::path::PathBuf;

/// What `--help` prints.
pub const USAGE: &str = "\
bench engine [--seconds n] [--quick] [--json file] [--only substring]

  --seconds n       measure each comparison that has a bar for n seconds (default 8)
  --quick           every figure within 50 seconds, at a tenth of the size where size matters
  --json file       write the figures as an array of
                    {bench, case, unit, ours, peer_name, peer, ratio, must, sense}
  --only substring  run only the cases whose name holds this";

/// What this process was asked to do.
#[derive(Debug, PartialEq)]
pub enum Task {
    /// Print the usage.
    Help,
    /// Measure the engine.
    Engine(Args),
    /// A child that writes cells until its parent kills it.
    WriteUntilKilled {
        /// Where its database is.
        directory: PathBuf,
        /// How many cells it makes durable before it says so.
        cells: u64,
    },
    /// A child that writes cells and reports the most memory it held.
    MeasureMemory {
        /// Where its database is.
        directory: PathBuf,
        /// How many cells it writes.
        cells: u64,
    },
}

/// The flags of a bench.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args {
    /// Measured seconds per comparison with a bar.
    pub seconds: Option<f64>,
    /// Smaller and shorter.
    pub quick: bool,
    /// Where the figures go.
    pub json: Option<PathBuf>,
    /// Only the cases whose name holds this.
    pub only: Option<String>,
}

/// The child that writes until it is killed; not for users.
pub const WRITE_UNTIL_KILLED: &str = "child-write-until-killed";
/// The child that measures its memory; not for users.
pub const MEASURE_MEMORY: &str = "child-measure-memory";

/// Reads the words after the program's name.
pub fn parse(mut words: impl Iterator<Item = String>) -> Outcome<Task> {
    match words.next().as_deref() {
        Some("engine") => flags(words),
        Some("--help" | "-h") | None => Ok(Task::Help),
        Some(WRITE_UNTIL_KILLED) => {
            let (directory, cells) = child(words)?;
            Ok(Task::WriteUntilKilled { directory, cells })
        }
        Some(MEASURE_MEMORY) => {
            let (directory, cells) = child(words)?;
            Ok(Task::MeasureMemory { directory, cells })
        }
        Some(other) => Err(format!("there is no bench `{other}`\n\n{USAGE}").into()),
    }
}

fn flags(mut words: impl Iterator<Item = String>) -> Outcome<Task> {
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
    Ok(Task::Engine(args))
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
        assert_eq!(task("").unwrap(), Task::Help);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["server", "engine --fast", "engine --json", "engine --seconds 0"] {
            assert!(task(line).is_err(), "{line}");
        }
        assert!(task("engine --seconds NaN").is_err());
        assert!(task("child-measure-memory /somewhere many").is_err());
    }
}
