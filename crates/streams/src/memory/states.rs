//! Hash map of states, with an index of tombstones by version.

use super::space::SharedBytes;
use mainstay_model::{Kept, State, StatePage, Version};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A page ends when it exceeds this size, in bytes.
const PAGE_LIMIT_BYTES: usize = 32 << 20;

/// A key's version with its state; `None` for a tombstone.
#[derive(Clone)]
pub(super) struct VersionedState {
    pub(super) version: Version,
    pub(super) value: Option<SharedBytes>,
}

impl IntoIterator for States {
    type Item = (SharedBytes, VersionedState);
    type IntoIter = std::collections::hash_map::IntoIter<SharedBytes, VersionedState>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_key.into_iter()
    }
}

/// States by key.
#[derive(Clone, Default)]
pub(super) struct States {
    by_key: HashMap<SharedBytes, VersionedState>,
    /// Tombstones by version, so that the cost of sealing depends on the dropped ones and not on all keys.
    tombstones: BTreeSet<(Version, SharedBytes)>,
}

impl States {
    /// The version of a key's last write.
    pub(super) fn version(&self, key: &[u8]) -> Option<Version> {
        self.by_key.get(key).map(|state| state.version)
    }

    /// Returns whether a version is newer than the key's.
    pub(super) fn is_newer(&self, key: &[u8], version: Version) -> bool {
        self.version(key).is_none_or(|state| version > state)
    }

    /// Sets a key's state.
    pub(super) fn set(&mut self, key: SharedBytes, version: Version, value: Option<SharedBytes>) {
        if value.is_none() {
            self.tombstones.insert((version, key.clone()));
        }
        let previous = self.by_key.insert(key.clone(), VersionedState { version, value });
        if let Some(VersionedState { version, value: None }) = previous {
            self.tombstones.remove(&(version, key));
        }
    }

    /// Sets a key's state if the version is newer than the key's. Returns whether it was.
    pub(super) fn set_newer(
        &mut self,
        key: SharedBytes,
        version: Version,
        value: Option<SharedBytes>,
    ) -> bool {
        let is_newer = self.is_newer(&key, version);
        if is_newer {
            self.set(key, version, value);
        }
        is_newer
    }

    /// Drops tombstones with versions below the frontier.
    pub(super) fn drop_tombstones_below(&mut self, frontier: Version) {
        // Keys are not empty, so the split keeps all entries of the frontier's own version.
        let retained = self.tombstones.split_off(&(frontier, Arc::default()));
        for (_, key) in std::mem::replace(&mut self.tombstones, retained) {
            self.by_key.remove(&key);
        }
    }

    /// A key's state or tombstone.
    pub(super) fn get(&self, key: &[u8]) -> Option<Kept> {
        let state = self.by_key.get(key)?;
        let value = state.value.as_deref().map(<[u8]>::to_vec);
        Some(Kept { version: state.version, value })
    }

    /// Iterates over all states and tombstones, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&SharedBytes, &VersionedState)> {
        self.by_key.iter()
    }

    /// A page of states, without tombstones.
    pub(super) fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> StatePage {
        let is_after_cursor = |key: &[u8]| after.is_none_or(|after| key > after);
        let live = self.by_key.iter().filter_map(|(key, state)| {
            let is_match = key.starts_with(prefix) && is_after_cursor(key);
            let value = state.value.as_ref().filter(|_| is_match)?;
            Some((key, state.version, value))
        });
        let mut live: Vec<_> = live.collect();
        let total = live.len();
        // Select first: entries after the page need not be sorted.
        if total > limit {
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
        let last = states.last().filter(|_| states.len() < total);
        let next = last.map(|(key, _)| key.clone());
        StatePage { states, next }
    }
}
