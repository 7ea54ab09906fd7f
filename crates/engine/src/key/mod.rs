//! The layout of stored keys and entries.

pub(crate) mod entry;
pub(crate) mod spaces;
pub(crate) mod version;
