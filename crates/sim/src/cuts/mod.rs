//! Power cuts: a drill on a disk that writes down what is done to it, cut off at every boundary.
//!
//! ```text
//!   recording: writers on a mounted file system ──> tape: changes, syncs, what writers were told
//!        ^                                            │ up to each boundary, under each model
//!        │                                            v
//!        │                                     image of the files ── opened ── account settled
//!        └──────── now and then ───────────────────┘
//!                  (the next recording begins with a recovery, which is cut as well)
//! ```
//!
//! What is on the tape before a cut has happened before it: whatever a writer was told by then must be there. A violation
//! is kept as a file, and can be looked at again, exactly.

mod explore;
mod life;
mod procedure;
mod recording;
mod remains;
mod setback;
mod subject;
mod trial;
mod trouble;

pub use explore::{Plan, Tally, run, settle, settle_at};
pub use procedure::Procedure;
pub use recording::{DATABASE, Recording, Start, Taped};
pub use subject::Subject;
pub use trial::{Broken, cut_all};
pub use trouble::{Trouble, again};
