//! Where what is in a space stands.
//!
//! ```text
//!   0a spaces    space
//!   0b entries   space 00 | generation u64 BE | place of the entry     as snapshots have it, see the model
//!                space 00 | generation u64 BE | 03 | version | key     a key that was deleted with that version
//! ```
//!
//! A generation is the revision that began to fill it: what a restore brings finds nothing of what was before.

use mainstay_model::{EntryKind, Version};
use smallvec::SmallVec;

/// A name as the index knows it.
pub(crate) type StateName = SmallVec<[u8; 64]>;

/// The kind of what deleted keys are found by; snapshots do not have it, for it follows from the states.
const GRAVE: u8 = 3;

/// What all places of one generation of a space begin with.
pub(crate) fn life(space: &str, generation: u64) -> StateName {
    let mut place = StateName::from_slice(space.as_bytes());
    place.push(0);
    place.extend_from_slice(&generation.to_be_bytes());
    place
}

/// What a kind of entries begins with, behind the generation.
pub(crate) fn kind(kind: EntryKind) -> [u8; 1] {
    [kind as u8]
}

/// What those begin with that are found by their deletion.
pub(crate) const GRAVES: [u8; 1] = [GRAVE];

/// Where a deleted key is found by its version.
pub(crate) fn grave(version: Version, key: &[u8]) -> StateName {
    let mut place = StateName::from_slice(&GRAVES);
    place.extend_from_slice(&version.to_bytes());
    place.extend_from_slice(key);
    place
}

/// Space, generation, and the entry's place; nothing for what is no such place.
pub(crate) fn split(name: &[u8]) -> Option<(&str, u64, &[u8])> {
    let end = name.iter().position(|byte| *byte == 0)?;
    let (generation, rest) = name[end + 1..].split_first_chunk::<8>()?;
    Some((std::str::from_utf8(&name[..end]).ok()?, u64::from_be_bytes(*generation), rest))
}

/// Whether what stands there is an entry as snapshots have it.
pub(crate) fn is_entry(place: &[u8]) -> bool {
    place.first().is_some_and(|first| EntryKind::ALL.iter().any(|kind| *kind as u8 == *first))
}
