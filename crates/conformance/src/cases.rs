//! Registry of all conformance cases, one file per kind of state.
//!
//! A case that is not listed there does not run; `tests/listed.rs` checks that every case is listed.

mod database;
mod keyed;
mod outbox;
mod records;
mod runs;
