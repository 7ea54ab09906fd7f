//! Keyed state: puts and gets, snapshots, checkpoints, restores, and a whole pipeline.
//!
//! ```text
//!   entries                                     a million small states, the same for every side
//!   states   checkpoints   pipeline             one case each
//!   peers    the in-memory store, fjall with a version before each value, a HashMap written as JSON
//! ```

mod checkpoints;
mod entries;
mod pipeline;
mod states;

use crate::context::{Context, Outcome};

/// Runs all selected cases.
pub fn run_all(context: &mut Context) -> Outcome<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: this is a debug build, whose figures mean nothing: use --release");
    }
    states::run(context)?;
    checkpoints::run(context)?;
    pipeline::run(context)
}
