//! Handles: the interface that programs use, over a database in this process or a served one.

pub(crate) mod branch;
pub(crate) mod cells;
pub(crate) mod connection;
pub(crate) mod db;
pub(crate) mod feed;
pub(crate) mod files;
pub(crate) mod interactive;
pub(crate) mod keyed;
pub(crate) mod outbox;
pub(crate) mod place;
pub(crate) mod read;
pub(crate) mod records;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod stats;
