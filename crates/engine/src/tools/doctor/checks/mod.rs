//! The doctor's checks: whether the state of each contract agrees with itself, and whether data is left that belongs to nothing.

pub(crate) mod outbox;
pub(crate) mod run_orphans;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod state_orphans;
pub(crate) mod states;
