//! Proof: what would catch us if an acknowledged write could be lost.
//!
//! ```text
//!   history   many threads, what each was told and when, and whether any one order explains it
//!   kill      a process that writes, killed at any moment, and an account of what it was told
//! ```

pub mod history;
pub mod kill;
