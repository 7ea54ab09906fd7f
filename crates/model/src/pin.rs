//! Pins: revisions that readers, branches and others protect from retention.

use crate::Revision;
use serde::{Deserialize, Serialize};

/// A pinned revision and its cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The pinned revision.
    pub revision: Revision,
    /// The holder: a branch, a tag, a merge, a reader or a transaction.
    pub holder: String,
    /// The age of the revision, in microseconds.
    pub age_us: u64,
    /// The number of revisions between it and the newest one, which retention cannot trim.
    pub revisions_behind: u64,
}

/// All pins of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinSummary {
    /// The kind: `branch`, `tag`, `merge`, `import`, `reader`, `transaction`, `backup` and the like.
    pub kind: String,
    /// The number of pins.
    pub count: u64,
    /// The age of the oldest pinned revision, in microseconds.
    pub oldest_age_us: u64,
    /// The number of revisions between the oldest pin and the newest revision.
    pub revisions_behind: u64,
}
