//! Revisions and commit timestamps: the two ways to name a point in time.

use serde::{Deserialize, Serialize};

/// The number of a committed transaction, strictly increasing over the whole database.
pub type Revision = u64;

/// A commit timestamp: microseconds since the Unix epoch, strictly increasing, one per transaction.
pub type Stamp = u64;

/// A point in time to read at (time travel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum At {
    /// The newest visible revision.
    #[default]
    Latest,
    /// The state as of this revision.
    Revision(Revision),
    /// The state as of this timestamp: the newest revision whose timestamp is not later.
    Stamp(Stamp),
}

/// The durability that a write must have before it is acknowledged and visible.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Durability {
    /// Logged and visible at once. It is never fsynced on its own.
    Memory,
    /// Visible at once, fsynced within the sync interval.
    Interval,
    /// Fsynced before it is acknowledged and before any reader sees it.
    #[default]
    Sync,
}
