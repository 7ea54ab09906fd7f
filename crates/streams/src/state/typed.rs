//! Typed wrapper of keyed state.

use crate::StateKeyCodec;
use mainstay_model::{Code, Error, Kept, KeyedState, Result, State, Version, Wrote};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::sync::Arc;

/// Keyed state with types and idempotent writes, as a backend of an operator. Keys are texts, bytes or
/// numbers ([`StateKeyCodec`]). Values are any type that serde can write as JSON. Versions are `u64` or
/// [`LogicalTime`](mainstay_model::LogicalTime).
///
/// ```
/// use mainstay_model::{LogicalTime, Wrote};
/// use mainstay_streams::{MemoryState, TypedState};
/// use std::sync::Arc;
///
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Basket { items: u32 }
///
/// let baskets: TypedState<String, Basket, LogicalTime> = TypedState::new(Arc::new(MemoryState::new()));
/// let (user, time) = ("user-7".to_owned(), LogicalTime::new(3, 17));
/// assert_eq!(baskets.put(&user, &Basket { items: 2 }, time)?, Wrote::Applied);
///
/// // The input is read again from the last checkpoint; existing state does not change.
/// let checkpoint = baskets.snapshot()?;
/// assert_eq!(baskets.put(&user, &Basket { items: 2 }, time)?, Wrote::Stale);
/// assert_eq!(baskets.get(&user)?, Some((Basket { items: 2 }, time)));
///
/// // After a crash another process continues from there.
/// let restored: TypedState<String, Basket, LogicalTime> = TypedState::new(Arc::new(MemoryState::new()));
/// restored.restore(&checkpoint)?;
/// assert_eq!(restored.get(&user)?, Some((Basket { items: 2 }, time)));
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct TypedState<K, V, Ver> {
    space: Arc<dyn KeyedState>,
    types: PhantomData<Types<K, V, Ver>>,
}

/// A phantom function type: no value is held, so the state can be shared between threads whatever the types
/// are.
type Types<K, V, Ver> = fn() -> (K, V, Ver);

impl<K, V, Ver> Clone for TypedState<K, V, Ver> {
    fn clone(&self) -> TypedState<K, V, Ver> {
        TypedState::new(Arc::clone(&self.space))
    }
}

impl<K, V, Ver> TypedState<K, V, Ver> {
    /// Wraps a space whose keys, values and versions have these types.
    pub fn new(space: Arc<dyn KeyedState>) -> TypedState<K, V, Ver> {
        TypedState { space, types: PhantomData }
    }

    /// The underlying space, for untyped operations.
    pub fn space(&self) -> &Arc<dyn KeyedState> {
        &self.space
    }

    /// Returns a full snapshot as bytes, for a checkpoint.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        self.space.snapshot()
    }

    /// Replaces the whole state by a snapshot, atomically: a damaged snapshot changes nothing. Returns the
    /// number of entries.
    pub fn restore(&self, snapshot: &[u8]) -> Result<u64> {
        self.space.restore(snapshot)
    }
}

impl<K, V, Ver> TypedState<K, V, Ver>
where
    K: StateKeyCodec,
    V: Serialize + DeserializeOwned,
    Ver: Into<Version> + TryFrom<Version, Error = Error>,
{
    /// Writes a key's value if the version is newer than the key's. Returns whether it was.
    pub fn put(&self, key: &K, value: &V, version: Ver) -> Result<Wrote> {
        let value = serde_json::to_vec(value).map_err(|error| {
            let message = format!("the value cannot be written as JSON: {error}");
            Error::new(Code::InvalidValue, message)
        })?;
        self.space.put(&key.to_key(), &value, version.into())
    }

    /// Deletes a key if the version is newer than the key's. A tombstone keeps the version.
    pub fn delete(&self, key: &K, version: Ver) -> Result<Wrote> {
        self.space.delete(&key.to_key(), version.into())
    }

    /// Returns a key's value and version.
    pub fn get(&self, key: &K) -> Result<Option<(V, Ver)>> {
        self.space.get(&key.to_key())?.map(decode_state).transpose()
    }

    /// The version of a key's last write, which may be a deletion.
    pub fn version(&self, key: &K) -> Result<Option<Ver>> {
        let stored: Option<Kept> = self.space.look(&[&key.to_key()])?.pop().flatten();
        stored.map(|stored| stored.version.try_into()).transpose()
    }

    /// Scans keys in the order of their encoded bytes, with values and versions: those whose bytes have
    /// `prefix`, after `after`.
    ///
    /// ```
    /// # use mainstay_streams::{MemoryState, TypedState};
    /// # use std::sync::Arc;
    /// let counts: TypedState<u64, u32, u64> = TypedState::new(Arc::new(MemoryState::new()));
    /// for user in [7, 300, 2] {
    ///     counts.put(&user, &1, 10)?;
    /// }
    /// let page = counts.scan(&[], None, 2)?;
    /// assert_eq!(page.states, [(2, 1, 10), (7, 1, 10)]);
    /// let rest = counts.scan(&[], page.next.as_ref(), 2)?;
    /// assert_eq!((rest.states, rest.next), (vec![(300, 1, 10)], None));
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    pub fn scan(
        &self,
        prefix: &[u8],
        after: Option<&K>,
        limit: usize,
    ) -> Result<TypedPage<K, V, Ver>> {
        let after = after.map(StateKeyCodec::to_key);
        let page = self.space.scan(prefix, after.as_deref(), limit)?;
        let decode_entry = |(key, state): (Vec<u8>, State)| {
            let (value, version) = decode_state(state)?;
            Ok((K::from_key(&key)?, value, version))
        };
        let states = page.states.into_iter().map(decode_entry).collect::<Result<Vec<_>>>()?;
        let next = page.next.map(|key| K::from_key(&key)).transpose()?;
        Ok(TypedPage { states, next })
    }
}

/// A page of keys with their values and versions, with the cursor of the next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedPage<K, V, Ver> {
    /// Keys in the order of their encoded bytes, without tombstones.
    pub states: Vec<(K, V, Ver)>,
    /// The cursor: pass it as `after` for the next page. `None` at the end.
    pub next: Option<K>,
}

fn decode_state<V, Ver>(state: State) -> Result<(V, Ver)>
where
    V: DeserializeOwned,
    Ver: TryFrom<Version, Error = Error>,
{
    let value = serde_json::from_slice(&state.value).map_err(|error| {
        let message = format!("the state is no value of the type asked for: {error}");
        Error::new(Code::InvalidValue, message)
    })?;
    Ok((value, state.version.try_into()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryState;
    use mainstay_model::LogicalTime;

    fn state<K, V, Ver>() -> TypedState<K, V, Ver> {
        TypedState::new(Arc::new(MemoryState::new()))
    }

    #[test]
    fn a_deletion_is_remembered_with_its_version() {
        let state = state::<Vec<u8>, String, u64>();
        state.put(&b"k".to_vec(), &"v".to_owned(), 3).unwrap();
        assert_eq!(state.delete(&b"k".to_vec(), 5), Ok(Wrote::Applied));
        assert_eq!(state.put(&b"k".to_vec(), &"late".to_owned(), 4), Ok(Wrote::Stale));
        assert_eq!(state.get(&b"k".to_vec()), Ok(None));
        assert_eq!(state.version(&b"k".to_vec()), Ok(Some(5)));
    }

    #[test]
    fn what_is_of_another_type_is_an_error_and_no_panic() {
        let numbers = state::<u64, u32, u64>();
        numbers.put(&1, &7, 1).unwrap();
        let texts: TypedState<u64, String, u64> = TypedState::new(numbers.space().clone());
        assert_eq!(texts.get(&1).unwrap_err().code(), Code::InvalidValue);
        let times: TypedState<u64, u32, LogicalTime> = TypedState::new(numbers.space().clone());
        assert_eq!(times.get(&1).unwrap_err().code(), Code::InvalidVersion);
        assert_eq!(
            times.put(&1, &7, LogicalTime::new(1, 1)).unwrap_err().code(),
            Code::InvalidVersion
        );
    }

    #[test]
    fn a_snapshot_brings_everything_back() {
        let state = state::<String, Vec<u32>, LogicalTime>();
        state.put(&"a".to_owned(), &vec![1, 2], LogicalTime::new(1, 2)).unwrap();
        let copy: TypedState<String, Vec<u32>, LogicalTime> = self::tests::state();
        copy.put(&"other".to_owned(), &vec![], LogicalTime::new(9, 9)).unwrap();
        assert_eq!(copy.restore(&state.snapshot().unwrap()), Ok(1));
        let all = copy.clone().scan(&[], None, 10).unwrap().states;
        assert_eq!(all, [("a".to_owned(), vec![1, 2], LogicalTime::new(1, 2))]);
    }
}
