//! The commit path: one writer executes transactions, the log makes them durable in groups.
//!
//! ```text
//!   prefetch, candidates --> sequencer --> executor --> log, index
//!                                 |                        |
//!                              tickets <---- bell <--------'
//! ```

pub(crate) mod bell;
pub(crate) mod candidates;
pub(crate) mod executor;
pub(crate) mod prefetch;
pub(crate) mod receipts;
pub(crate) mod sequencer;
pub(crate) mod ticket;
