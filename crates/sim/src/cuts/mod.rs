//! Power-failure simulation: a drill on a recording disk, cut off at every event boundary.
//!
//! ```text
//!   recording: writers on a mounted file system ──> tape: changes, syncs, results for the writers
//!        ^                                            │ up to each boundary, under each model
//!        │                                            v
//!        │                                     image of the files ── opened ── account checked
//!        └──────── sometimes ────────────────┘
//!                  (the next recording starts with a recovery, which is cut as well)
//! ```
//!
//! Events before a cut on the tape happened before it, so every result that a writer received by then must
//! hold. A violation is saved to a file and can be replayed exactly.

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
