//! Serde form of the durability: `"sync"`, `"interval"` or `"memory"`.

use mainstay::Durability;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Durability", rename_all = "lowercase")]
enum Written {
    Memory,
    Interval,
    Sync,
}

pub fn serialize<S: Serializer>(durability: &Durability, to: S) -> Result<S::Ok, S::Error> {
    Written::serialize(durability, to)
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Durability, D::Error> {
    Written::deserialize(from)
}
