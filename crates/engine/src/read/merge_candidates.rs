//! Merge candidates: names that a merge's source branch may have changed, collected in advance.
//!
//! ```text
//!   caller   walks the source's changes at a published revision; every thousand rows it adds the names
//!            written to the source meanwhile (recent writes)
//!   writer   adds the names written since, then merges
//! ```
//!
//! The walk takes time proportional to the size of the branches, but no writer waits for it. Its result
//! is valid for one source and one common ancestor. If the writer finds others, or if the recent writes
//! do not reach back to the end of the walk, it walks itself, as for a merge without candidates.

use crate::apply::candidates::Candidates;
use crate::apply::guards::CheckedRanges;
use crate::apply::three_way_diff::Comparison;
use crate::base::work::Budget;
use crate::commit::prepared::ReadAhead;
use crate::lifecycle::engine::EngineShared;
use crate::storage::index::NEWEST;
use mainstay_model::limits::TRANSACTION_LIMIT_COMMANDS;
use mainstay_model::{BranchCommand, Code, Command, Name, Result, Transaction};
use std::collections::BTreeSet;

/// The number of rows walked between two reads of the recent writes, which forget old writes.
pub const STEP_ROWS: usize = 1024;
/// The attempts of a walk that became invalid because another merge came first.
const TRIES: usize = 3;

impl EngineShared {
    /// Collects a merge's candidates and checks range guards before the writer runs.
    pub fn look_ahead(&self, transaction: &Transaction) -> ReadAhead {
        let merge = merge_of(transaction);
        ReadAhead {
            checked: self.checked(transaction),
            candidates: merge.and_then(|(from, into)| self.find(from, into).transpose()),
            prefetched: None,
        }
    }

    /// Checks range guards. `None` if the transaction has none, or if the writer has to check them
    /// itself.
    fn checked(&self, transaction: &Transaction) -> Option<CheckedRanges> {
        if !transaction.has_range_guards() {
            return None;
        }
        let (branch, upto) = {
            let catalog = self.state.catalog.read();
            let upto = self.sequencer.published();
            (
                transaction
                    .branch_id
                    .map_or_else(
                        || catalog.visible(&transaction.branch, upto).map(|branch| branch.id),
                        Ok,
                    )
                    .ok()?,
                upto,
            )
        };
        CheckedRanges::new(&transaction.guards, branch, &self.state.trail, upto).ok().flatten()
    }

    /// Returns `None` on any other error, because the writer reports it. A cancelled search does not
    /// continue in the writer.
    fn find(&self, from: &Name, into: &Name) -> Result<Option<Candidates>> {
        for _ in 0..TRIES {
            let found = match self.search(from, into) {
                Err(error) if error.code() == Code::Cancelled => return Err(error),
                found => found.ok().flatten(),
            };
            match found {
                Some(found) if self.still_fits(&found, from, into) => return Ok(Some(found)),
                // Another merge may be executed but not visible yet: the next walk begins after it.
                Some(_) => self.sequencer.settle(),
                None => break,
            }
        }
        Ok(None)
    }

    /// Walks the source's changes at the newest visible revision, then catches up to the revision that
    /// is newest by then.
    fn search(&self, from: &Name, into: &Name) -> Result<Option<Candidates>> {
        self.check_open()?;
        let (at, _pin, source, comparison) = {
            // In this order: while the catalog is not held, branches that readers no longer see may be
            // dropped from it.
            let catalog = self.state.catalog.read();
            let at = self.sequencer.published();
            let pin = self.pins.hold("merge", self.clock.monotonic_us(), at);
            let a = catalog.visible(from.as_str(), at)?.id;
            let b = catalog.visible(into.as_str(), at)?.id;
            (
                at,
                pin,
                a,
                Comparison::new(self.index(), &catalog, (a, at), (b, at), 0, Budget::Reader)?,
            )
        };
        let base = comparison.base;
        let names = BTreeSet::new();
        let mut found = Candidates { source, base, names, upto: at };
        for (row, name) in comparison.walk_a().enumerate() {
            found.names.extend(name?);
            if row % STEP_ROWS == 0 && self.catch_up(&mut found).is_none() {
                return Ok(None);
            }
            // The merge will be refused for its size, so collecting stops.
            if found.names.len() > TRANSACTION_LIMIT_COMMANDS {
                break;
            }
        }
        Ok(self.catch_up(&mut found).map(|()| found))
    }

    fn catch_up(&self, found: &mut Candidates) -> Option<()> {
        #[cfg(any(test, feature = "test-hooks"))]
        if let Some(searching) = self.searching.lock().as_mut() {
            searching();
        }
        found.catch_up(&self.state.trail, self.sequencer.published())
    }

    fn still_fits(&self, found: &Candidates, from: &Name, into: &Name) -> bool {
        let catalog = self.state.catalog.read();
        let (Ok(a), Ok(b)) = (catalog.live(from.as_str()), catalog.live(into.as_str())) else {
            return true;
        };
        found.source == a.id && found.base == catalog.merge_base((a.id, NEWEST), (b.id, NEWEST))
    }
}

/// Returns the branches of a merge, which is the only step of its transaction.
fn merge_of(transaction: &Transaction) -> Option<(&Name, &Name)> {
    match transaction.steps.as_slice() {
        [step] => match &step.command {
            Command::Branch(BranchCommand::Merge { from, into, .. }) => Some((from, into)),
            _ => None,
        },
        _ => None,
    }
}
