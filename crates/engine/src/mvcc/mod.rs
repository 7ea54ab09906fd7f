//! Multi-version concurrency control: branches, views, write sets, pins and recent writes.

pub(crate) mod catalog;
pub(crate) mod dead_names;
pub(crate) mod overlay;
pub(crate) mod pins;
pub(crate) mod trail;
pub(crate) mod view;
