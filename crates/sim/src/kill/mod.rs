//! Crash testing with SIGKILL: after each kill all acknowledged writes must be present, and no others.
//!
//! ```text
//!   parent ──spawns──> child: 16 writers on one directory
//!     ^                  │  lines of the drill
//!     └──────pipe────────┘
//!   SIGKILL after a random time, often a second one while the next child recovers
//!   the parent opens the directory itself and checks all acknowledged writes
//! ```
//!
//! The page cache survives a SIGKILL, so this finds writes that the program loses, not writes that a
//! power failure loses.

pub mod child;
pub mod parent;
