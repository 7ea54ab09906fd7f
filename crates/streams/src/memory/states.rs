//! Hash map of states, with an index of tombstones by version.

use super::space::Bytes;
use mainstay_model::{Kept, State, StatePage, Version};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A page ends when it exceeds this size, in bytes.
const PAGE_LIMIT_BYTES: usize = 32 << 20;

/// A key's version with its state; `None` for a tombstone.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) version: Version,
    pub(super) value: Option<Bytes>,
}

impl IntoIterator for States {
    type Item = (Bytes, Held);
    type IntoIter = std::collections::hash_map::IntoIter<Bytes, Held>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_key.into_iter()
    }
}

/// States by key.
#[derive(Clone, Default)]
pub(super) struct States {
    by_key: HashMap<Bytes, Held>,
    /// Tombstones by version, so that the cost of sealing depends on the dropped ones and not on all keys.
    deleted: BTreeSet<(Version, Bytes)>,
}

impl States {
    /// The version of a key's last write.
    pub(super) fn version(&self, key: &[u8]) -> Option<Version> {
        self.by_key.get(key).map(|held| held.version)
    }

    /// Returns whether a version is newer than the key's.
    pub(super) fn is_newer(&self, key: &[u8], version: Version) -> bool {
        self.version(key).is_none_or(|held| version > held)
    }

    /// Sets a key's state.
    pub(super) fn set(&mut self, key: Bytes, version: Version, value: Option<Bytes>) {
        if value.is_none() {
            self.deleted.insert((version, key.clone()));
        }
        let before = self.by_key.insert(key.clone(), Held { version, value });
        if let Some(Held { version, value: None }) = before {
            self.deleted.remove(&(version, key));
        }
    }

    /// Sets a key's state if the version is newer than the key's. Returns whether it was.
    pub(super) fn set_newer(&mut self, key: Bytes, version: Version, value: Option<Bytes>) -> bool {
        let is_newer = self.is_newer(&key, version);
        if is_newer {
            self.set(key, version, value);
        }
        is_newer
    }

    /// Drops tombstones with versions below the frontier.
    pub(super) fn forget_below(&mut self, frontier: Version) {
        // Keys are not empty, so the split keeps all entries of the frontier's own version.
        let kept = self.deleted.split_off(&(frontier, Arc::default()));
        for (_, key) in std::mem::replace(&mut self.deleted, kept) {
            self.by_key.remove(&key);
        }
    }

    /// A key's state or tombstone.
    pub(super) fn look(&self, key: &[u8]) -> Option<Kept> {
        let held = self.by_key.get(key)?;
        let value = held.value.as_deref().map(<[u8]>::to_vec);
        Some(Kept { version: held.version, value })
    }

    /// Iterates over all states and tombstones, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Held)> {
        self.by_key.iter()
    }

    /// A page of states, without tombstones.
    pub(super) fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> StatePage {
        let is_behind = |key: &[u8]| after.is_none_or(|after| key > after);
        let live = self.by_key.iter().filter_map(|(key, held)| {
            let is_asked = key.starts_with(prefix) && is_behind(key);
            let value = held.value.as_ref().filter(|_| is_asked)?;
            Some((key, held.version, value))
        });
        let mut live: Vec<_> = live.collect();
        let found = live.len();
        // Select first: entries after the page need not be sorted.
        if found > limit {
            live.select_nth_unstable_by(limit, |one, other| one.0.cmp(other.0));
            live.truncate(limit);
        }
        live.sort_unstable_by(|one, other| one.0.cmp(other.0));
        let mut states = Vec::with_capacity(live.len());
        let mut bytes = 0;
        for (key, version, value) in live {
            bytes += key.len() + value.len();
            states.push((key.to_vec(), State { value: value.to_vec(), version }));
            if bytes > PAGE_LIMIT_BYTES {
                break;
            }
        }
        let last = states.last().filter(|_| states.len() < found);
        let next = last.map(|(key, _)| key.clone());
        StatePage { states, next }
    }
}
