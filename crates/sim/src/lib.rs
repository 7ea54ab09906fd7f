//! Proof: what would catch us if an acknowledged write could be lost.
//!
//! ```text
//!   drill  writers on all contracts, what they were told, and the account of what is there afterwards
//!   kill   a process in a drill is killed at any moment
//!   cuts   power fails at every boundary of a drill
//!   failures   each call of a disk fails in turn
//!   flips  a bit of a file is another one
//!   soak   load for long, and nothing grows
//!   disk   a file system that writes down what is done to it, and knows what a power cut would leave
//! ```

pub mod cuts;
pub mod disk;
pub mod drill;
pub mod failures;
pub mod flips;
pub mod kill;
pub mod soak;
mod watchdog;
