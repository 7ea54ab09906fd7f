//! Proof: what would catch us if an acknowledged write could be lost.
//!
//! ```text
//!   drill      writers on all contracts, what they were told, and the account of what is there afterwards
//!   disk       a file system that writes down what is done to it, and knows what a power cut would leave
//!
//!   kill       a process in a drill is killed at any moment
//!   cuts       power fails at every boundary of a drill
//!   failures   each call of a disk fails in turn
//!   strace     calls of the system fail, on a real file system
//!   flips      a bit of a file is another one
//!   world      a server, its disk, its clients and the ways between them, in one thread and from one seed
//!   history    many threads, what each was told and when, and whether any one order explains it
//!   soak       load for long, and nothing grows
//!   hostile    greedy clients of every kind beside one honest client
//!
//!   planted    bugs on purpose: each of them is found
//! ```

pub mod cuts;
pub mod disk;
pub mod drill;
pub mod effort;
pub mod failures;
pub mod flips;
pub mod history;
pub mod hostile;
pub mod kill;
#[cfg(feature = "planted")]
pub mod planted;
pub mod soak;
pub mod strace;
mod watchdog;
pub mod world;
