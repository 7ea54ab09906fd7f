//! Candidates of a merge: the names that its source may have changed.

use super::three_way_diff::{DiffItem, DiffPoint};
use crate::key::keyspace::{self, DATA};
use crate::mvcc::recent_writes::RecentWrites;
use mainstay_model::Revision;
use std::collections::BTreeSet;

/// They hold for one source and one common ancestor.
pub(crate) struct Candidates {
    pub source: u32,
    pub base: DiffPoint,
    pub names: BTreeSet<DiffItem>,
    /// Everything that the source changed up to here is in it, or more names than a merge may have.
    pub upto: Revision,
}

impl Candidates {
    /// All names, in order, if they are those of this source and base, and the trail knows the rest.
    pub fn all(&self, source: u32, base: DiffPoint, trail: &RecentWrites) -> Option<Vec<DiffItem>> {
        if (self.source, self.base) != (source, base) {
            return None;
        }
        let mut later = written(trail, source, self.upto, Revision::MAX)?;
        later.extend(self.names.iter().cloned());
        Some(later.into_iter().collect())
    }

    /// Adds what was written to the source up to a revision; nothing if the trail does not reach back.
    pub fn catch_up(&mut self, trail: &RecentWrites, upto: Revision) -> Option<()> {
        let mut later = written(trail, self.source, self.upto, upto)?;
        self.names.append(&mut later);
        self.upto = upto;
        Some(())
    }
}

/// The names written to a branch after one revision, up to another, if the trail reaches back.
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
