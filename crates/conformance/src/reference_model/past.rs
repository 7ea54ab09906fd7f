//! Version vector of a branch: up to which revision it contains the changes of other branches.
//!
//! ```text
//!   main ──o────────o──────────>   side: { main: 1 }, then from revision 5 on { main: 4 }
//!          │1       │4 merged
//!          └── side ┴─5────────>
//! ```

use mainstay_model::Revision;
use std::collections::BTreeMap;

/// Branches with the newest contained revision of each.
pub type Known = BTreeMap<u32, Revision>;

/// The history of a version vector: each entry is valid from its revision on.
#[derive(Clone, Debug, Default)]
pub struct Past(Vec<(Revision, Known)>);

impl Past {
    /// The version vector at a revision.
    pub fn at(&self, revision: Revision) -> Known {
        let known = self.0.iter().rev().find(|(since, _)| *since <= revision);
        known.map(|(_, known)| known.clone()).unwrap_or_default()
    }

    /// Merges another branch's version vector at a revision.
    pub fn learn(&mut self, revision: Revision, other: Known) {
        let mut known = self.at(revision);
        for (branch, upto) in other {
            let seen = known.entry(branch).or_default();
            *seen = upto.max(*seen);
        }
        self.0.push((revision, known));
    }
}

/// The newest revision that both vectors contain, among existing branches.
pub fn newest_shared(a: &Known, b: &Known, there: impl Fn(u32) -> bool) -> Option<(Revision, u32)> {
    let both = a.iter().filter_map(|(id, left)| b.get(id).map(|right| (*left.min(right), *id)));
    both.filter(|(_, id)| there(*id)).max()
}
