//! Opening, options, background work and closing of a database.

pub(crate) mod core;
pub(crate) mod feed_positions;
pub(crate) mod identity;
pub(crate) mod maintenance;
pub(crate) mod opening;
pub(crate) mod options;
mod pins;
