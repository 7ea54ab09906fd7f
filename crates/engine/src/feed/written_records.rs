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

#[cfg(test)]
mod tests {
    use crate::Database;
    use mainstay_model::{At, Fields, MAIN};

    #[test]
    fn records_are_told_and_branches_that_changed_are_not_hidden() {
        let db = Database::memory().unwrap();
        let told = |after| {
            let mut all = Vec::new();
            db.written_records(after, db.revision(), |branch, key| {
                all.push(format!("{branch} {key}"))
            })
            .unwrap()
            .then_some(all)
        };
        let fields = Fields::of([("a", "1")]).unwrap();
        let start = db.revision();
        db.cells().set("cell", 1).unwrap();
        db.records().put("one", &fields, None).unwrap();
        assert_eq!(told(start), Some(vec!["main one".to_owned()]));
        let before = db.revision();
        db.fork("try", MAIN, At::Latest).unwrap();
        assert_eq!(told(before), None, "a branch came");
        let before = db.revision();
        db.branch("try").unwrap().records().put("two", &fields, None).unwrap();
        assert_eq!(told(before), Some(vec!["try two".to_owned()]));
        let before = db.revision();
        db.delete_branch("try").unwrap();
        assert_eq!(told(before), None, "a branch went");
        assert_eq!(told(db.revision()), Some(vec![]));
    }
}
