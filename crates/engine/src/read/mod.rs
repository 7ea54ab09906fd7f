//! The read side: snapshots, pinned views, open transactions, and reads made ahead of the writer.

pub mod answer_guards;
pub mod branches;
pub mod merge_candidates;
pub mod open_transaction;
pub mod pinned_snapshot;
pub mod prefetch;
pub mod read_view;
pub mod snapshot;
pub mod stats;
