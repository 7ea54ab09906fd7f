//! System calls that fail under `strace`, on a real file system: a cross-check of the disk in memory.
//!
//! ```text
//!   a database with a past ── copied ──> a child under `strace -e inject=fdatasync:error=EIO:when=3`
//!        │                                 │ writers, reads, and their results, by a call that never fails
//!        │                                 v
//!        │                               trace: every call that changes files, and its result
//!        │                                 │ data of a failed sync is dropped, as Linux does it
//!        v                                 v
//!   earlier output of writers ─────────> opened again without strace, written to, acknowledged writes checked
//! ```
//!
//! strace does not execute an injected call, so the page cache still holds the data that a failed sync
//! did not write, and reading it back would prove nothing. Linux marks such pages as clean and may drop
//! them at any time. This test drops them, by the trace.

mod call;
mod case;
mod child;
mod choice;
mod explore;
mod pages;
mod trace;
mod tracer;
mod ward;

pub use call::{Call, Errno};
pub use case::Case;
pub use child::{Orders, run as be_child};
pub use explore::{Plan, Tally, run};
pub use tracer::permitted;
