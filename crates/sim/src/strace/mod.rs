//! Calls of the system that fail under `strace`, on a real file system: a second witness beside the disk in memory.
//!
//! ```text
//!   a database with a past ── copied ──> a child under `strace -e inject=fdatasync:error=EIO:when=3`
//!        │                                 │ writers, reads, and what they were told, by a call that never fails
//!        │                                 v
//!        │                               trace: every call that changes files, and how it ended
//!        │                                 │ what a failed sync should have made durable is dropped, as Linux does it
//!        v                                 v
//!   what was said before ─────────────> opened again without strace, written to, account settled
//! ```
//!
//! A call that strace lets fail is not executed, so the system's memory still holds what a failed sync did not write, and reading it
//! back would prove nothing. Linux counts such pages as clean and may forget them at any time: that is done here, by the trace.

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
