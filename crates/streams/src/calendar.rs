//! When keys' states are due. It holds nothing that the states do not say, and is made anew from them.

use std::collections::BTreeSet;

/// When keys' states are due, and which of them hold something that has fired.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    /// The next end of each key that has one.
    ends: BTreeSet<(u64, Vec<u8>)>,
    /// Keys whose states still hold what has fired.
    spent: BTreeSet<Vec<u8>>,
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

    /// A key's next end is this one.
    pub(crate) fn set(&mut self, key: &[u8], before_ms: Option<u64>, end_ms: Option<u64>) {
        if before_ms == end_ms {
            return;
        }
        if let Some(before_ms) = before_ms {
            self.ends.remove(&(before_ms, key.to_vec()));
        }
        if let Some(end_ms) = end_ms {
            self.ends.insert((end_ms, key.to_vec()));
        }
    }

    /// The first that was due has fired; the key's next end is this one.
    pub(crate) fn fired(&mut self, next_ms: Option<u64>) {
        let Some((_, key)) = self.ends.pop_first() else { return };
        if let Some(next_ms) = next_ms {
            self.ends.insert((next_ms, key.clone()));
        }
        self.spent.insert(key);
    }

    /// A key's state holds what has fired.
    pub(crate) fn spend(&mut self, key: &[u8]) {
        self.spent.insert(key.to_vec());
    }

    /// A key's state holds nothing that has fired.
    pub(crate) fn settled(&mut self, key: &[u8]) {
        self.spent.remove(key);
    }

    /// Keys whose states hold what has fired, in order.
    pub(crate) fn spent(&self) -> impl Iterator<Item = &[u8]> {
        self.spent.iter().map(Vec::as_slice)
    }
}
