//! The revisions that readers, branches and others hold against retention.

use crate::Revision;
use serde::{Deserialize, Serialize};

/// A revision that something holds, and what that costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The revision held.
    pub revision: Revision,
    /// What holds it: a branch, a tag, a merge, a reader, a transaction.
    pub holder: String,
    /// How long ago the revision was stamped, in microseconds.
    pub age_us: u64,
    /// How many revisions lie between it and the newest: what retention cannot trim.
    pub revisions_behind: u64,
}

/// All pins of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinSummary {
    /// The kind: `branch`, `tag`, `merge`, `import`, `reader`, `transaction`, `backup` and the like.
    pub kind: String,
    /// How many there are.
    pub count: u64,
    /// How long ago the revision of the oldest was stamped, in microseconds.
    pub oldest_age_us: u64,
    /// How many revisions lie between the oldest and the newest revision.
    pub revisions_behind: u64,
}
