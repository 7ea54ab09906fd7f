//! Lists the records written between two revisions, for callers that wait for any of many records.
//!
//! ```text
//!   recent writes --after one revision, up to another--> branch and key of each record that was written
//! ```

use crate::key::keyspace;
use crate::lifecycle::engine::Engine;
use mainstay_model::Revision;
use std::collections::BTreeMap;

impl Engine {
    /// Calls `tell` with the branch and the key of every record written after `after`, up to `upto`. Returns
    /// `false` if the answer may be incomplete: the recent writes do not reach back to `after`, or a branch
    /// changed in between.
    pub fn written_records(
        &self,
        after: Revision,
        upto: Revision,
        mut tell: impl FnMut(&str, &str),
    ) -> bool {
        let mut branches = BTreeMap::new();
        let moved = self.state.trail.any_between(after, upto, |key| match keyspace::split(key) {
            Some((keyspace::RECORDS, branch, name)) => {
                let branch = branches.entry(branch).or_insert_with(|| name_of(self, branch, upto));
                tell(branch, &String::from_utf8_lossy(name));
                false
            }
            Some((space, ..)) => space == keyspace::BRANCHES,
            None => false,
        });
        moved == Some(false)
    }
}

fn name_of(core: &Engine, branch: u32, at: Revision) -> String {
    core.state.catalog.read().name_at(branch, at).unwrap_or_default().to_owned()
}
