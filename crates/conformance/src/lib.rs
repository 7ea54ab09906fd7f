//! Conformance suite: one named function per case, and a reference model (oracle) for random programs.
//!
//! Every implementation must pass it. Random programs are compared with the reference model.
//!
//! ```text
//!   SEMANTICS ── cases ── TestDb: the engine in memory, on disk or served
//!            \
//!             ├─ stores ── suite: TestStore ── Fixture: the engine, a remote client, or another store
//!             \
//!              └ reference_model ── random programs: tests/random.rs
//! ```
//!
//! A case of `cases` gets a [`TestDb`]: a database with a manual clock. The tests in this repository run
//! them in memory, on disk and through a server.
//!
//! The cases of `stores` also run against other stores, through `dyn RecordStore`, `dyn RunStore` and
//! `dyn KeyedState`. For such a store, implement [`suite::Fixture`] and call [`test_store!`],
//! [`test_run_store!`] or [`test_keyed_store!`]. Cases that require a capability that the store lacks are
//! skipped and listed.
//!
//! Cases register themselves: `build.rs` finds each public function in their files. A case fails by
//! panicking, as tests do, so this crate is allowed to panic.

pub mod assertions;
pub mod cases;
pub mod random;
pub mod reference_model;
pub mod stores;
pub mod suite;
pub mod test_db;

/// Tables of all cases and macros for their tests, written by `build.rs`.
mod registry {
    include!(concat!(env!("OUT_DIR"), "/registry.rs"));
}

pub use mainstay_model::{KeyedState, RecordStore, RunStore};
pub use test_db::TestDb;
