//! Transaction cases: atomic, serializable, as values and interactive.

pub mod answers;
pub mod attempts;
pub mod conflicts;
pub mod connection;
pub mod guards;
pub mod interactive;
pub mod otherwise;
pub mod requests;
pub mod running;
