//! The RESP commands, one file per group.

pub mod branches;
pub mod cells;
pub mod connection;
pub mod expiry;
pub mod feed;
pub mod hashes;
pub mod indexes;
pub mod info;
pub mod jobs;
pub mod keyed;
pub mod keys;
pub mod locks;
pub mod outbox;
pub mod records;
pub mod runs;
pub mod server;
pub mod sessions;
pub mod slow_log;
pub mod strings;
pub mod transactions;
pub mod users;
pub mod wire;
