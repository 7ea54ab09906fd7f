//! Keyed state: puts and gets, snapshots, checkpoints, restores, and a whole pipeline.
//!
//! ```text
//!   entries                                     a million small states, the same for every side
//!   states   checkpoints   pipeline             one question each
//!   beside   the store in memory, fjall with a version in front of each value, a HashMap that is written as JSON
//! ```

mod checkpoints;
mod entries;
mod pipeline;
mod states;

use crate::context::{Context, Outcome};

/// Runs every case that was asked for.
pub fn run_all(context: &mut Context) -> Outcome<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: this is a debug build, whose figures mean nothing: use --release");
    }
    states::run(context)?;
    checkpoints::run(context)?;
    pipeline::run(context)
}
