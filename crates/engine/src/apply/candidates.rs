//! Merge candidates: the names that the source of a merge may have changed.

use super::three_way_diff::{DiffItem, DiffPoint};
use crate::key::keyspace::{self, DATA};
use crate::mvcc::recent_writes::RecentWrites;
use mainstay_model::Revision;
use std::collections::BTreeSet;

/// Candidates are valid for one source branch and one common ancestor.
pub struct Candidates {
    pub source: u32,
    pub base: DiffPoint,
    pub names: BTreeSet<DiffItem>,
    /// The set covers all changes of the source up to this revision, or holds more names than a merge may
    /// have.
    pub upto: Revision,
}

impl Candidates {
    /// Returns all candidates in order. Returns `None` if they belong to another source or base, or if the
    /// recent writes do not reach back to `upto`.
    pub fn all(&self, source: u32, base: DiffPoint, trail: &RecentWrites) -> Option<Vec<DiffItem>> {
        if (self.source, self.base) != (source, base) {
            return None;
        }
        let mut later = written(trail, source, self.upto, Revision::MAX)?;
        later.extend(self.names.iter().cloned());
        Some(later.into_iter().collect())
    }

    /// Adds the names written to the source up to a revision. Returns `None` if the recent writes do not
    /// reach back.
    pub fn catch_up(&mut self, trail: &RecentWrites, upto: Revision) -> Option<()> {
        let mut later = written(trail, self.source, self.upto, upto)?;
        self.names.append(&mut later);
        self.upto = upto;
        Some(())
    }
}

/// Returns the names written to a branch after `since`, up to `upto`, or `None` if the recent writes do not
/// reach back.
fn written(
    trail: &RecentWrites,
    branch: u32,
    since: Revision,
    upto: Revision,
) -> Option<BTreeSet<DiffItem>> {
    let mut names = BTreeSet::new();
    trail.any_between(since, upto, |key| {
        let own = keyspace::split(key).filter(|(_, of, _)| *of == branch);
        let data = own.filter(|(space, ..)| DATA.contains(space));
        names.extend(data.map(|(space, _, name)| (space, name.to_vec())));
        false
    })?;
    Some(names)
}
