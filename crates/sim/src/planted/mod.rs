//! Mutation testing: injects faults on purpose; each has a listed check that must find it.
//!
//! ```text
//!   for each fault: a process of its own ── injects it ── runs the check that is meant for it ── reports the finding
//! ```
//!
//! Each runs in a process of its own, because a fault affects all databases of a process, and because
//! some processes hang.

mod clients;
mod hunt;
mod list;
mod suite;

pub use clients::hunt_in_clients;
pub use hunt::{Catch, hunt, hunt_all};
pub use list::{Check, check_of, checks_of};
