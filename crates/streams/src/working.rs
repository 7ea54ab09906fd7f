//! Write-back cache of the states that a batch uses.
//!
//! ```text
//!   store --look, many keys at once--> slots --put--> slots --writes, one per changed key--> store
//! ```

use mainstay_model::{Code, Error, Kept, KeyedState, LogicalTime, Result, StateWrite};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Cached states, of which some have changed.
pub(crate) struct Working<'s, S> {
    store: &'s dyn KeyedState,
    slots: BTreeMap<Vec<u8>, Slot<S>>,
}

/// The cached state of a key.
pub(crate) struct Slot<S> {
    /// The version of its last write; `None` if it was never written.
    pub(crate) version: Option<LogicalTime>,
    /// Its state; `None` if it has none.
    pub(crate) state: Option<S>,
    changed: bool,
}

impl<'s, S: Serialize + DeserializeOwned> Working<'s, S> {
    /// An empty cache of a store.
    pub(crate) fn new(store: &'s dyn KeyedState) -> Working<'s, S> {
        Working { store, slots: BTreeMap::new() }
    }

    /// Loads keys that are not cached yet, in one read.
    pub(crate) fn load<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        let mut missing: Vec<&[u8]> = keys.filter(|key| !self.slots.contains_key(*key)).collect();
        missing.sort_unstable();
        missing.dedup();
        for (key, kept) in missing.iter().zip(look(self.store, &missing)?) {
            self.slots.insert(key.to_vec(), slot(key, kept)?);
        }
        Ok(())
    }

    /// Reads states without caching them.
    pub(crate) fn guests(&self, keys: &[&[u8]]) -> Result<BTreeMap<Vec<u8>, S>> {
        let mut guests = BTreeMap::new();
        for (key, kept) in keys.iter().zip(look(self.store, keys)?) {
            if let Some(state) = slot(key, kept)?.state {
                guests.insert(key.to_vec(), state);
            }
        }
        Ok(guests)
    }

    /// The slot of a key, which must be loaded.
    pub(crate) fn slot(&mut self, key: &[u8]) -> Result<&mut Slot<S>> {
        self.slots.get_mut(key).ok_or_else(|| {
            let message = format!("key {} was not read before it was used", key.escape_ascii());
            Error::new(Code::InvalidArgument, message)
        })
    }

    /// The slot of a key, if it is loaded.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<&Slot<S>> {
        self.slots.get(key)
    }

    /// The writes of the changed keys, in key order.
    pub(crate) fn into_writes(self) -> Result<Vec<StateWrite>> {
        let changed = self.slots.into_iter().filter(|(_, slot)| slot.changed);
        changed.filter_map(|(key, slot)| slot.into_write(key).transpose()).collect()
    }
}

impl<S: Serialize> Slot<S> {
    /// Replaces the state.
    pub(crate) fn put(&mut self, state: Option<S>, version: LogicalTime) {
        *self = Slot { version: Some(version), state, changed: true };
    }

    fn into_write(self, key: Vec<u8>) -> Result<Option<StateWrite>> {
        let Some(version) = self.version else { return Ok(None) };
        let Some(state) = self.state else { return Ok(Some(StateWrite::delete(key, version))) };
        let bytes = serde_json::to_vec(&state).map_err(|error| {
            let message = format!(
                "the state of key {} cannot be written as JSON: {error}",
                key.escape_ascii()
            );
            Error::new(Code::InvalidValue, message)
        })?;
        Ok(Some(StateWrite::put(key, bytes, version)))
    }
}

/// Reads keys. If the store returns `TooLarge`, splits the request in two.
fn look(store: &dyn KeyedState, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
    use mainstay_model::ErrorKind::TooLarge;
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    match store.look(keys) {
        Err(error) if error.kind() == TooLarge && keys.len() > 1 => {
            let (front, back) = keys.split_at(keys.len() / 2);
            let mut kept = look(store, front)?;
            kept.extend(look(store, back)?);
            Ok(kept)
        }
        looked => looked,
    }
}

fn slot<S: DeserializeOwned>(key: &[u8], kept: Option<Kept>) -> Result<Slot<S>> {
    let Some(Kept { version, value }) = kept else {
        return Ok(Slot { version: None, state: None, changed: false });
    };
    let version = LogicalTime::try_from(version)?;
    let state = value.map(|value| read_state(key, &value)).transpose()?;
    Ok(Slot { version: Some(version), state, changed: false })
}

/// Decodes a stored state.
pub(crate) fn read_state<S: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<S> {
    serde_json::from_slice(value).map_err(|error| {
        let message = format!(
            "the state of key {} is not what this operator keeps: {error}; give the space to the operator that wrote it",
            key.escape_ascii()
        );
        Error::new(Code::InvalidValue, message)
    })
}
