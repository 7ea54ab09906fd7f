//! Files and directories: atomic replacement, durable creation, checksums, external sorting, a disk reserve.

pub(crate) mod error;
pub(crate) mod hashed;
pub(crate) mod part;
pub(crate) mod sorter;
pub(crate) mod spare;
pub(crate) mod way;
