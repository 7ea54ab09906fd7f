//! The storage engine: the index of current values, write buffers and an LSM tree per retention class.

pub mod bulk_load;
pub mod dead_ranges;
pub mod event_key_bloom;
pub mod flush_mark;
pub mod index;
pub mod index_def;
pub mod lsm;
pub mod memtable;
pub mod reclassify;
pub mod retention_class;
pub mod scan;
pub mod timestamp_index;
pub mod tombstone_gc;
pub mod version_cache;
