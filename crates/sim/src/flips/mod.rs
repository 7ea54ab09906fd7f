//! Flipped bits: one in a block of a file, wherever that is, and never a wrong answer.
//!
//! ```text
//!   files of a database ── one bit ──> doctor: names file and place, or finds it sound
//!                                 └──> opened, everything read ──┬── as it should be: it was mended, or nobody's bit
//!                                                                ├── refused, by file and place
//!                                                                └── a read refused ── salvaged, read again
//! ```

mod explore;
mod flip;

pub use explore::{Plan, Tally, run};
pub use flip::{Ending, Flip};
