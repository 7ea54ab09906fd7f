//! The layout of stored keys and entries.

pub mod entry;
pub mod keyspace;
pub mod order_preserving;
pub mod run_keys;
pub mod state_keys;
pub mod version;
