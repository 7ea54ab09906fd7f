//! Conformance cases for every keyed state store, through `dyn KeyedState`.

pub mod append;
pub mod batch;
pub mod clear;
pub mod damage;
pub mod declare;
pub mod delete;
pub mod durable;
pub mod input;
pub mod lacking;
pub mod merging;
pub mod ordered;
pub mod positions;
pub mod programs;
pub mod races;
pub mod restore;
pub mod scan;
pub mod seal;
pub mod snapshot;
pub mod subsets;
pub mod versions;
