//! Revisions and stamps: the two ways to name a point in time.

use serde::{Deserialize, Serialize};

/// The number of a committed transaction, strictly increasing over the whole database.
pub type Revision = u64;

/// Microseconds since the Unix epoch, strictly increasing, one per transaction.
pub type Stamp = u64;

/// A point in time to read at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum At {
    /// The newest visible revision.
    #[default]
    Latest,
    /// The state as of this revision.
    Revision(Revision),
    /// The state as of this stamp: the newest revision not stamped later.
    Stamp(Stamp),
}

/// What must have happened before a write is answered and seen.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Durability {
    /// Logged and visible at once; never synced on its own.
    Memory,
    /// Visible at once, on stable storage within the sync interval.
    Interval,
    /// On stable storage before the answer, and before anyone sees it.
    #[default]
    Sync,
}
