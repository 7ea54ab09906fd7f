//! The stage: what all threads of a round share, and what they make of errors.

use super::super::call::Moments;
use super::subject::Hints;
use crate::drill::Outcome;
use mainstay::{Code, Error, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// How many cells are called.
pub const CELLS: usize = 16;
/// How many records are called.
pub const RECORDS: usize = 12;

/// What all threads share.
pub struct Stage {
    /// Time.
    pub moments: Moments,
    /// What was seen of cells.
    pub cells: Hints,
    /// What was seen of records.
    pub records: Hints,
    /// How many operations are still wanted.
    pub left: AtomicI64,
    /// Whether the database has to be opened again.
    pub is_broken: AtomicBool,
}

/// What an error says of the operation that it is the answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It did not happen.
    Nothing,
    /// It may have happened, or may happen still.
    Unknown,
}

impl Stage {
    /// A stage for so many operations.
    pub fn new(operations: u64) -> Stage {
        Stage {
            moments: Moments::default(),
            cells: Hints::new(CELLS),
            records: Hints::new(RECORDS),
            left: AtomicI64::new(i64::try_from(operations).unwrap_or(i64::MAX)),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Whether operations are still wanted.
    pub fn is_open(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Counts operations.
    pub fn count(&self, operations: usize) {
        self.left.fetch_sub(operations as i64, Ordering::Relaxed);
    }

    /// Judges an error; one that should not be is a violation itself.
    pub fn judge(&self, error: &Error) -> Outcome<Verdict> {
        match (error.kind(), error.code()) {
            (ErrorKind::Conflict, _) | (_, Code::DiskFull) => Ok(Verdict::Nothing),
            (_, Code::SyncFailed) => {
                self.is_broken.store(true, Ordering::SeqCst);
                Ok(Verdict::Nothing)
            }
            (ErrorKind::UnknownOutcome, _) => {
                self.is_broken.store(true, Ordering::SeqCst);
                Ok(Verdict::Unknown)
            }
            _ => Err(format!("an error that should not be: {error}")),
        }
    }
}
