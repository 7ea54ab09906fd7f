//! Multi-version concurrency control: branches, views, write sets, pins and recent writes.

pub mod catalog;
pub mod dead_names;
pub mod pins;
pub mod recent_writes;
pub mod view;
pub mod write_set;
