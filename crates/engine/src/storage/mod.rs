//! The storage engine: the index of current values, write buffers and an LSM tree per retention class.

pub(crate) mod bulk_load;
pub(crate) mod dead_ranges;
pub(crate) mod event_key_bloom;
pub(crate) mod flush_mark;
pub(crate) mod index;
pub(crate) mod index_def;
pub(crate) mod lsm;
pub(crate) mod memtable;
pub(crate) mod reclassify;
pub(crate) mod retention_class;
pub(crate) mod scan;
pub(crate) mod timestamp_index;
pub(crate) mod tombstone_gc;
pub(crate) mod version_cache;
