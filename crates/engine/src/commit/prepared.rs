//! Transactions on their way to the writer, with the work that was done for them in advance.

use crate::apply::candidates::Candidates;
use crate::apply::guards::CheckedRanges;
use crate::commit::prefetched::Prefetched;
use mainstay_model::{Result, Transaction};

/// A transaction for the writer, with the reads that were made in advance.
pub struct PreparedTransaction {
    pub transaction: Transaction,
    /// `None` for most transactions, which are short.
    pub ahead: Option<Box<ReadAhead>>,
}

/// The work that was done for a transaction before it went to the writer.
#[derive(Default)]
pub struct ReadAhead {
    /// The range guards, if they were checked in advance.
    pub checked: Option<CheckedRanges>,
    /// The names that a merge's source branch may have changed, or the error that stopped the search
    /// for them.
    pub candidates: Option<Result<Candidates>>,
    /// Long reads that were made in advance.
    pub prefetched: Option<Prefetched>,
}

impl From<Transaction> for PreparedTransaction {
    fn from(transaction: Transaction) -> PreparedTransaction {
        PreparedTransaction { transaction, ahead: None }
    }
}

impl PreparedTransaction {
    pub fn new(transaction: Transaction, ahead: ReadAhead) -> PreparedTransaction {
        let ReadAhead { checked, candidates, prefetched } = &ahead;
        let is_empty = checked.is_none() && candidates.is_none() && prefetched.is_none();
        PreparedTransaction { transaction, ahead: (!is_empty).then(|| Box::new(ahead)) }
    }

    pub fn checked(&self) -> Option<&CheckedRanges> {
        self.ahead.as_deref()?.checked.as_ref()
    }

    pub fn candidates(&self) -> Option<&Result<Candidates>> {
        self.ahead.as_deref()?.candidates.as_ref()
    }

    pub fn prefetched(&self) -> Option<&Prefetched> {
        self.ahead.as_deref()?.prefetched.as_ref()
    }
}
