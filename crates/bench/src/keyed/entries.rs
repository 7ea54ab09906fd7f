//! The benchmark data: a million small states.

use mainstay::StateWrite;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Number of entries per write.
pub const BATCH: u64 = 1_000;

/// A typical user state: a small struct.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The counter value.
    pub count: u64,
}

/// The key of an entry, in no order.
pub fn key(n: u64) -> String {
    format!("user-{:08}", n.wrapping_mul(2_654_435_761) % 100_000_000)
}

/// The state of an entry, as pipelines write it.
pub fn value(n: u64) -> String {
    format!("{{\"count\":{}}}", n % 100)
}

/// A batch of entries as puts.
pub fn batch(first: u64, version: u64, step: u64) -> Vec<StateWrite> {
    let numbers = (0..BATCH).map(|n| (first + n) * step);
    numbers.map(|n| StateWrite::put(key(n), value(n), version + n)).collect()
}

/// A plain map of states and versions.
pub type Plain = HashMap<String, (Count, u64)>;

/// The serialized form of a plain map: a list of its entries. They are copied first, so that the map may
/// change meanwhile.
pub type Listed = Vec<(String, (Count, u64))>;

/// The same entries in a plain map.
pub fn plain(entries: u64) -> Plain {
    (0..entries).map(|n| (key(n), (Count { count: n % 100 }, n + 1))).collect()
}
