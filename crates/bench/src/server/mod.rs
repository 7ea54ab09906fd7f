//! The bench of the server: ours and Redis, each in a process of its own, asked by the same clients.
//!
//! ```text
//!   redis-benchmark        own client              one process at a time asks,
//!         |  \               |  \                  the sides take turns
//!         v   \______________v   \____
//!   our server, a child     Redis, a child         free ports, directories of this run
//! ```
//!
//! One pair runs with every write synced, another one with syncs in intervals; two further servers of ours
//! answer how much idle connections hold and how soon the first reply comes.

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

/// Runs every case that was asked for.
pub fn run_all(context: &mut Context) -> Outcome<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: this is a debug build, whose figures mean nothing: use --release");
    }
    rates::run(context)?;
    idle::run(context)?;
    start::run(context)
}
