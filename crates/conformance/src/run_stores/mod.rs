//! Conformance cases for every run store, through `dyn RunStore`.

pub mod append;
pub mod batch;
pub mod bootstrap;
pub mod closing;
pub mod delete;
pub mod expected;
pub mod fetch;
pub mod idempotency;
pub mod info;
pub mod input;
pub mod keys;
pub mod lacking;
pub mod list;
pub mod programs;
pub mod races;
pub mod restore;
pub mod snapshot;
pub mod tail;
