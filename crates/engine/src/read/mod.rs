//! Readers: snapshots, pinned moments, open transactions, and the reads that are made before the writer is asked.

pub(crate) mod merge_candidates;
pub(crate) mod moment;
pub(crate) mod open;
pub(crate) mod pinned;
pub(crate) mod prefetch;
pub(crate) mod snapshot;
pub(crate) mod told;
