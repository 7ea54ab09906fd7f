//! Files and directories: atomic replacement, durable creation, checksums, external sorting, a disk reserve.

pub mod atomic_file;
pub mod checksummed_file;
pub mod disk_reserve;
pub mod durable_dir;
pub mod error;
pub mod external_sort;
