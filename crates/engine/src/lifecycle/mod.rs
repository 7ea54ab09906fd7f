//! Opening, options, background work and closing of a database.

pub mod background;
pub mod database_file;
pub mod engine;
pub mod feed_positions;
pub mod open;
pub mod options;
mod pins;
