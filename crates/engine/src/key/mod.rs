//! The layout of stored keys and entries.

pub(crate) mod entry;
pub(crate) mod keyspace;
pub(crate) mod order_preserving;
pub(crate) mod run_keys;
pub(crate) mod state_keys;
pub(crate) mod version;
