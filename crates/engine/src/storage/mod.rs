//! The storage engine: the index of current values, write buffers and an LSM tree per retention class.

pub(crate) mod classes;
pub(crate) mod current;
pub(crate) mod declared;
pub(crate) mod graves;
pub(crate) mod index;
pub(crate) mod known;
pub(crate) mod lsm;
pub(crate) mod mark;
pub(crate) mod memtable;
pub(crate) mod migrate;
pub(crate) mod pour;
pub(crate) mod purge;
pub(crate) mod scan;
pub(crate) mod times;
