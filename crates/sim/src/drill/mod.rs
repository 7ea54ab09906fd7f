//! A drill: writers on all contracts that journal their operations, and an oracle that checks the database
//! afterwards.
//!
//! ```text
//!   writers ── one line before each operation (I), one after it (A or F) ──> journal
//!      │                                                                       │
//!      v                                                                       v
//!   database ── killed, cut off, failing ── reopened ────── sight ──────> ledger, account ──> verdict
//! ```
//!
//! Every value contains the id of the operation that wrote it. So each version found belongs to exactly one
//! operation, and an acknowledged operation has exactly its versions.

mod account;
mod audit;
mod branches;
mod journal;
mod keyed;
mod ledger;
mod op;
mod records;
mod runs;
mod sight;
mod writer;

pub use account::{Account, Look};
pub use journal::Run;
pub use writer::{Voice, Work, write};

use mainstay::Options;
use std::time::Duration;

/// Number of writer threads.
pub const WRITERS: u64 = 16;
/// Number of cells that each writer has for itself.
pub const OWN_CELLS: u64 = 6;
/// Number of counters that all writers increment.
pub const HOT_CELLS: u64 = 4;
/// Number of cells on which all writers use compare-and-swap.
pub const CAS_CELLS: u64 = 4;
/// Number of accounts. Their balances always sum to zero.
pub const ACCOUNTS: u64 = 16;

/// Success, or a sentence that describes the violation.
pub type Outcome<T> = Result<T, String>;

/// Options with buffers and segments so small that rolls, flushes, compactions and trims happen all the time.
pub fn options() -> Options {
    Options::new()
        .retention_all()
        .record_retention(None)
        .segment_bytes(64 << 10)
        .write_buffer_bytes(256 << 10)
        .cache_bytes(256 << 10)
        .block_cache_bytes(1 << 20)
        .sync_interval(Duration::from_millis(20))
        .feed_retention(Duration::from_secs(3600), 1 << 20)
}

/// A cell that only one writer writes.
pub fn own_cell(thread: u64, k: u64) -> String {
    format!("own/{thread}/{k}")
}

/// A counter that all writers increment.
pub fn hot_cell(k: u64) -> String {
    format!("hot/{k}")
}

/// A cell on which all writers use compare-and-swap.
pub fn cas_cell(k: u64) -> String {
    format!("cas/{k}")
}

/// The cell of an account balance.
pub fn account(k: u64) -> String {
    format!("account/{k}")
}

/// The cell in which a writer records its last transfer, in the same transaction.
pub fn mark_cell(thread: u64) -> String {
    format!("mark/{thread}")
}

/// All cells that writers may write.
pub fn all_cells() -> Vec<String> {
    let own = (0..WRITERS).flat_map(|t| (0..OWN_CELLS).map(move |k| own_cell(t, k)));
    let shared = (0..HOT_CELLS).map(hot_cell).chain((0..CAS_CELLS).map(cas_cell));
    let money = (0..ACCOUNTS).map(account).chain((0..WRITERS).map(mark_cell));
    own.chain(shared).chain(money).collect()
}
