//! The physical limit of a cached read: one lookup in a concurrent map, and a copy of the value.

use foldhash::fast::RandomState;
use mainstay::Value;

/// A map of the same names and values as our cells.
///
/// Papaya's own default is SipHash, which guards against hostile keys; foldhash is what one would
/// take for speed, and so is the limit.
pub struct Map(papaya::HashMap<String, Value, RandomState>);

impl Map {
    /// Fills a map.
    pub fn filled(names: &[String], values: &[String]) -> Map {
        let map = papaya::HashMap::with_capacity_and_hasher(names.len(), RandomState::default());
        let pinned = map.pin();
        for (name, value) in names.iter().zip(values.iter().cycle()) {
            pinned.insert(name.clone(), Value::from(value.as_str()));
        }
        drop(pinned);
        Map(map)
    }

    /// What our `get` does: look it up, give out a copy.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.0.pin().get(name).cloned()
    }
}

/// The same with the hasher papaya comes with.
pub struct DefaultMap(papaya::HashMap<String, Value>);

impl DefaultMap {
    /// Fills a map.
    pub fn filled(names: &[String], values: &[String]) -> DefaultMap {
        let map = papaya::HashMap::with_capacity(names.len());
        let pinned = map.pin();
        for (name, value) in names.iter().zip(values.iter().cycle()) {
            pinned.insert(name.clone(), Value::from(value.as_str()));
        }
        drop(pinned);
        DefaultMap(map)
    }

    /// What our `get` does: look it up, give out a copy.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.0.pin().get(name).cloned()
    }
}
