//! Readers: snapshots, pinned moments and open transactions.

pub(crate) mod moment;
pub(crate) mod open;
pub(crate) mod pinned;
pub(crate) mod snapshot;
pub(crate) mod told;
