//! Redis string commands on cells.

pub mod addition;
pub mod appending;
pub mod decimals;
pub mod lifetimes;
pub mod replacing;
pub mod several;
pub mod taking;
