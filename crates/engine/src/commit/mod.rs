//! The commit path: one writer executes transactions, and group commit makes them durable.
//!
//! ```text
//!   prepared, prefetched --> sequencer --> executor --> log, index
//!                                 |                        |
//!                              tickets <---- wake <--------'
//! ```

pub mod executor;
pub mod prefetched;
pub mod prepared;
pub mod request_dedup;
pub mod sequencer;
pub mod ticket;
pub mod wakeup;
