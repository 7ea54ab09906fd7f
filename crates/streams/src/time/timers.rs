//! Timer index over the due times of keys' states. It is derived from the states and rebuilt on recovery.

use std::collections::BTreeSet;

/// The due times of keys' states, and the keys whose states have expired.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// The next due time of each key that has one.
    by_end: BTreeSet<(u64, Vec<u8>)>,
    /// Keys whose states have no due time left but are not deleted yet.
    expired: BTreeSet<Vec<u8>>,
}

impl Timers {
    /// The first state that is due up to a time, ordered by time, then by key.
    pub(crate) fn first(&self, to_ms: u64) -> Option<&(u64, Vec<u8>)> {
        self.by_end.first().filter(|(end_ms, _)| *end_ms <= to_ms)
    }

    /// The keys of the states that are due up to a time, in order.
    pub(crate) fn due(&self, to_ms: u64) -> impl Iterator<Item = &[u8]> {
        self.by_end.iter().take_while(move |(end_ms, _)| *end_ms <= to_ms).map(|(_, key)| &key[..])
    }

    /// Adds a key with the next due time of its state; `None` if the state has expired.
    pub(crate) fn set(&mut self, key: &[u8], end_ms: Option<u64>) {
        match end_ms {
            Some(end_ms) => self.by_end.insert((end_ms, key.to_vec())),
            None => self.expired.insert(key.to_vec()),
        };
    }

    /// Removes a key whose state had this next due time.
    pub(crate) fn clear(&mut self, key: &[u8], end_ms: Option<u64>) {
        match end_ms {
            Some(end_ms) => self.by_end.remove(&(end_ms, key.to_vec())),
            None => self.expired.remove(key),
        };
    }

    /// Removes the first due entry after it has fired, and adds the key's next due time.
    pub(crate) fn reschedule_first(&mut self, next_ms: Option<u64>) {
        if let Some((_, key)) = self.by_end.pop_first() {
            self.set(&key, next_ms);
        }
    }

    /// The keys of expired states, in order.
    pub(crate) fn expired(&self) -> impl Iterator<Item = &[u8]> {
        self.expired.iter().map(Vec::as_slice)
    }
}
