//! `mainstay doctor`: inspects or salvages a database from the command line.

use super::paper::{Paper, complain};
use clap::Args;
use mainstay::doctor::{self, Verdict};
use mainstay::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const PROBLEM: u8 = 1;
const COULD_NOT_LOOK: u8 = 2;

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
    pub fn run(&self, data: Option<PathBuf>, paper: &mut Paper) -> ExitCode {
        // clap checks relations between arguments before it sees a `--data` in front of the noun.
        let ((Some(directory), None) | (None, Some(directory))) = (self.directory.clone(), data)
        else {
            complain(
                "name one database, as `mainstay doctor DIRECTORY` or by `--data`: --help says more",
            );
            return ExitCode::from(COULD_NOT_LOOK);
        };
        if self.salvage { salvage(&directory, paper) } else { look(&directory, paper) }
    }
}

/// Prints the findings without changing anything.
fn look(directory: &Path, paper: &mut Paper) -> ExitCode {
    match doctor::inspect(directory) {
        Ok(report) => {
            paper.line(&report.to_string());
            match report.verdict {
                Verdict::Healthy => ExitCode::SUCCESS,
                _ => ExitCode::from(PROBLEM),
            }
        }
        Err(error) => failed(&error),
    }
}

/// Repairs the database so that it opens again, if possible, and prints the repairs.
fn salvage(directory: &Path, paper: &mut Paper) -> ExitCode {
    match doctor::salvage(directory) {
        Ok(report) => {
            paper.line(&report.to_string());
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> ExitCode {
    complain(&error.to_string());
    match error.kind() {
        ErrorKind::Corrupt => ExitCode::from(PROBLEM),
        _ => ExitCode::from(COULD_NOT_LOOK),
    }
}
