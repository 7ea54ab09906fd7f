//! The commit path: one writer executes transactions, and group commit makes them durable.
//!
//! ```text
//!   prepared, prefetched --> sequencer --> executor --> log, index
//!                                 |                        |
//!                              tickets <---- wake <--------'
//! ```

pub(crate) mod executor;
pub(crate) mod prefetched;
pub(crate) mod prepared;
pub(crate) mod request_dedup;
pub(crate) mod sequencer;
pub(crate) mod ticket;
pub(crate) mod wakeup;
