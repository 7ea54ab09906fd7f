//! The contracts: the kinds of state in a database.

use serde::{Deserialize, Serialize};

/// A kind of state in a database.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[non_exhaustive]
pub enum Contract {
    /// Named values.
    #[default]
    Cells,
    /// Branches, tags and merges.
    Branches,
    /// Maps from field names to bytes, under a key.
    Records,
    /// Event logs.
    Runs,
    /// Outgoing messages with leases and retries.
    Outbox,
    /// Keyed stream state: spaces of keys with versions.
    Keyed,
    /// Sessions and the requests sent to their clients.
    Sessions,
}
