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
pub(crate) struct BatchStates<'s, S> {
    store: &'s dyn KeyedState,
    slots: BTreeMap<Vec<u8>, StateSlot<S>>,
}

/// The cached state of a key.
pub(crate) struct StateSlot<S> {
    /// The version of its last write; `None` if it was never written.
    pub(crate) version: Option<LogicalTime>,
    /// Its state; `None` if it has none.
    pub(crate) state: Option<S>,
    is_changed: bool,
}

impl<'s, S: Serialize + DeserializeOwned> BatchStates<'s, S> {
    /// An empty cache of a store.
    pub(crate) fn new(store: &'s dyn KeyedState) -> BatchStates<'s, S> {
        BatchStates { store, slots: BTreeMap::new() }
    }

    /// Loads keys that are not cached yet, in one read.
    pub(crate) fn load<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        let mut missing: Vec<&[u8]> = keys.filter(|key| !self.slots.contains_key(*key)).collect();
        missing.sort_unstable();
        missing.dedup();
        for (key, stored) in missing.iter().zip(load_states(self.store, &missing)?) {
            self.slots.insert(key.to_vec(), decode_slot(key, stored)?);
        }
        Ok(())
    }

    /// Reads states without caching them.
    pub(crate) fn read_uncached(&self, keys: &[&[u8]]) -> Result<BTreeMap<Vec<u8>, S>> {
        let mut uncached = BTreeMap::new();
        for (key, stored) in keys.iter().zip(load_states(self.store, keys)?) {
            if let Some(state) = decode_slot(key, stored)?.state {
                uncached.insert(key.to_vec(), state);
            }
        }
        Ok(uncached)
    }

    /// The slot of a key, which must be loaded.
    pub(crate) fn slot(&mut self, key: &[u8]) -> Result<&mut StateSlot<S>> {
        self.slots.get_mut(key).ok_or_else(|| {
            let message = format!("key {} was not read before it was used", key.escape_ascii());
            Error::new(Code::InvalidArgument, message)
        })
    }

    /// The slot of a key, if it is loaded.
    pub(crate) fn peek(&self, key: &[u8]) -> Option<&StateSlot<S>> {
        self.slots.get(key)
    }

    /// The writes of the changed keys, in key order.
    pub(crate) fn into_writes(self) -> Result<Vec<StateWrite>> {
        let dirty_slots = self.slots.into_iter().filter(|(_, slot)| slot.is_changed);
        dirty_slots.filter_map(|(key, slot)| slot.into_write(key).transpose()).collect()
    }
}

impl<S: Serialize> StateSlot<S> {
    /// Replaces the state.
    pub(crate) fn put(&mut self, state: Option<S>, version: LogicalTime) {
        *self = StateSlot { version: Some(version), state, is_changed: true };
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
fn load_states(store: &dyn KeyedState, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
    use mainstay_model::ErrorKind::TooLarge;
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    match store.look(keys) {
        Err(error) if error.kind() == TooLarge && keys.len() > 1 => {
            let (front, back) = keys.split_at(keys.len() / 2);
            let mut stored = load_states(store, front)?;
            stored.extend(load_states(store, back)?);
            Ok(stored)
        }
        result => result,
    }
}

fn decode_slot<S: DeserializeOwned>(key: &[u8], stored: Option<Kept>) -> Result<StateSlot<S>> {
    let Some(Kept { version, value }) = stored else {
        return Ok(StateSlot { version: None, state: None, is_changed: false });
    };
    let version = LogicalTime::try_from(version)?;
    let state = value.map(|value| read_state(key, &value)).transpose()?;
    Ok(StateSlot { version: Some(version), state, is_changed: false })
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
