//! The list of all cases, a file for each kind of state: what is not listed there does not run, which `tests/listed.rs`
//! checks.

mod database;
mod keyed;
mod outbox;
mod records;
mod runs;
