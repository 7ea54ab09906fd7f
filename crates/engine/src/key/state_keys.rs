//! Key layout of keyed state.
//!
//! ```text
//!   0a spaces    space
//!   0b entries   space 00 | generation u64 BE | place of the entry     in the format of snapshots, see the model
//!                space 00 | generation u64 BE | 03 | version | key     index of tombstones by version
//! ```
//!
//! A generation is the revision that began to fill the space. Restored data gets a new generation, so it does
//! not mix with older data.

use mainstay_model::{EntryKind, Version};
use smallvec::SmallVec;

/// A name within a key space.
pub(crate) type StateName = SmallVec<[u8; 64]>;

/// Kind byte of the tombstone index. Snapshots do not contain it, because it follows from the states.
const GRAVE: u8 = 3;

/// Returns the common prefix of all keys of one generation of a space.
pub fn life(space: &str, generation: u64) -> StateName {
    let mut place = StateName::from_slice(space.as_bytes());
    place.push(0);
    place.extend_from_slice(&generation.to_be_bytes());
    place
}

/// Returns the prefix of one kind of entries, after the generation.
pub(crate) fn kind(kind: EntryKind) -> [u8; 1] {
    [kind as u8]
}

/// Prefix of the tombstone index.
pub(crate) const GRAVES: [u8; 1] = [GRAVE];

/// Returns the place of a tombstone in the index by version.
pub fn grave(version: Version, key: &[u8]) -> StateName {
    let mut place = StateName::from_slice(&GRAVES);
    place.extend_from_slice(&version.to_bytes());
    place.extend_from_slice(key);
    place
}

/// Splits a name into space, generation and the place of the entry, or returns `None` if it is not such a
/// name.
pub fn split(name: &[u8]) -> Option<(&str, u64, &[u8])> {
    let end = name.iter().position(|byte| *byte == 0)?;
    let (generation, rest) = name[end + 1..].split_first_chunk::<8>()?;
    Some((std::str::from_utf8(&name[..end]).ok()?, u64::from_be_bytes(*generation), rest))
}

/// Returns whether the place belongs to an entry in the format of snapshots.
pub fn is_entry(place: &[u8]) -> bool {
    place.first().is_some_and(|first| EntryKind::ALL.iter().any(|kind| *kind as u8 == *first))
}
