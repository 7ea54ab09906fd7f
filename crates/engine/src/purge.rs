//! What compaction may drop besides shadowed versions.
//!
//! - Deletions on `main` and in the system spaces hide nothing below them.
//! - Keys of a deleted branch are needed by nobody.
//!
//! Both go only once their revision is below the floor of their class.

use crate::catalog::Catalog;
use crate::entry::DELETED;
use crate::spaces::{self, MAIN_ID};
use crate::store::Purge;
use mainstay_model::Revision;
use parking_lot::RwLock;
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Purger {
    /// The numbers of deleted branches.
    dropped: RwLock<HashSet<u32>>,
}

impl Purger {
    /// Takes note of branches that were deleted before all floors: no reader can look at them any
    /// more, and their numbers are never used again.
    pub fn learn(&self, catalog: &Catalog, floor: Revision) {
        let gone = |deleted: Option<Revision>| deleted.is_some_and(|deleted| deleted <= floor);
        let deleted = catalog.branches().filter(|branch| gone(branch.deleted));
        *self.dropped.write() = deleted.map(|branch| branch.id).collect();
    }

    /// The rule as stores want it.
    pub fn rule(self: &Arc<Purger>) -> Purge {
        let purger = self.clone();
        Arc::new(move |key, entry| purger.may_go(key, entry))
    }

    fn may_go(&self, key: &[u8], entry: &[u8]) -> bool {
        let Some((space, branch, name)) = spaces::split(key) else { return false };
        let deleted = entry.first().is_some_and(|flags| flags & DELETED != 0);
        // A marker of an expiry names the key that expires behind its time.
        let marked = name.get(8..).and_then(spaces::split).map(|(_, branch, _)| branch);
        match space {
            spaces::EXPIRIES => deleted || marked.is_none_or(|branch| self.is_dropped(branch)),
            _ if spaces::is_system(space) || branch == MAIN_ID => deleted,
            _ => self.is_dropped(branch),
        }
    }

    fn is_dropped(&self, branch: u32) -> bool {
        self.dropped.read().contains(&branch)
    }
}
