//! Disk fault injection: each call of a process fails in turn, in each way that it can fail.
//!
//! ```text
//!   a database with a past ── opened on a disk whose n-th write, sync, rename ... fails, once or from then on
//!        │ writers: record which writes are acknowledged, failed or unknown
//!        │ reads continue; if only room was missing, writes resume when the disk has room
//!        v
//!   opened again on the same disk, written to ── power fails ── acknowledged writes checked
//! ```
//!
//! As on Linux, a failed sync may drop the data that it should have written: reads return the data
//! until power fails, but it is never written.

mod case;
mod explore;
mod life;

pub use case::Case;
pub use explore::{Plan, Tally, run};
pub(crate) use life::{go_on, live_through, look};
