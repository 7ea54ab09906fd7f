//! The doctor's checks: whether the state of each contract is consistent, and whether orphaned data exists.

pub mod outbox;
pub mod run_orphans;
pub mod runs;
pub mod sessions;
pub mod state_orphans;
pub mod states;
