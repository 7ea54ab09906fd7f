//! Key groups: the unit of rescaling, assigned by a hash of the key.
//!
//! ```text
//!   key --XXH3, 64 bits--> hash --its upper half, scaled--> group in 0..groups
//! ```
//!
//! The hash function never changes, so a key stays in its group forever.

use xxhash_rust::xxh3::xxh3_64;

/// The default number of key groups.
pub const GROUPS_DEFAULT: u32 = 128;
/// The highest number of key groups.
pub const GROUPS_LIMIT: u32 = 32_768;

/// Returns the group of a key, out of `groups`.
///
/// ```
/// use mainstay_model::key_group;
/// assert!(key_group(b"user-7", 128) < 128);
/// assert_eq!(key_group(b"user-7", 1), 0);
/// ```
pub fn key_group(key: &[u8], groups: u32) -> u32 {
    let upper = xxh3_64(key) >> 32;
    ((upper * u64::from(groups)) >> 32) as u32
}

/// A selection of a space's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySelection {
    /// Exactly these keys.
    Keys(std::collections::BTreeSet<Vec<u8>>),
    /// The keys with this prefix.
    Prefix(Vec<u8>),
    /// The keys of a range of groups.
    Groups {
        /// The total number of groups.
        of: u32,
        /// The selected groups.
        groups: std::ops::Range<u32>,
    },
}

impl KeySelection {
    /// Returns whether the selection contains a key.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            KeySelection::Keys(keys) => keys.contains(key),
            KeySelection::Prefix(prefix) => key.starts_with(prefix),
            KeySelection::Groups { of, groups } => groups.contains(&key_group(key, *of)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These values must never change, because stored states lie in these groups.
    #[test]
    fn groups_never_change() {
        // Computed with another implementation of the hash.
        let keys: [(&[u8], u32, u32); 5] = [
            (b"", 128, 22),
            (b"a", 128, 115),
            (b"user-7", 128, 88),
            (b"user-7", 32_768, 22_767),
            (&[0xff; 1024], 128, 72),
        ];
        for (key, groups, expected) in keys {
            assert_eq!(key_group(key, groups), expected, "{key:?} of {groups}");
        }
    }

    #[test]
    fn keys_are_spread_over_all_groups() {
        let mut seen = [0_u32; 128];
        for n in 0..128_000_u64 {
            seen[key_group(&n.to_be_bytes(), 128) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    }
}
