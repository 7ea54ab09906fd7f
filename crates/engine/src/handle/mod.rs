//! Handles: the public API for a database, embedded in this process or served.

pub(crate) mod backend;
pub(crate) mod branch;
pub(crate) mod cells;
pub(crate) mod connection;
pub(crate) mod database;
pub(crate) mod feed;
pub(crate) mod files;
pub(crate) mod keyed;
pub(crate) mod outbox;
pub(crate) mod read;
pub(crate) mod records;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod stats;
pub(crate) mod transaction;
