//! Sessions: what the layer costs, what a retry costs, and the framework for machines of users.
//!
//! ```text
//!   layer      64 clients, each transaction on stable storage, with a session and without
//!   retries    answered from what is kept, beside the read of a cached cell
//!   machine    the framework alone: requests with sessions and without, snapshots of 10,000 sessions
//! ```

mod layer;
mod machine;
mod retries;

use crate::context::{Context, Outcome};

/// Runs every case that was asked for.
pub fn run_all(context: &mut Context) -> Outcome<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: this is a debug build, whose figures mean nothing: use --release");
    }
    layer::run(context)?;
    retries::run(context)?;
    machine::run(context)
}
