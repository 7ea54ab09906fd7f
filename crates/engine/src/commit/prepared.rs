//! Transactions on their way to the writer.

use crate::apply::candidates::Candidates;
use crate::apply::guards::CheckedRanges;
use crate::commit::prefetched::Prefetched;
use mainstay_model::{Result, Transaction};

/// A transaction for the writer, with the reads that were made before.
pub(crate) struct PreparedTransaction {
    pub transaction: Transaction,
    /// Nothing for most: they are short.
    pub ahead: Option<Box<ReadAhead>>,
}

/// The work for a transaction that was done before it went to the writer.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// The range guards, where they were checked before.
    pub checked: Option<CheckedRanges>,
    /// The names that the source of a merge may have changed, or the error that stopped the search for them.
    pub candidates: Option<Result<Candidates>>,
    /// Long reads that were made before.
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
