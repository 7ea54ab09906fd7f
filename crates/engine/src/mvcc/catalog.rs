//! The catalog: an in-memory copy of the branches, tags, merges and index definitions in the system spaces.
//!
//! ```text
//!   main ----------o-----------o----------->      a branch is (parent, fork revision):
//!                   \           \                 reads fall through to the parent as it was
//!                    fork ---->  other ---->      at the fork
//! ```
//!
//! Every effect on those spaces, executed or replayed, goes through [`Catalog::absorb`], and nothing else
//! changes the catalog. It is ahead of the revision that readers see, so its records carry the revisions
//! between which they are valid. The writer asks for the newest state, and a reader for the state at the
//! published revision.

mod record;

use crate::key::entry::{EntryHeader, damaged_record};
use crate::key::keyspace::{self, ENTRIES, MAIN_ID};
use crate::storage::index::{Index, NEWEST};
use crate::storage::index_def::IndexDef;
use crate::storage::tombstone_gc::TombstoneGc;
use mainstay_model::limits::BRANCH_LIMIT_DEPTH;
use mainstay_model::{Code, Error, MAIN, Result, Revision};
pub use record::{BranchRecord, MergeRecord, TagRecord, UNFINISHED};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// A branch and its ancestors, the branch first, each with the revision up to which it is read.
pub(crate) type Layers = SmallVec<[(u32, Revision); 2]>;

#[derive(Clone, Debug)]
pub struct Catalog {
    branches: BTreeMap<u32, BranchRecord>,
    /// Branches that some reader can still see as live. Deleted branches stay in `branches` forever.
    living: BTreeSet<u32>,
    /// Deleted branches that readers still see, with the revision of their deletion, oldest first.
    fading: VecDeque<(Revision, u32)>,
    /// Branches by current and former names, while readers can see them.
    names: HashMap<String, Vec<u32>>,
    tags: BTreeMap<String, TagRecord>,
    /// Removed tags that readers still see, with the revision of their removal, oldest first.
    removed: VecDeque<(Revision, String, TagRecord)>,
    /// Unfinished imports, with their first revision.
    imports: BTreeMap<u32, Revision>,
    /// The merges of each pair (into, from), oldest first.
    merges: BTreeMap<(u32, u32), Vec<MergeRecord>>,
    /// Secondary indexes over records, including dropped ones.
    indexes: BTreeMap<u32, IndexDef>,
}

impl Catalog {
    /// A catalog with only `main`.
    pub fn new() -> Catalog {
        let main = BranchRecord {
            id: MAIN_ID,
            name: MAIN.to_owned(),
            former: Vec::new(),
            parent: None,
            created: 0,
            created_stamp: 0,
            deleted: None,
        };
        Catalog {
            branches: BTreeMap::from([(MAIN_ID, main)]),
            living: BTreeSet::from([MAIN_ID]),
            fading: VecDeque::new(),
            names: HashMap::from([(MAIN.to_owned(), vec![MAIN_ID])]),
            tags: BTreeMap::new(),
            removed: VecDeque::new(),
            imports: BTreeMap::new(),
            merges: BTreeMap::new(),
            indexes: BTreeMap::new(),
        }
    }

    /// Returns whether a key space is part of the catalog.
    #[inline]
    pub fn concerns(space: u8) -> bool {
        matches!(space, keyspace::BRANCHES | keyspace::TAGS | keyspace::MERGES | keyspace::INDEXES)
    }

    /// Applies an effect, if it is in one of the catalog's key spaces.
    pub fn absorb(&mut self, key: &[u8], head: &EntryHeader, payload: &[u8]) -> Result<()> {
        let Some((space, _, name)) = keyspace::split(key) else { return Ok(()) };
        match space {
            keyspace::BRANCHES => self.absorb_branch(BranchRecord::decode(payload)?, head.revision),
            keyspace::TAGS => self.absorb_tag(name, head, payload)?,
            keyspace::MERGES => self.absorb_merge(name, payload)?,
            keyspace::INDEXES => {
                let declared = IndexDef::decode(payload)?;
                self.indexes.insert(declared.id, declared);
            }
            _ => {}
        }
        Ok(())
    }

    fn absorb_branch(&mut self, record: BranchRecord, revision: Revision) {
        if record.is_unfinished() {
            self.imports.insert(record.id, revision)
        } else {
            self.imports.remove(&record.id)
        };
        let old = self.branches.get(&record.id);
        for name in old.iter().flat_map(|old| old.names()) {
            self.names.entry(name.clone()).and_modify(|ids| ids.retain(|&id| id != record.id));
        }
        for name in record.names() {
            self.names.entry(name.clone()).or_default().push(record.id);
        }
        self.living.insert(record.id);
        self.fading.extend(record.deleted.map(|deleted| (deleted, record.id)));
        self.branches.insert(record.id, record);
    }

    fn absorb_tag(&mut self, name: &[u8], head: &EntryHeader, payload: &[u8]) -> Result<()> {
        let name = String::from_utf8_lossy(name).into_owned();
        if !head.is_deleted() {
            self.tags.insert(name, TagRecord::decode(payload)?);
        } else if let Some(tag) = self.tags.remove(&name) {
            self.removed.push_back((head.revision, name, tag));
        }
        Ok(())
    }

    /// Drops entries that no reader can see, given that all readers are at revision `seen` or later.
    pub fn forget(&mut self, seen: Revision) {
        while self.removed.front().is_some_and(|(removed, ..)| *removed <= seen) {
            self.removed.pop_front();
        }
        while let Some(&(_, id)) = self.fading.front().filter(|(deleted, _)| *deleted <= seen) {
            self.fading.pop_front();
            self.living.remove(&id);
            self.forget_names(id);
            self.forget_merge(id);
        }
    }

    /// Removes a deleted branch from the lookup by name. The feed looks branches up by id.
    fn forget_names(&mut self, id: u32) {
        for name in self.branches.get(&id).into_iter().flat_map(BranchRecord::names) {
            let Some(ids) = self.names.get_mut(name) else { continue };
            ids.retain(|&other| other != id);
            if ids.is_empty() {
                self.names.remove(name);
            }
        }
    }

    /// Drops the merge of a deleted branch into its parent, unless the branch links the parent to a third
    /// branch.
    ///
    /// A search back along the parent already covers the parent's past, and a deleted branch is never a merge
    /// base. Without this, every merge would visit all merges ever made.
    fn forget_merge(&mut self, id: u32) {
        let Some((parent, _)) = self.branches.get(&id).and_then(|record| record.parent) else {
            return;
        };
        let mut merged = self.merges.range((id, 0)..=(id, u32::MAX));
        if merged.all(|(&(_, from), _)| from == parent) {
            self.merges.remove(&(parent, id));
        }
    }

    fn absorb_merge(&mut self, name: &[u8], payload: &[u8]) -> Result<()> {
        let pair = MergeRecord::pair(name).ok_or_else(|| damaged_record("merge"))?;
        let record = MergeRecord::decode(payload)?;
        let merges = self.merges.entry(pair).or_default();
        let place = merges.partition_point(|other| other.into_revision < record.into_revision);
        if merges.get(place) != Some(&record) {
            merges.insert(place, record);
        }
        Ok(())
    }

    /// The indexes that writes maintain.
    pub fn declared(&self) -> Vec<IndexDef> {
        self.indexes.values().filter(|declared| declared.dropped.is_none()).cloned().collect()
    }

    /// Passes to compaction the branches deleted before all data floors, and the indexes dropped before the
    /// floor of index entries. A floor is durable because it is flushed, whereas a later deletion may still
    /// be undone.
    pub fn note_dropped(&self, purger: &TombstoneGc, index: &Index) {
        let is_gone = |dropped: Option<Revision>, floor| dropped.is_some_and(|at| at <= floor);
        let data_floor = index.data_floor_min();
        let entries_floor = index.space_floor(ENTRIES);
        let branches = self.branches().filter(|branch| is_gone(branch.deleted, data_floor));
        let indexes = self.indexes.values().filter(|index| is_gone(index.dropped, entries_floor));
        purger.learn(branches.map(|branch| branch.id), indexes.map(|index| index.id));
    }

    /// The id of the next index. Ids are never reused.
    pub fn next_index(&self) -> u32 {
        self.indexes.last_key_value().map_or(1, |(&id, _)| id + 1)
    }

    /// The live branch with this name, as the writer sees it.
    pub fn live(&self, name: &str) -> Result<&BranchRecord> {
        self.visible(name, NEWEST)
    }

    /// The branch that a transaction addresses. A branch that is being imported is addressed by its id, which
    /// only the import knows.
    pub fn meant(&self, name: &str, id: Option<u32>) -> Result<&BranchRecord> {
        let import = id.filter(|id| self.imports.contains_key(id)).and_then(|id| self.by_id(id));
        match import.filter(|record| record.name == name) {
            Some(record) => Ok(record),
            None => self.live(name),
        }
    }

    /// The branch that occupies a name: a live one, or one that is being imported.
    pub fn holder(&self, name: &str) -> Option<&BranchRecord> {
        let mut imports = self.imports();
        self.live(name).ok().or_else(|| imports.find(|record| record.name == name))
    }

    /// Branches with an unfinished import, including imports interrupted by a crash.
    pub fn imports(&self) -> impl Iterator<Item = &BranchRecord> {
        self.imports.keys().filter_map(|id| self.branches.get(id))
    }

    /// The branch that had this name at a revision.
    pub fn visible(&self, name: &str, at: Revision) -> Result<&BranchRecord> {
        let there = |record: &&BranchRecord| record.lives_at(at) && record.name_at(at) == name;
        let ids = self.names.get(name).into_iter().flatten().rev();
        let mut records = ids.filter_map(|id| self.branches.get(id));
        records.find(there).ok_or_else(|| {
            let message = format!("there is no branch `{name}`: fork it first");
            Error::new(Code::BranchNotFound, message)
        })
    }

    pub fn by_id(&self, id: u32) -> Option<&BranchRecord> {
        self.branches.get(&id)
    }

    pub fn branches(&self) -> impl Iterator<Item = &BranchRecord> {
        self.branches.values()
    }

    /// The branches that existed at a revision. Readers must still be able to see that revision.
    pub fn living(&self, at: Revision) -> impl Iterator<Item = &BranchRecord> {
        let records = self.living.iter().filter_map(|id| self.branches.get(id));
        records.filter(move |record| record.lives_at(at))
    }

    pub fn tags(&self) -> impl Iterator<Item = (&String, &TagRecord)> {
        self.tags.iter()
    }

    /// The tags that existed at a revision, sorted by name.
    pub fn tags_at(&self, at: Revision) -> Vec<(&String, &TagRecord)> {
        let removed = self.removed.iter().filter(|(removed, ..)| *removed > at);
        let removed = removed.map(|(_, name, tag)| (name, tag));
        let mut tags: Vec<_> =
            self.tags.iter().chain(removed).filter(|(_, tag)| tag.created <= at).collect();
        tags.sort_by_key(|(name, _)| *name);
        tags
    }

    /// The name of a branch at a revision.
    pub fn name_at(&self, id: u32, at: Revision) -> Option<&str> {
        self.branches.get(&id).map(|record| record.name_at(at))
    }

    pub fn tag(&self, name: &str) -> Option<&TagRecord> {
        self.tags.get(name)
    }

    pub fn next_id(&self) -> u32 {
        self.branches.last_key_value().map_or(0, |(&id, _)| id + 1)
    }

    /// The layers of a branch as of a revision.
    pub fn layers(&self, id: u32, at: Revision) -> Layers {
        let mut layers: Layers = smallvec![(id, at)];
        let mut record = self.branches.get(&id);
        let mut bound = at;
        while let Some((parent, fork)) = record.and_then(|record| record.parent) {
            bound = bound.min(fork);
            layers.push((parent, bound));
            record = self.branches.get(&parent);
        }
        layers
    }

    /// The number of forks between a branch and `main`.
    pub fn depth(&self, id: u32) -> usize {
        self.layers(id, 0).len() - 1
    }

    pub fn check_depth(&self, parent: u32) -> Result<()> {
        if self.depth(parent) < BRANCH_LIMIT_DEPTH {
            return Ok(());
        }
        let message = format!("branches may be {BRANCH_LIMIT_DEPTH} forks deep: merge some first");
        Err(Error::new(Code::BranchTooDeep, message))
    }

    /// The branches forked from this one that existed at a revision.
    pub fn children(&self, id: u32, at: Revision) -> impl Iterator<Item = &BranchRecord> {
        self.living(at).filter(move |record| record.parent.is_some_and(|(parent, _)| parent == id))
    }

    /// The history that a branch includes: for each branch, the revision up to which it is included.
    ///
    /// It follows the branch back through its fork, and through the branches merged into it.
    pub fn past(&self, id: u32, at: Revision) -> BTreeMap<u32, Revision> {
        let mut past = BTreeMap::new();
        let mut todo = vec![(id, at)];
        while let Some((branch, upto)) = todo.pop() {
            let seen = past.entry(branch).or_insert(0);
            if upto <= *seen {
                continue;
            }
            *seen = upto;
            let parent = self.branches.get(&branch).and_then(|record| record.parent);
            todo.extend(parent.map(|(parent, fork)| (parent, fork.min(upto))));
            let merged = self.merges.range((branch, 0)..=(branch, u32::MAX));
            let last = |merges: &[MergeRecord]| {
                let before = merges.partition_point(|merge| merge.into_revision <= upto);
                merges[..before].last().map(|merge| merge.from_revision)
            };
            todo.extend(merged.filter_map(|(&(_, from), merges)| Some((from, last(merges)?))));
        }
        past
    }

    /// The newest point that both histories include: the base of a three-way comparison.
    pub fn merge_base(&self, a: (u32, Revision), b: (u32, Revision)) -> (u32, Revision) {
        let past_a = self.past(a.0, a.1);
        let past_b = self.past(b.0, b.1);
        // The keys of a deleted branch may be compacted away, so it cannot be the base.
        let at = a.1.max(b.1);
        let live = |id: u32| self.branches.get(&id).is_some_and(|record| record.lives_at(at));
        let past_a = past_a.iter().filter(|(branch, _)| live(**branch));
        let shared = past_a.filter_map(|(&branch, &upto)| {
            past_b.get(&branch).map(|&other| (upto.min(other), branch))
        });
        let (revision, branch) = shared.max().unwrap_or((0, MAIN_ID));
        (branch, revision)
    }

    /// The fork revisions of the branches that live at a revision.
    pub fn fork_points(&self, at: Revision) -> impl Iterator<Item = Revision> {
        self.living(at).filter_map(|record| record.parent.map(|(_, fork)| fork))
    }

    /// The revisions that branches, tags and merges existing at a revision need, each with a description of
    /// its user.
    pub fn pins(&self, at: Revision) -> Vec<(Revision, String)> {
        let live = |id: u32| self.branches.get(&id).filter(|record| record.lives_at(at));
        let mut pins = Vec::new();
        for record in self.living(at) {
            let what = || format!("branch {}", record.name_at(at));
            pins.extend(record.parent.map(|(_, fork)| (fork, what())));
        }
        // The tags of an import are created when it finishes. Until then it pins its whole past.
        for (id, begun) in self.imports.iter().filter(|(_, begun)| **begun <= at) {
            let name = self.name_at(*id, at).unwrap_or_default();
            pins.push((*begun, format!("import {name}")));
        }
        let tags = self.tags_at(at).into_iter();
        pins.extend(tags.map(|(name, tag)| (tag.revision, format!("tag {name}"))));
        for (&(into, from), merges) in &self.merges {
            let Some(merge) = merges.last() else { continue };
            if let (Some(into), Some(from)) = (live(into), live(from)) {
                let what = format!("merge of {} into {}", from.name_at(at), into.name_at(at));
                pins.push((merge.from_revision, what));
            }
        }
        pins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn branch(id: u32, name: &str, parent: u32, fork: Revision) -> BranchRecord {
        BranchRecord {
            id,
            name: name.into(),
            former: Vec::new(),
            parent: Some((parent, fork)),
            created: fork + 1,
            created_stamp: 0,
            deleted: None,
        }
    }

    fn catalog() -> Catalog {
        let mut catalog = Catalog::new();
        catalog.absorb_branch(branch(1, "a", MAIN_ID, 10), 0);
        catalog.absorb_branch(branch(2, "b", 1, 20), 0);
        catalog
    }

    #[test]
    fn records_come_back_as_they_were() {
        let record = branch(7, "x", 3, 99);
        assert_eq!(BranchRecord::decode(&record.encode()).unwrap(), record);
        let gone = BranchRecord { deleted: Some(5), parent: None, ..record };
        assert_eq!(BranchRecord::decode(&gone.encode()).unwrap(), gone);
        assert!(BranchRecord::decode(b"\x00").is_err());
        let renamed = gone.renamed("y", 100).renamed("z", 200);
        assert_eq!(BranchRecord::decode(&renamed.encode()).unwrap(), renamed);
        let names = [99, 100, 199, 200].map(|at| renamed.name_at(at));
        assert_eq!(names, ["x", "y", "y", "z"]);
    }

    #[test]
    fn names_hold_from_when_to_when_they_were_given() {
        let mut catalog = catalog();
        let a = catalog.live("a").unwrap().renamed("c", 50);
        catalog.absorb_branch(a, 0);
        assert_eq!(catalog.visible("a", 49).unwrap().id, 1);
        assert!(catalog.visible("c", 49).is_err());
        assert_eq!(catalog.visible("c", 50).unwrap().id, 1);
        assert!(catalog.live("a").is_err());
        catalog.absorb_branch(branch(3, "a", MAIN_ID, 60), 0);
        assert_eq!(catalog.visible("a", 49).unwrap().id, 1);
        assert_eq!(catalog.live("a").unwrap().id, 3);
    }

    #[test]
    fn layers_are_bounded_by_every_fork_on_the_way() {
        assert_eq!(catalog().layers(2, 100).as_slice(), [(2, 100), (1, 20), (0, 10)]);
        assert_eq!(catalog().layers(2, 15).as_slice(), [(2, 15), (1, 15), (0, 10)]);
    }

    #[test]
    fn the_merge_base_is_the_fork_and_then_the_last_merge() {
        let mut catalog = catalog();
        assert_eq!(catalog.merge_base((0, 100), (1, 100)), (0, 10));
        assert_eq!(catalog.merge_base((0, 100), (2, 100)), (0, 10));
        assert_eq!(catalog.merge_base((1, 100), (2, 100)), (1, 20));
        catalog.merges.insert((0, 1), vec![MergeRecord { from_revision: 50, into_revision: 51 }]);
        assert_eq!(catalog.merge_base((0, 100), (1, 100)), (1, 50));
        assert_eq!(catalog.merge_base((1, 100), (0, 100)), (1, 50));
        assert_eq!(catalog.merge_base((0, 50), (1, 100)), (0, 10), "before the merge");
        assert_eq!(catalog.merge_base((0, 100), (2, 100)), (1, 20));
    }

    fn merge(catalog: &mut Catalog, into: u32, from: u32, at: Revision) {
        let record = MergeRecord { from_revision: at - 1, into_revision: at };
        catalog.merges.entry((into, from)).or_default().push(record);
    }

    fn delete(catalog: &mut Catalog, id: u32, at: Revision) {
        let record = BranchRecord { deleted: Some(at), ..catalog.branches[&id].clone() };
        catalog.absorb_branch(record, at);
    }

    /// Otherwise each merge would visit all merges ever made, while writers wait.
    #[test]
    fn branches_that_were_merged_and_deleted_are_not_looked_at_again() {
        let mut catalog = Catalog::new();
        for id in 1..=1000 {
            let at = u64::from(id) * 10;
            catalog.absorb_branch(branch(id, "try", MAIN_ID, at), at + 1);
            merge(&mut catalog, MAIN_ID, id, at + 5);
            delete(&mut catalog, id, at + 6);
            catalog.forget(at + 6);
        }
        assert!(catalog.merges.is_empty() && catalog.fading.is_empty());
        assert!(!catalog.names.contains_key("try") && catalog.live("try").is_err());
        assert_eq!(catalog.name_at(1000, NEWEST), Some("try"));
        assert_eq!(catalog.living(NEWEST).map(|record| record.id).collect::<Vec<_>>(), [MAIN_ID]);
        assert_eq!(catalog.past(MAIN_ID, NEWEST).len(), 1);
    }

    #[test]
    fn a_deleted_branch_through_which_others_are_reached_is_kept_in_mind() {
        let mut catalog = catalog();
        // Changes of `b` reached `main` through a sibling branch.
        catalog.absorb_branch(branch(3, "c", MAIN_ID, 30), 31);
        merge(&mut catalog, 3, 2, 40);
        merge(&mut catalog, MAIN_ID, 3, 50);
        delete(&mut catalog, 3, 60);
        catalog.forget(60);
        assert_eq!(catalog.merge_base((MAIN_ID, 100), (2, 100)), (2, 39));
    }

    #[test]
    fn readers_see_a_branch_until_its_deletion_is_visible() {
        let mut catalog = catalog();
        merge(&mut catalog, MAIN_ID, 1, 50);
        delete(&mut catalog, 2, 60);
        delete(&mut catalog, 1, 61);
        catalog.forget(60);
        assert_eq!(catalog.children(MAIN_ID, 60).map(|record| record.id).collect::<Vec<_>>(), [1]);
        assert_eq!(catalog.merge_base((MAIN_ID, 60), (1, 60)), (1, 49));
        assert_eq!(catalog.children(MAIN_ID, NEWEST).count(), 0);
        catalog.forget(61);
        assert!(catalog.merges.is_empty());
    }

    /// Property: after any forks, merges and deletions, dropped entries do not change the merge base of live
    /// branches.
    #[test]
    fn what_is_let_go_changes_no_base() {
        proptest!(|(program in vec((0..4_u8, any::<u32>(), any::<u32>()), 1..40))| {
            let (mut whole, mut less) = (Catalog::new(), Catalog::new());
            for (step, (what, one, other)) in program.into_iter().enumerate() {
                let at = (step as u64 + 1) * 10;
                let living: Vec<u32> = less.living(NEWEST).map(|record| record.id).collect();
                let pick = |number: u32| living[number as usize % living.len()];
                for catalog in [&mut whole, &mut less] {
                    play(catalog, what, pick(one), pick(other), at);
                }
                less.forget(at);
                for a in less.living(NEWEST) {
                    for b in less.living(NEWEST) {
                        let (a, b) = ((a.id, at), (b.id, at));
                        prop_assert_eq!(whole.merge_base(a, b), less.merge_base(a, b));
                    }
                }
            }
        });
    }

    fn play(catalog: &mut Catalog, what: u8, one: u32, other: u32, at: Revision) {
        let has_child = catalog.children(one, NEWEST).next().is_some();
        match what {
            0 => {
                let id = catalog.next_id();
                catalog.absorb_branch(branch(id, "x", one, at - 1), at);
            }
            1 if one != MAIN_ID && !has_child => delete(catalog, one, at),
            _ if one != other => merge(catalog, one, other, at),
            _ => {}
        }
    }

    #[test]
    fn a_name_can_be_taken_again() {
        let mut catalog = catalog();
        let mut a = branch(1, "a", MAIN_ID, 10);
        a.deleted = Some(30);
        catalog.absorb_branch(a, 0);
        assert!(catalog.live("a").is_err());
        assert_eq!(catalog.visible("a", 29).unwrap().id, 1);
        catalog.absorb_branch(branch(3, "a", MAIN_ID, 40), 0);
        assert_eq!(catalog.live("a").unwrap().id, 3);
        assert_eq!(catalog.visible("a", 29).unwrap().id, 1);
        assert!(catalog.visible("a", 35).is_err());
    }
}
