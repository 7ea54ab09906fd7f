//! The doctor's checks: whether the state of each contract is consistent, and whether orphaned data exists.

pub(crate) mod outbox;
pub(crate) mod run_orphans;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod state_orphans;
pub(crate) mod states;
