//! The retention rule as a compaction filter of lsm-tree.
//!
//! Why a compaction into the last level may purge, according to the source of lsm-tree 3.1.10:
//!
//! A compaction shows its filter all versions in its input tables, by key ascending and number
//! descending. Purging `k` at `r` resurrects something only if an older version of `k` lies in a
//! table outside the input. Call level 0 the top and level 6 the bottom.
//!
//! 1. *Nothing above is older.* Tables enter at the top, in order of ingestion, and the versions
//!    of a key come in order. They move down only into places where nothing older than them is
//!    passed: level 0 goes as a whole into the first level below it that holds data (or one above
//!    that), a level goes into the next. So what lies above the input, and what is ingested
//!    while the compaction runs, holds only newer versions of `k`. (A version ingested again
//!    after a crash is above the floor of any compaction before, and purges stay below it.)
//! 2. *Nothing beside is older.* A level below 0 is one run of tables with disjoint keys, and the
//!    versions of a key are never split over two tables of a run. A compaction of level 0 into
//!    level 6 takes all of level 0 and every table of level 6 that overlaps the key range of it.
//!    A compaction of level 5 into level 6 takes neighbouring tables of level 6 and only tables
//!    of level 5 that lie within their range. A major compaction takes everything. In each case a
//!    key in the input has all its versions of these levels in the input.
//! 3. *Nothing below exists* under the last level.
//!
//! It rests on one compaction running at a time, which `DiskStore` makes sure of, and on the
//! exact version of lsm-tree, which the workspace pins.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};

use super::Purge;
use super::early_sync::EarlySync;
use super::retention_rule::RetentionRule;

/// Creates one retention rule per compaction, with the floor at the start of the compaction.
pub(super) struct RetentionFilterFactory {
    pub(super) floor: Arc<AtomicU64>,
    /// The purge rule modifies nothing, so a panic cannot leave it inconsistent.
    pub(super) purge: AssertUnwindSafe<Purge>,
    /// After a panic, its list of tables is still correct.
    pub(super) early_sync: AssertUnwindSafe<EarlySync>,
}

impl Factory for RetentionFilterFactory {
    fn name(&self) -> &str {
        "retention"
    }

    fn make_filter(&self, context: &Context) -> Box<dyn CompactionFilter> {
        // Pairs with the `Release` store in `DiskStore::compact_once`.
        let floor = self.floor.load(Ordering::Acquire);
        let purge = context.is_last_level.then(|| (*self.purge).clone());
        let early_sync = (*self.early_sync).clone();
        Box::new(RetentionFilter { sieve: RetentionRule::new(floor, purge), early_sync })
    }
}

struct RetentionFilter {
    sieve: RetentionRule,
    early_sync: EarlySync,
}

impl CompactionFilter for RetentionFilter {
    fn filter_item(
        &mut self,
        item: ItemAccessor<'_>,
        _context: &Context,
    ) -> lsm_tree::Result<Verdict> {
        let entry = item.value()?;
        if !self.sieve.keep(item.key(), &entry) {
            return Ok(Verdict::Destroy);
        }
        self.early_sync.add(item.key().len() + entry.len())?;
        Ok(Verdict::Keep)
    }
}
