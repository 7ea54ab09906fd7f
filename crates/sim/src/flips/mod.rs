//! Bit-flip testing: flips one bit in a block of any file, and checks that no read returns a wrong answer.
//!
//! ```text
//!   files of a database ── one bit ──> doctor: names file and place, or finds it sound
//!                                 └──> opened, everything read ──┬── correct: it was repaired, or nothing depends on the bit
//!                                                                ├── refused, with file and place
//!                                                                └── a read refused ── salvaged, read again
//! ```

mod explore;
mod flip;

pub use explore::{Plan, Tally, run};
pub use flip::{Ending, Flip};
