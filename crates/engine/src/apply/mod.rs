//! Command execution as pure functions: a command, a view of the state and a timestamp in; effects and an
//! answer out.
//!
//! ```text
//!   command + view (state, now) -> write set (effects) + answer
//! ```
//!
//! This code uses no clock, no randomness and no unordered iteration. The same command on the same state at
//! the same timestamp has the same effects. The writer thread runs it to commit. An interactive transaction
//! runs the same code over its snapshot, to answer before it commits.
//!
//! A command on data that fails has written nothing, so its transaction can continue without it.

pub(crate) mod branches;
pub(crate) mod candidates;
pub(crate) mod cells;
mod decimal;
pub(crate) mod deferred_delete;
pub(crate) mod expire;
pub(crate) mod guards;
pub(crate) mod hashes;
mod index_selection;
pub(crate) mod indexes;
pub(crate) mod key_state;
pub(crate) mod keyed;
mod live_entries;
pub(crate) mod merge;
pub(crate) mod names;
pub(crate) mod outbox;
pub(crate) mod records;
pub(crate) mod response_slots;
pub(crate) mod runs;
mod search;
pub(crate) mod session_table;
pub(crate) mod sessions;
pub(crate) mod strings;
pub(crate) mod three_way_diff;
