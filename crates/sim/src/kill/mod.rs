//! Killing a database over and over: what was acknowledged is there, and nothing else.
//!
//! ```text
//!   parent ──spawns──> child: 16 writers on one directory
//!     ^                  │  lines of the drill
//!     └──────pipe────────┘
//!   SIGKILL after a random time, often a second one while the next child recovers
//!   parent opens the directory itself and settles the account
//! ```
//!
//! The system's memory survives a SIGKILL: this finds what the program loses, not what a power cut loses.

pub mod child;
pub mod parent;
