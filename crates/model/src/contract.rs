//! The kinds of state.

use serde::{Deserialize, Serialize};

/// The kinds of state.
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
    /// Fields with bytes under a key.
    Records,
    /// Logs of events.
    Runs,
    /// Messages to be sent.
    Outbox,
    /// Spaces of keys with versions.
    Keyed,
    /// Sessions, and what is sent to their clients.
    Sessions,
}
