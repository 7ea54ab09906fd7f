//! Multi-version concurrency control: branches, views, write sets, pins and recent writes.

pub(crate) mod catalog;
pub(crate) mod dead_names;
pub(crate) mod pins;
pub(crate) mod recent_writes;
pub(crate) mod view;
pub(crate) mod write_set;
