//! Opening, options, background work and closing of a database.

pub(crate) mod background;
pub(crate) mod database_file;
pub(crate) mod engine;
pub(crate) mod feed_positions;
pub(crate) mod open;
pub(crate) mod options;
mod pins;
