//! The layout of stored keys and entries.

pub(crate) mod entry;
pub(crate) mod ordered;
pub(crate) mod run_keys;
pub(crate) mod spaces;
pub(crate) mod state_keys;
pub(crate) mod version;
