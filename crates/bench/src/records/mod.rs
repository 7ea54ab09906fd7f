//! Records, compared with Redis hashes: claims, field writes, sweeps, and their size on disk.
//!
//! ```text
//!   tasks  the twelve reference fields, an index over (state, timeout_at), 100 of them stuck
//! ```

mod claims;
mod cycle;
mod interval;
mod redis;
mod served;
mod size;
mod sweep;
mod tasks;
mod turns;

use crate::context::{Context, Outcome};

/// Runs all selected cases.
pub fn run_all(context: &mut Context) -> Outcome<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: this is a debug build, whose figures mean nothing: use --release");
    }
    claims::run(context)?;
    served::run(context)?;
    interval::run(context)?;
    cycle::run(context)?;
    sweep::run(context)?;
    size::run(context)
}
