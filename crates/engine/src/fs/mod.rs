//! Files and directories: atomic replacement, durable creation, checksums, external sorting, a disk reserve.

pub(crate) mod atomic_file;
pub(crate) mod checksummed_file;
pub(crate) mod disk_reserve;
pub(crate) mod durable_dir;
pub(crate) mod error;
pub(crate) mod external_sort;
