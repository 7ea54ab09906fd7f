//! State of a user's machine, and the copy-on-write view for its functions.
//!
//! ```text
//!   function ---> StateView:  writes of this call     (over)    writes of all earlier calls
//!                     |
//!      it succeeds: merged at once      it fails, or panics: dropped, nothing has changed
//!
//!   key   length of the prefix u8 | prefix | key          raw keys have an empty prefix
//! ```
//!
//! The prefix length comes first, so that a key of one table can never equal a key of another. Sessions are
//! stored elsewhere, so no key leads to them.

use mainstay_model::STATE_KEY_LIMIT_BYTES;
use mainstay_model::limits::{TRANSACTION_LIMIT_BYTES, VALUE_LIMIT_BYTES};
use mainstay_model::{Code, Error, Result};
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::{Bound, RangeBounds};

/// The writes of one call: values, or `None` for removals.
pub(super) type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The prefix of raw keys.
const RAW: &str = "";

/// The committed writes of a user's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UserState {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

impl UserState {
    pub(super) fn merge(&mut self, writes: Writes) {
        for (key, value) in writes {
            self.set(key, value);
        }
    }

    pub(super) fn set(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let key_bytes = key.len();
        let added = value.as_ref().map_or(0, |value| key_bytes + value.len());
        let old = match value {
            Some(value) => self.entries.insert(key, value),
            None => self.entries.remove(&key),
        };
        self.bytes = self.bytes + added - old.map_or(0, |old| key_bytes + old.len());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
        self.entries.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns whether these bytes are a valid stored key.
pub(super) fn is_stored_key(key: &[u8]) -> bool {
    let Some((&prefix_bytes, rest)) = key.split_first() else { return false };
    let Some(key_bytes) = rest.len().checked_sub(usize::from(prefix_bytes)) else { return false };
    key_bytes <= STATE_KEY_LIMIT_BYTES
}

/// Encodes a stored key. Prefixes have at most 255 bytes, which [`Table`](super::Table) ensures.
pub(super) fn stored_key(prefix: &str, key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(1 + prefix.len() + key.len());
    stored.push(prefix.len() as u8);
    stored.extend_from_slice(prefix.as_bytes());
    stored.extend_from_slice(key);
    stored
}

/// The view of the state for one call of a user function: byte keys in order. The call sees its own writes.
/// Later calls see them once the function has succeeded.
///
/// A [`Table`](super::Table) adds types to keys and values. The functions here access raw keys, which belong
/// to no table.
///
/// ```
/// use mainstay_state_machine::StateView;
/// fn rename(state: &mut StateView<'_>, from: &[u8], to: &[u8]) -> mainstay_model::Result<()> {
///     if let Some(value) = state.get(from) {
///         let value = value.to_vec();
///         state.put(to, value)?;
///         state.remove(from);
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct StateView<'s> {
    base: &'s UserState,
    writes: Writes,
    written_bytes: usize,
}

impl<'s> StateView<'s> {
    pub(super) fn new(base: &'s UserState) -> StateView<'s> {
        StateView { base, writes: Writes::new(), written_bytes: 0 }
    }

    pub(super) fn into_writes(self) -> Writes {
        self.writes
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.get_stored(&stored_key(RAW, key))
    }

    /// Writes a value. Fails for keys of more than 1,024 bytes, values of more than 16 MiB, and more than 64
    /// MiB in one call.
    pub fn put(&mut self, key: &[u8], value: impl Into<Vec<u8>>) -> Result<()> {
        self.put_under(RAW, key, value.into())
    }

    /// Removes a key. Returns whether it existed.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.remove_stored(stored_key(RAW, key))
    }

    /// Iterates over a range of keys with their values, in key order.
    pub fn range(&self, range: impl RangeBounds<Vec<u8>>) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.range_under(RAW, (range.start_bound().cloned(), range.end_bound().cloned()))
    }

    /// Iterates over the keys with a prefix and their values, in key order.
    pub fn scan<'v>(&'v self, prefix: &'v [u8]) -> impl Iterator<Item = (&'v [u8], &'v [u8])> {
        self.range(prefix.to_vec()..).take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Discards all writes of this call so far. Use it before returning an error response that must have no
    /// effect.
    pub fn revert(&mut self) {
        self.writes.clear();
        self.written_bytes = 0;
    }

    pub(super) fn get_stored(&self, key: &[u8]) -> Option<&[u8]> {
        match self.writes.get(key) {
            Some(written) => written.as_deref(),
            None => self.base.entries.get(key).map(Vec::as_slice),
        }
    }

    pub(super) fn put_under(&mut self, prefix: &str, key: &[u8], value: Vec<u8>) -> Result<()> {
        let written_bytes = self.written_bytes + prefix.len() + key.len() + value.len();
        check_write(key, &value, written_bytes)?;
        self.written_bytes = written_bytes;
        self.writes.insert(stored_key(prefix, key), Some(value));
        Ok(())
    }

    pub(super) fn remove_stored(&mut self, key: Vec<u8>) -> bool {
        let was_there = self.get_stored(&key).is_some();
        if was_there {
            self.writes.insert(key, None);
        }
        was_there
    }

    /// Iterates over the keys under a prefix, without the prefix.
    pub(super) fn range_under(
        &self,
        prefix: &str,
        range: Bounds,
    ) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bounds = stored_bounds(prefix, range);
        let (base, writes) = if is_empty(&bounds) {
            (None, None)
        } else {
            let base = self.base.entries.range(bounds.clone());
            (Some(base), Some(self.writes.range(bounds)))
        };
        let merged = Merged {
            base: base.into_iter().flatten().peekable(),
            writes: writes.into_iter().flatten().peekable(),
        };
        let skipped = 1 + prefix.len();
        merged.map(move |(key, value)| (&key[skipped..], value.as_slice()))
    }
}

fn check_write(key: &[u8], value: &[u8], written_bytes: usize) -> Result<()> {
    let refuse = |message: String| Err(Error::new(Code::ValueTooLarge, message));
    if key.len() > STATE_KEY_LIMIT_BYTES {
        return refuse(format!(
            "a key has {} bytes: {STATE_KEY_LIMIT_BYTES} are the most",
            key.len()
        ));
    }
    if value.len() > VALUE_LIMIT_BYTES {
        return refuse(format!(
            "a value has {} bytes: {VALUE_LIMIT_BYTES} are the most",
            value.len()
        ));
    }
    if written_bytes > TRANSACTION_LIMIT_BYTES {
        return refuse(format!("one call writes more than {TRANSACTION_LIMIT_BYTES} bytes"));
    }
    Ok(())
}

/// Converts bounds to those of stored keys under exactly this prefix.
fn stored_bounds(prefix: &str, (from, to): Bounds) -> Bounds {
    let stored = |bound: Bound<Vec<u8>>| bound.map(|key| stored_key(prefix, &key));
    let from = match from {
        Bound::Unbounded => Bound::Included(stored_key(prefix, b"")),
        from => stored(from),
    };
    let to = match to {
        Bound::Unbounded => behind_all(prefix),
        to => stored(to),
    };
    (from, to)
}

/// The lowest stored key after all keys of a prefix. Prefixes are UTF-8, so the last byte is never 0xff and
/// can be raised.
fn behind_all(prefix: &str) -> Bound<Vec<u8>> {
    let mut key = stored_key(prefix, b"");
    if let Some(last) = key.last_mut() {
        *last += 1;
    }
    Bound::Excluded(key)
}

/// Returns whether a range ends before it begins. `BTreeMap::range` would panic on it.
fn is_empty((from, to): &Bounds) -> bool {
    match (from, to) {
        (Bound::Excluded(from), Bound::Excluded(to)) => from >= to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from > to,
        _ => false,
    }
}

/// Merge of two sorted iterators. For equal keys the written value wins, and a removal hides the base value.
struct Merged<B: Iterator, W: Iterator> {
    base: Peekable<B>,
    writes: Peekable<W>,
}

type BaseEntry<'v> = (&'v Vec<u8>, &'v Vec<u8>);
type WrittenEntry<'v> = (&'v Vec<u8>, &'v Option<Vec<u8>>);

impl<'v, B, W> Iterator for Merged<B, W>
where
    B: Iterator<Item = BaseEntry<'v>>,
    W: Iterator<Item = WrittenEntry<'v>>,
{
    type Item = BaseEntry<'v>;

    fn next(&mut self) -> Option<BaseEntry<'v>> {
        loop {
            let Some((key, _)) = self.writes.peek() else { return self.base.next() };
            if let Some(earlier) = self.base.next_if(|(base, _)| base < key) {
                return Some(earlier);
            }
            self.base.next_if(|(base, _)| base == key);
            if let Some((key, Some(value))) = self.writes.next() {
                return Some((key, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(entries: &[(&str, &str, &str)]) -> UserState {
        let mut state = UserState::default();
        for (prefix, key, value) in entries {
            state.set(stored_key(prefix, key.as_bytes()), Some(value.as_bytes().to_vec()));
        }
        state
    }

    fn shown<'v>(entries: impl Iterator<Item = (&'v [u8], &'v [u8])>) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        entries.map(|(k, v)| format!("{}={} ", text(k), text(v))).collect()
    }

    #[test]
    fn a_call_sees_its_own_writes_over_those_of_others() {
        let base = state(&[("", "a", "1"), ("", "c", "3"), ("", "d", "4")]);
        let mut view = StateView::new(&base);
        view.put(b"b", "2").unwrap();
        view.put(b"c", "33").unwrap();
        assert!(view.remove(b"d") && !view.remove(b"d") && !view.remove(b"e"));
        assert_eq!(shown(view.range(..)), "a=1 b=2 c=33 ");
        assert_eq!(view.get(b"c"), Some(&b"33"[..]));
        assert_eq!(view.get(b"d"), None);
        assert_eq!(shown(view.range(b"b".to_vec()..b"c".to_vec())), "b=2 ");
        assert_eq!(shown(view.scan(b"c")), "c=33 ");
        view.revert();
        assert_eq!(shown(view.range(..)), "a=1 c=3 d=4 ");
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_empty() {
        let base = state(&[("", "b", "1")]);
        let view = StateView::new(&base);
        assert_eq!(view.range(b"c".to_vec()..b"a".to_vec()).count(), 0);
        let both = (Bound::Excluded(b"b".to_vec()), Bound::Excluded(b"b".to_vec()));
        assert_eq!(view.range(both).count(), 0);
        assert_eq!(view.range(b"b".to_vec()..=b"b".to_vec()).count(), 1);
    }

    #[test]
    fn prefixes_do_not_run_into_each_other() {
        let base = state(&[("a", "bc", "1"), ("ab", "c", "2"), ("", "abc", "3"), ("b", "", "4")]);
        assert_eq!(base.len(), 4);
        let view = StateView::new(&base);
        let all = || (Bound::Unbounded, Bound::Unbounded);
        let shown = ["a", "ab", "", "b"].map(|prefix| shown(view.range_under(prefix, all())));
        assert_eq!(shown, ["bc=1 ", "c=2 ", "abc=3 ", "=4 "]);
    }

    #[test]
    fn bytes_are_counted_as_they_come_and_go() {
        let mut state = state(&[("", "a", "1")]);
        state.set(stored_key("", b"a"), Some(vec![0; 10]));
        state.set(stored_key("t", b"b"), Some(vec![0; 5]));
        assert_eq!((state.len(), state.bytes()), (2, 2 + 10 + 3 + 5));
        state.set(stored_key("", b"a"), None);
        state.set(stored_key("", b"a"), None);
        assert_eq!((state.len(), state.bytes()), (1, 3 + 5));
    }

    #[test]
    fn limits_of_keys_and_values_are_exact() {
        let base = UserState::default();
        let mut view = StateView::new(&base);
        let long = [b'k'; STATE_KEY_LIMIT_BYTES + 1];
        assert!(view.put(&long[1..], vec![0; VALUE_LIMIT_BYTES]).is_ok());
        assert!(view.put(&long, "").is_err());
        assert!(view.put(b"k", vec![0; VALUE_LIMIT_BYTES + 1]).is_err());
        for _ in 0..2 {
            view.put(b"k", vec![0; VALUE_LIMIT_BYTES]).unwrap();
        }
        assert_eq!(
            view.put(b"k", vec![0; VALUE_LIMIT_BYTES]).unwrap_err().code(),
            Code::ValueTooLarge
        );
    }
}
