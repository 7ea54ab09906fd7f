//! The read side: snapshots, pinned views, open transactions, and reads made ahead of the writer.

pub(crate) mod answer_guards;
pub(crate) mod merge_candidates;
pub(crate) mod open_transaction;
pub(crate) mod pinned_snapshot;
pub(crate) mod prefetch;
pub(crate) mod read_view;
pub(crate) mod snapshot;
