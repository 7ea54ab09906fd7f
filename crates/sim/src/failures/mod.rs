//! A disk that fails at one call: each call of a process in turn, each in every way it can fail.
//!
//! ```text
//!   a database with a past ── opened on a disk whose n-th write, sync, renaming ... fails, once or from then on
//!        │ writers: what is acknowledged, what certainly failed, what nobody knows
//!        │ reads go on; where it was room that was lacking, writing goes on when there is some
//!        v
//!   opened again on the same disk, written to ── power fails ── account settled
//! ```
//!
//! A failed sync may drop what it should have written, as Linux does it: it is read until power fails, and never written.

mod case;
mod explore;
mod life;

pub use case::Case;
pub use explore::{Plan, Tally, run};
pub(crate) use life::{go_on, live_through, look};
