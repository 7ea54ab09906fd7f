//! `mainstay doctor`: the engine's doctor at the command line.

use crate::paper::{Paper, complain};
use mainstay::doctor::{self, Verdict};
use mainstay::{Error, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

const PROBLEM: u8 = 1;
const COULD_NOT_LOOK: u8 = 2;

/// Prints what is found; changes nothing.
pub fn look(directory: &Path, paper: &mut Paper) -> ExitCode {
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

/// Makes the database open again where that is possible, and prints what was done.
pub fn salvage(directory: &Path, paper: &mut Paper) -> ExitCode {
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
