//! The state that all threads of a round share, and the classification of errors.

use super::super::call::Moments;
use super::subject::Hints;
use crate::drill::Outcome;
use mainstay::{Code, Error, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The number of cells.
pub const CELLS: usize = 16;
/// The number of records.
pub const RECORDS: usize = 12;

/// The state that all threads share.
pub struct Stage {
    /// The logical clock.
    pub moments: Moments,
    /// The last observations of cells.
    pub cells: Hints,
    /// The last observations of records.
    pub records: Hints,
    /// The number of operations still to do.
    pub left: AtomicI64,
    /// Whether the database must be reopened.
    pub is_broken: AtomicBool,
}

/// The meaning of an error for the operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The operation did not happen.
    Nothing,
    /// The operation may have happened, or may still happen.
    Unknown,
}

impl Stage {
    /// A stage for this many operations.
    pub fn new(operations: u64) -> Stage {
        Stage {
            moments: Moments::default(),
            cells: Hints::new(CELLS),
            records: Hints::new(RECORDS),
            left: AtomicI64::new(i64::try_from(operations).unwrap_or(i64::MAX)),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Returns whether operations remain to be done.
    pub fn is_open(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Counts operations as done.
    pub fn count(&self, operations: usize) {
        self.left.fetch_sub(operations as i64, Ordering::Relaxed);
    }

    /// Classifies an error. An unexpected one is a violation.
    pub fn judge(&self, error: &Error) -> Outcome<Verdict> {
        match (error.kind(), error.code()) {
            (ErrorKind::Conflict, _) | (_, Code::DiskFull) => Ok(Verdict::Nothing),
            (_, Code::SyncFailed) => {
                // SeqCst for simplicity: a thread that sees the flag late only runs some more
                // operations.
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
