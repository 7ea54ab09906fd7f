//! Bugs on purpose: each has to be found, and by which check is written down.
//!
//! ```text
//!   for each bug: a process of its own ── plants it ── runs the check that is meant for it ── says what it found
//! ```
//!
//! A process of its own, because a bug is in all databases of a process, and because some of them hang.

mod clients;
mod hunt;
mod list;
mod suite;

pub use clients::hunt_in_clients;
pub use hunt::{Catch, hunt, hunt_all};
pub use list::{Check, check_of, checks_of};
