//! The suite that every implementation must pass, one named function per case, and the readable
//! model that random programs are compared with.
//!
//! ```text
//!   SEMANTICS ── cases (cells, strings, records, runs, outbox, transactions, branches, time, feed, limits, durability)
//!            \                 └ run in memory and on disk: tests/memory.rs, tests/disk.rs
//!             └─ oracle ── random programs: tests/random.rs
//! ```
//!
//! The cases of `stores` are for other stores too, through `dyn RecordStore`: who brings one implements
//! [`StoreWorld`] and writes [`test_store!`], and what its store lacks is skipped and listed.
//!
//! ```text
//!   store_cases (what each needs) ── stores ── Stand ── StoreWorld: the engine here and there, or another store
//! ```
//!
//! The cases of `run_stores` are the same for stores of runs: `dyn RunStore`, [`RunWorld`], [`test_run_store!`]; those of
//! `keyed_stores` for stores of keyed state: `dyn KeyedState`, [`KeyedWorld`], [`test_keyed_store!`].
//!
//! A case gets a [`World`]: a database and a clock in the test's hand. It fails by panicking,
//! as tests do; that is why this crate may.

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
