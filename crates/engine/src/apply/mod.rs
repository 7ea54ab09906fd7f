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

pub mod branches;
pub mod candidates;
pub mod cells;
mod decimal;
pub mod deferred_delete;
pub mod expire;
pub mod guards;
pub mod hashes;
mod index_selection;
pub mod indexes;
pub mod key_state;
pub mod keyed;
mod live_entries;
pub mod merge;
pub mod names;
pub mod outbox;
pub mod records;
pub mod response_slots;
pub mod runs;
mod search;
pub mod session_table;
pub mod sessions;
pub mod strings;
pub mod three_way_diff;
