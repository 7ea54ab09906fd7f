//! The records of the catalog and their encoding.

use crate::key::entry::damaged_record;
use crate::key::keyspace::{self, MAIN_ID};
use crate::storage::index::NEWEST;
use mainstay_model::{Result, Revision, Stamp, Value, codec};

/// The creation revision of a branch with an unfinished import, at which no reader can see it.
pub const UNFINISHED: Revision = Revision::MAX;

/// Maximum number of former names that a branch keeps. Before the oldest of them, the branch has that oldest
/// name.
const FORMER_LIMIT: usize = 256;

#[derive(Clone, Debug, PartialEq)]
pub struct BranchRecord {
    pub id: u32,
    pub name: String,
    /// Former names, oldest first, each with the revision of the rename that ended it.
    pub former: Vec<(Revision, String)>,
    pub parent: Option<(u32, Revision)>,
    /// The first revision at which the branch is visible: the one that created it, or the last one of its
    /// import.
    pub created: Revision,
    pub created_stamp: Stamp,
    /// The revision that deleted it. The record is kept, so that the feed can name the branch.
    pub deleted: Option<Revision>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TagRecord {
    pub branch: u32,
    pub revision: Revision,
    pub created: Revision,
}

/// A merge from one branch into another, from which the next merge starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeRecord {
    pub from_revision: Revision,
    pub into_revision: Revision,
}

impl BranchRecord {
    /// Returns whether the branch exists for a reader at revision `at`.
    pub fn lives_at(&self, at: Revision) -> bool {
        self.created <= at && self.deleted.is_none_or(|deleted| deleted > at)
    }

    /// Returns whether its import is unfinished, either still running or interrupted by a crash.
    pub fn is_unfinished(&self) -> bool {
        self.created == UNFINISHED && self.deleted.is_none()
    }

    /// Returns whether the branch exists for the writer.
    pub fn lives(&self) -> bool {
        self.lives_at(NEWEST)
    }

    /// The name of the branch at a revision.
    pub fn name_at(&self, at: Revision) -> &str {
        let ended = self.former.partition_point(|(until, _)| *until <= at);
        self.former.get(ended).map_or(&self.name, |(_, name)| name)
    }

    /// The current name and all former names that are kept.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.former.iter().map(|(_, name)| name).chain([&self.name])
    }

    /// A copy of the record, renamed as of `revision`.
    pub fn renamed(&self, to: &str, revision: Revision) -> BranchRecord {
        let mut record = self.clone();
        let name = std::mem::replace(&mut record.name, to.to_owned());
        record.former.push((revision, name));
        let surplus = record.former.len().saturating_sub(FORMER_LIMIT);
        record.former.drain(..surplus);
        record
    }

    pub fn key(&self) -> keyspace::Key {
        keyspace::key(keyspace::BRANCHES, MAIN_ID, &self.id.to_be_bytes())
    }

    pub fn encode(&self) -> Vec<u8> {
        let (parent, fork) = self.parent.map_or((-1, 0), |(id, fork)| (i64::from(id), fork as i64));
        let mut record = vec![
            Value::Int(i64::from(self.id)),
            Value::String(self.name.clone()),
            Value::Int(parent),
            Value::Int(fork),
            Value::Int(self.created as i64),
            Value::Int(self.created_stamp as i64),
            Value::Int(self.deleted.map_or(-1, |deleted| deleted as i64)),
        ];
        if !self.former.is_empty() {
            record.push(Value::Array(self.former.iter().map(former_to_value).collect()));
        }
        fields(&record)
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
                former @ ..,
            ] => Ok(BranchRecord {
                id: *id as u32,
                name: name.clone(),
                former: former_of(former).ok_or_else(|| damaged_record("branch"))?,
                parent: (*parent >= 0).then_some((*parent as u32, *fork as u64)),
                created: *created as u64,
                created_stamp: *stamp as u64,
                deleted: (*gone >= 0).then_some(*gone as u64),
            }),
            _ => Err(damaged_record("branch")),
        }
    }
}

fn former_to_value((until, name): &(Revision, String)) -> Value {
    Value::Array(vec![Value::Int(*until as i64), Value::from(name.as_str())])
}

/// Decodes the former names. A branch that was never renamed has no field for them.
fn former_of(fields: &[Value]) -> Option<Vec<(Revision, String)>> {
    let former = match fields {
        [] => return Some(Vec::new()),
        [Value::Array(former)] => former,
        _ => return None,
    };
    let one = |value: &Value| match value {
        Value::Array(pair) => match pair.as_slice() {
            [Value::Int(until), Value::String(name)] => Some((*until as u64, name.clone())),
            _ => None,
        },
        _ => None,
    };
    former.iter().map(one).collect()
}

impl TagRecord {
    pub fn key(name: &str) -> keyspace::Key {
        keyspace::key(keyspace::TAGS, MAIN_ID, name.as_bytes())
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
            _ => Err(damaged_record("tag")),
        }
    }
}

impl MergeRecord {
    pub fn key(&self, into: u32, from: u32) -> keyspace::Key {
        let mut key = keyspace::key(keyspace::MERGES, MAIN_ID, &into.to_be_bytes());
        key.extend_from_slice(&from.to_be_bytes());
        key.extend_from_slice(&self.into_revision.to_be_bytes());
        key
    }

    /// The branches of a merge: (into, from).
    pub fn pair(name: &[u8]) -> Option<(u32, u32)> {
        let (into, from) = name.split_first_chunk::<4>()?;
        Some((u32::from_be_bytes(*into), u32::from_be_bytes(*from.first_chunk::<4>()?)))
    }

    pub fn encode(&self) -> Vec<u8> {
        fields(&[Value::Int(self.from_revision as i64), Value::Int(self.into_revision as i64)])
    }

    pub fn decode(payload: &[u8]) -> Result<MergeRecord> {
        match list(payload, "merge")?.as_slice() {
            [Value::Int(from), Value::Int(into)] => {
                Ok(MergeRecord { from_revision: *from as u64, into_revision: *into as u64 })
            }
            _ => Err(damaged_record("merge")),
        }
    }
}

fn fields(fields: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A catalog record is far below every limit of a value, so encoding cannot fail.
    let _ = codec::encode(&Value::Array(fields.to_vec()), &mut bytes);
    bytes
}

fn list(payload: &[u8], what: &str) -> Result<Vec<Value>> {
    match codec::decode(payload)? {
        Value::Array(fields) => Ok(fields),
        _ => Err(damaged_record(what)),
    }
}
