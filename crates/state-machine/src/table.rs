//! Typed tables over the state of a user's machine.

use super::codec::{Codec, Ordered, Postcard};
use super::state::{StateView, stored_key};
use mainstay_model::Result;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// A typed table in the state of a user's machine, with its own key prefix. Tables with different prefixes
/// never share a key, even if one prefix begins with the other.
///
/// By default, keys use an order-preserving encoding ([`Ordered`]) and values use [`Postcard`].
///
/// ```
/// use mainstay_state_machine::{StateView, Table};
///
/// const BALANCES: Table<String, u64> = Table::new("balances");
///
/// fn pay_in(state: &mut StateView<'_>, account: &String, cents: u64) -> mainstay_model::Result<u64> {
///     let balance = BALANCES.get(state, account)?.unwrap_or(0) + cents;
///     BALANCES.put(state, account, &balance)?;
///     Ok(balance)
/// }
/// ```
pub struct Table<K, V, KC = Ordered, VC = Postcard> {
    prefix: &'static str,
    types: PhantomData<Types<K, V, KC, VC>>,
}

/// A phantom function type, because a table does not own keys or values.
type Types<K, V, KC, VC> = fn() -> (K, V, KC, VC);

impl<K, V, KC, VC> Table<K, V, KC, VC> {
    /// Creates a table with a prefix of 1 to 255 bytes. A constant with another length does not compile.
    ///
    /// ```compile_fail
    /// # use mainstay_state_machine::Table;
    /// const NONE: Table<u64, u64> = Table::new("");
    /// # NONE.prefix();
    /// ```
    pub const fn new(prefix: &'static str) -> Table<K, V, KC, VC> {
        assert!(!prefix.is_empty() && prefix.len() <= 255, "a prefix has 1 to 255 bytes");
        Table { prefix, types: PhantomData }
    }

    /// The key prefix.
    pub const fn prefix(&self) -> &'static str {
        self.prefix
    }
}

impl<K, V, KC: Codec<K>, VC: Codec<V>> Table<K, V, KC, VC> {
    /// Returns the value of a key.
    pub fn get(&self, state: &StateView<'_>, key: &K) -> Result<Option<V>> {
        let stored = stored_key(self.prefix, &KC::to_bytes(key)?);
        state.get_stored(&stored).map(VC::decode).transpose()
    }

    /// Writes a value.
    pub fn put(&self, state: &mut StateView<'_>, key: &K, value: &V) -> Result<()> {
        state.put_under(self.prefix, &KC::to_bytes(key)?, VC::to_bytes(value)?)
    }

    /// Removes a key. Returns whether it existed.
    pub fn remove(&self, state: &mut StateView<'_>, key: &K) -> Result<bool> {
        Ok(state.remove_stored(stored_key(self.prefix, &KC::to_bytes(key)?)))
    }

    /// Iterates over all keys and values in the order of the encoded keys.
    pub fn iter<'v>(&self, state: &'v StateView<'_>) -> impl Iterator<Item = Result<(K, V)>> + 'v
    where
        Self: 'v,
    {
        decoded::<K, V, KC, VC>(
            state.range_under(self.prefix, (Bound::Unbounded, Bound::Unbounded)),
        )
    }

    /// Iterates over a range of keys with their values, in the order of the encoded keys.
    pub fn range<'v>(
        &self,
        state: &'v StateView<'_>,
        range: impl RangeBounds<K>,
    ) -> Result<impl Iterator<Item = Result<(K, V)>> + 'v>
    where
        Self: 'v,
    {
        let bounds = (bound::<K, KC>(range.start_bound())?, bound::<K, KC>(range.end_bound())?);
        Ok(decoded::<K, V, KC, VC>(state.range_under(self.prefix, bounds)))
    }
}

fn bound<K, KC: Codec<K>>(bound: Bound<&K>) -> Result<Bound<Vec<u8>>> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(KC::to_bytes(key)?),
        Bound::Excluded(key) => Bound::Excluded(KC::to_bytes(key)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

fn decoded<'v, K, V, KC: Codec<K>, VC: Codec<V>>(
    entries: impl Iterator<Item = (&'v [u8], &'v [u8])>,
) -> impl Iterator<Item = Result<(K, V)>> {
    entries.map(|(key, value)| Ok((KC::decode(key)?, VC::decode(value)?)))
}

impl<K, V, KC, VC> Clone for Table<K, V, KC, VC> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, KC, VC> Copy for Table<K, V, KC, VC> {}

impl<K, V, KC, VC> fmt::Debug for Table<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("prefix", &self.prefix).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::UserState;
    use super::*;

    const NUMBERS: Table<u64, String> = Table::new("number");
    const NUMBER: Table<String, u64> = Table::new("numb");

    #[test]
    fn a_table_has_its_own_keys_in_their_order() {
        let base = UserState::default();
        let mut view = StateView::new(&base);
        for n in [300, 2, 1] {
            NUMBERS.put(&mut view, &n, &format!("n{n}")).unwrap();
        }
        NUMBER.put(&mut view, &"er".to_owned(), &7).unwrap();
        view.put(b"number", "raw").unwrap();
        let keys = |rows: &mut dyn Iterator<Item = Result<(u64, String)>>| -> Vec<u64> {
            rows.map(|row| row.unwrap().0).collect()
        };
        assert_eq!(keys(&mut NUMBERS.iter(&view)), [1, 2, 300]);
        assert_eq!(keys(&mut NUMBERS.range(&view, 2..300).unwrap()), [2]);
        assert_eq!(NUMBER.iter(&view).count(), 1);
        assert_eq!(view.range(..).count(), 1, "raw keys are in no table");
        assert!(NUMBERS.remove(&mut view, &2).unwrap());
        assert_eq!(NUMBERS.get(&view, &2).unwrap(), None);
        assert_eq!(NUMBER.get(&view, &"er".to_owned()).unwrap(), Some(7));
    }
}
