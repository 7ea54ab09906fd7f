//! Branches and tags, and the differences between two branches.

use crate::wire::fields;
use crate::{Contract, Revision, Stamp, Value};
use serde::{Deserialize, Serialize};

/// Metadata of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchInfo {
    /// The current name of the branch.
    pub name: String,
    /// The branch id. Ids are never reused.
    pub id: u32,
    /// The branch that it was forked from. `None` for `main` and for imported branches.
    pub parent: Option<String>,
    /// The revision that it was forked at. 0 for a branch without a parent.
    pub fork_revision: Revision,
    /// The time of its creation, in microseconds since 1970.
    pub created: Stamp,
    /// The number of forks between this branch and its root.
    pub depth: usize,
    /// The number of live branches that were forked from this one.
    pub children: usize,
}

/// A tag: a named, pinned revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagInfo {
    /// The tag name.
    pub name: String,
    /// The branch that the tag belongs to.
    pub branch: String,
    /// The pinned revision.
    pub revision: Revision,
}

/// A key whose state differs between two branches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The kind of state.
    pub contract: Contract,
    /// The key, named as the change feed names it.
    pub key: String,
    /// Tells which of the two branches changed the key.
    pub kind: DifferenceKind,
    /// The value in the common ancestor. `None` if the key is absent there.
    #[serde(with = "fields::maybe_value")]
    pub base: Option<Value>,
    /// The value in the first branch. `None` if the key is absent there.
    #[serde(with = "fields::maybe_value")]
    pub a: Option<Value>,
    /// The value in the second branch. `None` if the key is absent there.
    #[serde(with = "fields::maybe_value")]
    pub b: Option<Value>,
}

/// Tells which branch changed a key since the common ancestor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DifferenceKind {
    /// Only the first branch.
    OnlyA,
    /// Only the second branch.
    OnlyB,
    /// Both branches changed it, in different ways. A strict merge rejects such a key, except for a record
    /// whose two sides changed different fields.
    Both,
}
