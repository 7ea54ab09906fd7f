//! When keys' states are due. It holds nothing that the states do not say, and is made anew from them.

use std::collections::BTreeSet;

/// When keys' states are due, and which of them are over.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    /// The next end of each key that has one.
    ends: BTreeSet<(u64, Vec<u8>)>,
    /// Keys whose states have nothing due any more, and are there still.
    over: BTreeSet<Vec<u8>>,
}

impl Calendar {
    /// The first that is due up to a time: by end, then by key.
    pub(crate) fn first(&self, to_ms: u64) -> Option<&(u64, Vec<u8>)> {
        self.ends.first().filter(|(end_ms, _)| *end_ms <= to_ms)
    }

    /// The keys of those that are due up to a time, in order.
    pub(crate) fn due(&self, to_ms: u64) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().take_while(move |(end_ms, _)| *end_ms <= to_ms).map(|(_, key)| &key[..])
    }

    /// A key has a state, whose next end is this one.
    pub(crate) fn set(&mut self, key: &[u8], end_ms: Option<u64>) {
        match end_ms {
            Some(end_ms) => self.ends.insert((end_ms, key.to_vec())),
            None => self.over.insert(key.to_vec()),
        };
    }

    /// A key's state, whose next end was this one, is another or none from now on.
    pub(crate) fn clear(&mut self, key: &[u8], end_ms: Option<u64>) {
        match end_ms {
            Some(end_ms) => self.ends.remove(&(end_ms, key.to_vec())),
            None => self.over.remove(key),
        };
    }

    /// The first that was due has fired; the key's next end is this one.
    pub(crate) fn fired(&mut self, next_ms: Option<u64>) {
        if let Some((_, key)) = self.ends.pop_first() {
            self.set(&key, next_ms);
        }
    }

    /// Keys whose states are over, in order.
    pub(crate) fn over(&self) -> impl Iterator<Item = &[u8]> {
        self.over.iter().map(Vec::as_slice)
    }
}
