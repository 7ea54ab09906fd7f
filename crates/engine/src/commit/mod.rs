//! The commit path: one writer executes transactions, the log makes them durable in groups.
//!
//! ```text
//!   prepared, prefetched --> sequencer --> executor --> log, index
//!                                 |                        |
//!                              tickets <---- bell <--------'
//! ```

pub(crate) mod executor;
pub(crate) mod prefetched;
pub(crate) mod prepared;
pub(crate) mod request_dedup;
pub(crate) mod sequencer;
pub(crate) mod ticket;
pub(crate) mod wakeup;
