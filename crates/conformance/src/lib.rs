//! Conformance suite: one named function per case, and a reference model (oracle) for random programs.
//!
//! Every implementation must pass it. Random programs are compared with the oracle.
//!
//! ```text
//!   SEMANTICS ── cases (cells, strings, records, runs, outbox, transactions, branches, time, feed, limits, durability)
//!            \                 └ run in memory and on disk: tests/memory.rs, tests/disk.rs
//!             └─ oracle ── random programs: tests/random.rs
//! ```
//!
//! The cases of `stores` also run against other stores, through `dyn RecordStore`. Such a store
//! implements [`StoreWorld`] and calls [`test_store!`]. Cases that need a capability the store lacks are
//! skipped and listed.
//!
//! ```text
//!   store_cases (required capabilities) ── stores ── Stand ── StoreWorld: engine, remote client, or another store
//! ```
//!
//! Stores of runs work the same way with the cases of `run_stores`: `dyn RunStore`, [`RunWorld`],
//! [`test_run_store!`]. Stores of keyed state use the cases of `keyed_stores`: `dyn KeyedState`,
//! [`KeyedWorld`], [`test_keyed_store!`].
//!
//! A case gets a [`World`]: a database with a manual clock. It fails by panicking, as tests do, so this
//! crate is allowed to panic.

pub mod branches;
pub mod cases;
pub mod cells;
pub mod check;
pub mod durability;
pub mod feed;
pub mod keyed;
#[cfg(feature = "keyed-stores")]
pub mod keyed_need;
pub mod keyed_oracle;
#[cfg(feature = "keyed-stores")]
pub mod keyed_stand;
#[cfg(feature = "keyed-stores")]
pub mod keyed_store_cases;
#[cfg(feature = "keyed-stores")]
pub mod keyed_stores;
pub mod limits;
pub mod need;
pub mod oracle;
pub mod outbox;
pub mod random;
pub mod records;
pub mod run_need;
pub mod run_stand;
pub mod run_store_cases;
pub mod run_stores;
pub mod runs;
pub mod stand;
pub mod store_cases;
pub mod stores;
pub mod strings;
pub mod time;
pub mod transactions;
pub mod world;

#[cfg(feature = "keyed-stores")]
pub use keyed_stand::KeyedWorld;
pub use run_stand::RunWorld;
pub use stand::StoreWorld;
pub use world::World;
