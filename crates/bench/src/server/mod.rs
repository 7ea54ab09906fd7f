//! Server benchmarks: ours and Redis, each in its own process, with the same clients.
//!
//! ```text
//!   redis-benchmark        load client             one process at a time sends,
//!         |  \               |  \                  the sides take turns
//!         v   \______________v   \____
//!   our server, a child     Redis, a child         free ports, directories of this run
//! ```
//!
//! One pair of servers syncs every write, another one syncs periodically. Two further servers of ours
//! measure the memory of idle connections and the time to the first reply.

mod child;
pub mod client;
pub mod connection;
mod idle;
pub mod load;
pub mod pair;
pub mod ports;
pub mod process;
mod rates;
mod redis_benchmark;
mod start;
pub mod wire;

pub use child::run as serve;

use crate::context::{Context, Outcome};

/// Runs all selected cases.
pub fn run_all(context: &mut Context) -> Outcome<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: this is a debug build, whose figures mean nothing: use --release");
    }
    rates::run(context)?;
    idle::run(context)?;
    start::run(context)
}
