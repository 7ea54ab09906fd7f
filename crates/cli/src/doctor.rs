//! `mainstay doctor`: inspects or salvages a database from the command line.

use super::console::{print_error, print_line};
use clap::Args;
use mainstay::doctor::{self, Verdict};
use mainstay::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const PROBLEM: u8 = 1;
const NOT_INSPECTED: u8 = 2;

/// Looking at a database, or salvaging it.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 healthy or salvaged; 1 a problem was found; 2 it could not look."
)]
pub struct Doctor {
    /// The directory of the database; `--data` says the same
    directory: Option<PathBuf>,
    /// Make a damaged database open again; deletes nothing
    #[arg(long)]
    salvage: bool,
}

impl Doctor {
    /// Inspects or salvages a database. `data` is its directory if that is not an argument.
    pub fn run(&self, data: Option<PathBuf>) -> ExitCode {
        // clap checks relations between arguments before it sees a `--data` in front of the noun.
        let ((Some(directory), None) | (None, Some(directory))) = (self.directory.clone(), data)
        else {
            print_error(
                "name one database, as `mainstay doctor DIRECTORY` or by `--data`: --help says more",
            );
            return ExitCode::from(NOT_INSPECTED);
        };
        if self.salvage { salvage(&directory) } else { inspect(&directory) }
    }
}

/// Prints the findings without changing anything.
fn inspect(directory: &Path) -> ExitCode {
    match doctor::inspect(directory) {
        Ok(report) => {
            print_line(&report.to_string());
            match report.verdict {
                Verdict::Healthy => ExitCode::SUCCESS,
                _ => ExitCode::from(PROBLEM),
            }
        }
        Err(error) => report_failure(&error),
    }
}

/// Repairs the database so that it opens again, if possible, and prints the repairs.
fn salvage(directory: &Path) -> ExitCode {
    match doctor::salvage(directory) {
        Ok(report) => {
            print_line(&report.to_string());
            ExitCode::SUCCESS
        }
        Err(error) => report_failure(&error),
    }
}

/// Prints an error and returns the exit code for it.
fn report_failure(error: &Error) -> ExitCode {
    print_error(&error.to_string());
    match error.kind() {
        ErrorKind::Corrupt => ExitCode::from(PROBLEM),
        _ => ExitCode::from(NOT_INSPECTED),
    }
}
