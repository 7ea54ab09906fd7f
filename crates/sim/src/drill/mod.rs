//! A drill: writers on all contracts who say what they do, and the account of what is there afterwards.
//!
//! ```text
//!   writers ── one line before each operation (I), one after it (A or F) ──> journal
//!      │                                                                       │
//!      v                                                                       v
//!   database ── killed, cut off, failing ── opened again ── sight ──────> ledger, account ──> verdict
//! ```
//!
//! Every value names the operation that wrote it, so each version that is found has exactly one
//! operation behind it, and an operation that was acknowledged has exactly its versions.

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

/// How many threads write at once.
pub const WRITERS: u64 = 16;
/// How many cells each writer has for itself.
pub const OWN_CELLS: u64 = 6;
/// How many counters all writers increment.
pub const HOT_CELLS: u64 = 4;
/// How many cells all writers compare and swap.
pub const CAS_CELLS: u64 = 4;
/// How many accounts money moves between; together they hold nothing at all times.
pub const ACCOUNTS: u64 = 16;

/// Either it is as it should be, or a sentence says what is not.
pub type Outcome<T> = Result<T, String>;

/// Buffers and segments so small that rolls, flushes, compactions and trims happen all the time.
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

/// A counter that everybody increments.
pub fn hot_cell(k: u64) -> String {
    format!("hot/{k}")
}

/// A cell that everybody compares and swaps.
pub fn cas_cell(k: u64) -> String {
    format!("cas/{k}")
}

/// An account.
pub fn account(k: u64) -> String {
    format!("account/{k}")
}

/// Where a writer notes its last transfer, in the same transaction.
pub fn mark_cell(thread: u64) -> String {
    format!("mark/{thread}")
}

/// Every cell there may be.
pub fn all_cells() -> Vec<String> {
    let own = (0..WRITERS).flat_map(|t| (0..OWN_CELLS).map(move |k| own_cell(t, k)));
    let shared = (0..HOT_CELLS).map(hot_cell).chain((0..CAS_CELLS).map(cas_cell));
    let money = (0..ACCOUNTS).map(account).chain((0..WRITERS).map(mark_cell));
    own.chain(shared).chain(money).collect()
}
