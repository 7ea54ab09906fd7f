//! The catalog: branches, tags and merges, as the system spaces hold them.
//!
//! ```text
//!   main ----------o-----------o----------->      a branch is (parent, fork revision):
//!                   \           \                 reads fall through to the parent as it was
//!                    fork ---->  other ---->      at the fork
//! ```
//!
//! The catalog is a picture of its spaces: every effect on them, executed or replayed, goes through
//! [`Catalog::absorb`], and nothing else changes it.

use crate::entry::Head;
use crate::spaces::{self, MAIN_ID};
use mainstay_model::limits::BRANCH_LIMIT_DEPTH;
use mainstay_model::{Code, Error, MAIN, Result, Revision, Stamp, Value, codec};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, HashMap};

/// A branch and up to which revision it is read, the branch itself first, then its ancestors.
pub(crate) type Layers = SmallVec<[(u32, Revision); 2]>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BranchRecord {
    pub id: u32,
    pub name: String,
    pub parent: Option<(u32, Revision)>,
    /// The transaction that made it: it is seen from there on.
    pub created: Revision,
    pub created_stamp: Stamp,
    /// The transaction that deleted it. The record stays, so that the feed can name it.
    pub deleted: Option<Revision>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TagRecord {
    pub branch: u32,
    pub revision: Revision,
    pub created: Revision,
}

/// A merge from one branch into another: what the next one starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MergeRecord {
    pub from_revision: Revision,
    pub into_revision: Revision,
}

#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    branches: BTreeMap<u32, BranchRecord>,
    /// Branches by name; of several that had it in turn, the last one is the newest.
    names: HashMap<String, Vec<u32>>,
    tags: BTreeMap<String, TagRecord>,
    /// The merges of each pair (into, from), oldest first.
    merges: BTreeMap<(u32, u32), Vec<MergeRecord>>,
}

impl Catalog {
    /// A catalog that knows `main` alone.
    pub fn new() -> Catalog {
        let main = BranchRecord {
            id: MAIN_ID,
            name: MAIN.to_owned(),
            parent: None,
            created: 0,
            created_stamp: 0,
            deleted: None,
        };
        Catalog {
            branches: BTreeMap::from([(MAIN_ID, main)]),
            names: HashMap::from([(MAIN.to_owned(), vec![MAIN_ID])]),
            tags: BTreeMap::new(),
            merges: BTreeMap::new(),
        }
    }

    /// Whether a space is part of the catalog.
    #[inline]
    pub fn concerns(space: u8) -> bool {
        matches!(space, spaces::BRANCHES | spaces::TAGS | spaces::MERGES)
    }

    /// Takes in an effect on one of the catalog's spaces; others do not concern it.
    pub fn absorb(&mut self, key: &[u8], head: &Head, payload: &[u8]) -> Result<()> {
        let Some((space, _, name)) = spaces::split(key) else { return Ok(()) };
        match space {
            spaces::BRANCHES => self.absorb_branch(BranchRecord::decode(payload)?),
            spaces::TAGS => self.absorb_tag(name, head, payload)?,
            spaces::MERGES => self.absorb_merge(name, payload)?,
            _ => {}
        }
        Ok(())
    }

    fn absorb_branch(&mut self, record: BranchRecord) {
        let old = self.branches.get(&record.id);
        if let Some(ids) = old.and_then(|old| self.names.get_mut(&old.name)) {
            ids.retain(|&id| id != record.id);
        }
        let ids = self.names.entry(record.name.clone()).or_default();
        ids.push(record.id);
        ids.sort_unstable();
        self.branches.insert(record.id, record);
    }

    fn absorb_tag(&mut self, name: &[u8], head: &Head, payload: &[u8]) -> Result<()> {
        let name = String::from_utf8_lossy(name).into_owned();
        if head.is_deleted() {
            self.tags.remove(&name);
        } else {
            self.tags.insert(name, TagRecord::decode(payload)?);
        }
        Ok(())
    }

    fn absorb_merge(&mut self, name: &[u8], payload: &[u8]) -> Result<()> {
        let pair = MergeRecord::pair(name).ok_or_else(|| damaged("merge"))?;
        let record = MergeRecord::decode(payload)?;
        let merges = self.merges.entry(pair).or_default();
        let place = merges.partition_point(|other| other.into_revision < record.into_revision);
        if merges.get(place) != Some(&record) {
            merges.insert(place, record);
        }
        Ok(())
    }

    /// The live branch of this name, as the writer sees it.
    pub fn live(&self, name: &str) -> Result<&BranchRecord> {
        self.visible(name, Revision::MAX)
    }

    /// The branch that had this name at a revision.
    pub fn visible(&self, name: &str, at: Revision) -> Result<&BranchRecord> {
        let there = |record: &&BranchRecord| {
            record.created <= at && record.deleted.is_none_or(|deleted| deleted > at)
        };
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

    pub fn tags(&self) -> impl Iterator<Item = (&String, &TagRecord)> {
        self.tags.iter()
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

    /// How many forks lie between a branch and `main`.
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

    /// The live branches that were forked from this one.
    pub fn children(&self, id: u32) -> impl Iterator<Item = &BranchRecord> {
        let is_child = move |record: &&BranchRecord| {
            record.deleted.is_none() && record.parent.is_some_and(|(parent, _)| parent == id)
        };
        self.branches.values().filter(is_child)
    }

    /// Which branch points lie in the past of a branch: for each branch, up to which revision.
    ///
    /// The past goes back along the branch, through its fork, and through what was merged into it.
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

    /// The newest point that lies in the past of both: where a three-way comparison starts.
    pub fn merge_base(&self, a: (u32, Revision), b: (u32, Revision)) -> (u32, Revision) {
        let (past_a, past_b) = (self.past(a.0, a.1), self.past(b.0, b.1));
        // The keys of a deleted branch may be gone: it is no base.
        let live = |id: u32| self.branches.get(&id).is_some_and(|record| record.deleted.is_none());
        let past_a = past_a.iter().filter(|(branch, _)| live(**branch));
        let shared = past_a.filter_map(|(&branch, &upto)| {
            past_b.get(&branch).map(|&other| (upto.min(other), branch))
        });
        let (revision, branch) = shared.max().unwrap_or((0, MAIN_ID));
        (branch, revision)
    }

    /// The revisions that live branches, tags and merges need, with what needs them.
    pub fn pins(&self) -> Vec<(Revision, String)> {
        let live = |id: u32| self.branches.get(&id).is_some_and(|record| record.deleted.is_none());
        let mut pins = Vec::new();
        for record in self.branches.values().filter(|record| record.deleted.is_none()) {
            pins.extend(record.parent.map(|(_, fork)| (fork, format!("branch {}", record.name))));
        }
        pins.extend(self.tags.iter().map(|(name, tag)| (tag.revision, format!("tag {name}"))));
        for (&(into, from), merges) in &self.merges {
            let Some(merge) = merges.last() else { continue };
            if live(into) && live(from) {
                let name = |id| self.by_id(id).map_or("", |record| record.name.as_str());
                let what = format!("merge of {} into {}", name(from), name(into));
                pins.push((merge.from_revision, what));
            }
        }
        pins
    }
}

impl BranchRecord {
    pub fn key(&self) -> spaces::Key {
        spaces::key(spaces::BRANCHES, MAIN_ID, &self.id.to_be_bytes())
    }

    pub fn encode(&self) -> Vec<u8> {
        let (parent, fork) = self.parent.map_or((-1, 0), |(id, fork)| (i64::from(id), fork as i64));
        fields(&[
            Value::Int(i64::from(self.id)),
            Value::String(self.name.clone()),
            Value::Int(parent),
            Value::Int(fork),
            Value::Int(self.created as i64),
            Value::Int(self.created_stamp as i64),
            Value::Int(self.deleted.map_or(-1, |deleted| deleted as i64)),
        ])
    }

    pub fn decode(payload: &[u8]) -> Result<BranchRecord> {
        use Value::{Int, String};
        let fields = list(payload, "branch")?;
        match fields.as_slice() {
            [
                Int(id),
                String(name),
                Int(parent),
                Int(fork),
                Int(created),
                Int(stamp),
                Int(gone),
            ] => Ok(BranchRecord {
                id: *id as u32,
                name: name.clone(),
                parent: (*parent >= 0).then_some((*parent as u32, *fork as u64)),
                created: *created as u64,
                created_stamp: *stamp as u64,
                deleted: (*gone >= 0).then_some(*gone as u64),
            }),
            _ => Err(damaged("branch")),
        }
    }
}

impl TagRecord {
    pub fn key(name: &str) -> spaces::Key {
        spaces::key(spaces::TAGS, MAIN_ID, name.as_bytes())
    }

    pub fn encode(&self) -> Vec<u8> {
        fields(&[
            Value::Int(i64::from(self.branch)),
            Value::Int(self.revision as i64),
            Value::Int(self.created as i64),
        ])
    }

    pub fn decode(payload: &[u8]) -> Result<TagRecord> {
        match list(payload, "tag")?.as_slice() {
            [Value::Int(branch), Value::Int(revision), Value::Int(created)] => Ok(TagRecord {
                branch: *branch as u32,
                revision: *revision as u64,
                created: *created as u64,
            }),
            _ => Err(damaged("tag")),
        }
    }
}

impl MergeRecord {
    pub fn key(&self, into: u32, from: u32) -> spaces::Key {
        let mut key = spaces::key(spaces::MERGES, MAIN_ID, &into.to_be_bytes());
        key.extend_from_slice(&from.to_be_bytes());
        key.extend_from_slice(&self.into_revision.to_be_bytes());
        key
    }

    /// The branches of a merge: into which, from which.
    pub fn pair(name: &[u8]) -> Option<(u32, u32)> {
        let (into, from) = name.split_first_chunk::<4>()?;
        Some((u32::from_be_bytes(*into), u32::from_be_bytes(*from.first_chunk::<4>()?)))
    }

    pub fn encode(&self) -> Vec<u8> {
        fields(&[Value::Int(self.from_revision as i64), Value::Int(self.into_revision as i64)])
    }

    fn decode(payload: &[u8]) -> Result<MergeRecord> {
        match list(payload, "merge")?.as_slice() {
            [Value::Int(from), Value::Int(into)] => {
                Ok(MergeRecord { from_revision: *from as u64, into_revision: *into as u64 })
            }
            _ => Err(damaged("merge")),
        }
    }
}

fn fields(fields: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A record of the catalog is far below every limit of a value.
    let _ = codec::encode(&Value::Array(fields.to_vec()), &mut bytes);
    bytes
}

fn list(payload: &[u8], what: &str) -> Result<Vec<Value>> {
    match codec::decode(payload)? {
        Value::Array(fields) => Ok(fields),
        _ => Err(damaged(what)),
    }
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::new(Code::CorruptData, format!("the record of a {what} cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(id: u32, name: &str, parent: u32, fork: Revision) -> BranchRecord {
        BranchRecord {
            id,
            name: name.into(),
            parent: Some((parent, fork)),
            created: fork + 1,
            created_stamp: 0,
            deleted: None,
        }
    }

    fn catalog() -> Catalog {
        let mut catalog = Catalog::new();
        catalog.absorb_branch(branch(1, "a", MAIN_ID, 10));
        catalog.absorb_branch(branch(2, "b", 1, 20));
        catalog
    }

    #[test]
    fn records_come_back_as_they_were() {
        let record = branch(7, "x", 3, 99);
        assert_eq!(BranchRecord::decode(&record.encode()).unwrap(), record);
        let gone = BranchRecord { deleted: Some(5), parent: None, ..record };
        assert_eq!(BranchRecord::decode(&gone.encode()).unwrap(), gone);
        assert!(BranchRecord::decode(b"\x00").is_err());
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

    #[test]
    fn a_name_can_be_taken_again() {
        let mut catalog = catalog();
        let mut a = branch(1, "a", MAIN_ID, 10);
        a.deleted = Some(30);
        catalog.absorb_branch(a);
        assert!(catalog.live("a").is_err());
        assert_eq!(catalog.visible("a", 29).unwrap().id, 1);
        catalog.absorb_branch(branch(3, "a", MAIN_ID, 40));
        assert_eq!(catalog.live("a").unwrap().id, 3);
        assert_eq!(catalog.visible("a", 29).unwrap().id, 1);
        assert!(catalog.visible("a", 35).is_err());
    }
}
