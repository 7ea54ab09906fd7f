//! What a branch knows of others: up to which revision their changes are in it.
//!
//! ```text
//!   main ──o────────o──────────>   side: { main: 1 }, then from revision 5 on { main: 4 }
//!          │1       │4 merged
//!          └── side ┴─5────────>
//! ```

use mainstay_model::Revision;
use std::collections::BTreeMap;

/// Branches, each with the newest revision of it that is known.
pub type Known = BTreeMap<u32, Revision>;

/// What was known, from each of these revisions on.
#[derive(Clone, Debug, Default)]
pub struct Past(Vec<(Revision, Known)>);

impl Past {
    /// What was known at a revision.
    pub fn at(&self, revision: Revision) -> Known {
        let known = self.0.iter().rev().find(|(since, _)| *since <= revision);
        known.map(|(_, known)| known.clone()).unwrap_or_default()
    }

    /// Learns at a revision what another branch knew.
    pub fn learn(&mut self, revision: Revision, other: Known) {
        let mut known = self.at(revision);
        for (branch, upto) in other {
            let seen = known.entry(branch).or_default();
            *seen = upto.max(*seen);
        }
        self.0.push((revision, known));
    }
}

/// The newest point that both know, of the branches that are there.
pub fn newest_shared(a: &Known, b: &Known, there: impl Fn(u32) -> bool) -> Option<(Revision, u32)> {
    let both = a.iter().filter_map(|(id, left)| b.get(id).map(|right| (*left.min(right), *id)));
    both.filter(|(_, id)| there(*id)).max()
}
