//! Upper bound of a cached read: one lookup in a concurrent map, and a copy of the value.

use foldhash::fast::RandomState;
use mainstay::Value;

/// A map with the same names and values as our cells.
///
/// Papaya's default hasher is SipHash, which protects against hostile keys. This map uses foldhash, the
/// choice for speed, so that it is the upper bound.
pub struct Map(papaya::HashMap<String, Value, RandomState>);

impl Map {
    /// Creates and fills a map.
    pub fn filled(names: &[String], values: &[String]) -> Map {
        let map = papaya::HashMap::with_capacity_and_hasher(names.len(), RandomState::default());
        let pinned = map.pin();
        for (name, value) in names.iter().zip(values.iter().cycle()) {
            pinned.insert(name.clone(), Value::from(value.as_str()));
        }
        drop(pinned);
        Map(map)
    }

    /// Looks up a value and copies it, as our `get` does.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.0.pin().get(name).cloned()
    }
}

/// The same with papaya's default hasher.
pub struct DefaultMap(papaya::HashMap<String, Value>);

impl DefaultMap {
    /// Creates and fills a map.
    pub fn filled(names: &[String], values: &[String]) -> DefaultMap {
        let map = papaya::HashMap::with_capacity(names.len());
        let pinned = map.pin();
        for (name, value) in names.iter().zip(values.iter().cycle()) {
            pinned.insert(name.clone(), Value::from(value.as_str()));
        }
        drop(pinned);
        DefaultMap(map)
    }

    /// Looks up a value and copies it, as our `get` does.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.0.pin().get(name).cloned()
    }
}
