//! Proof: crash, fault-injection, simulation and history tests that detect the loss of an acknowledged write.
//!
//! ```text
//!   drill      writers on all contracts, their recorded answers, and the check of the data afterwards
//!   disk       a file system that records all operations and computes the possible states after a power failure
//!
//!   kill       a process in a drill is killed at any moment
//!   cuts       power fails at every boundary of a drill
//!   failures   each call of a disk fails in turn
//!   strace     system calls fail, on a real file system
//!   flips      a bit of a file is flipped
//!   world      a server, its disk, its clients and the network, simulated in one thread from one seed
//!   history    many threads, their recorded calls, and a check for strict serializability
//!   soak       load for a long time, and no resource may grow
//!   hostile    greedy clients of every kind beside one honest client
//!
//!   planted    injected faults: each of them must be found
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
