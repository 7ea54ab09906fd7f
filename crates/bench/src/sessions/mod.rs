//! Sessions: their overhead, the cost of a retry, and the framework for user-defined machines.
//!
//! ```text
//!   layer      64 clients, each transaction durable, with a session and without
//!   retries    answered from stored responses, compared with the read of a cached cell
//!   machine    the framework alone: requests with sessions and without, snapshots of 10,000 sessions
//! ```

mod layer;
mod machine;
mod retries;

use crate::context::{Context, Outcome};

/// Runs all selected cases.
pub fn run_all(context: &mut Context) -> Outcome<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: this is a debug build, whose figures mean nothing: use --release");
    }
    layer::run(context)?;
    retries::run(context)?;
    machine::run(context)
}
