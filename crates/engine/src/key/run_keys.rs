//! Where what belongs to a run stands.
//!
//! ```text
//!   03 heads      run
//!   04 events     run 00 | generation u64 BE | sequence u64 BE          sequence 0: what the run was made with
//!   05 keys       run 00 | generation u64 BE | idempotency key
//!   07 states     run 00 | generation u64 BE | 00 | sequence u64 BE     snapshots that are kept
//!                 run 00 | generation u64 BE | 01 | reducer             states of users' reducers
//!                 run 00 | 0 u64 BE | 02                                the head of a run that nobody sees yet
//!   08 alerts     run 00 | generation u64 BE | sequence u64 BE
//! ```
//!
//! A generation is the revision that made the run: a run that is made again has another one, and finds nothing
//! of what was before.

use mainstay_model::put_text;
use smallvec::SmallVec;

/// A name as an index knows it.
pub(crate) type RunName = SmallVec<[u8; 64]>;

const KEPT: u8 = 0;
const OF_USERS: u8 = 1;
const HIDDEN: u8 = 2;

/// What all places of one life of a run begin with.
pub(crate) fn life(run: &str, generation: u64) -> RunName {
    let mut place = RunName::from_slice(run.as_bytes());
    place.push(0);
    place.extend_from_slice(&generation.to_be_bytes());
    place
}

/// An event, or an alert about it.
pub(crate) fn at(run: &str, generation: u64, seq: u64) -> RunName {
    let mut place = life(run, generation);
    place.extend_from_slice(&seq.to_be_bytes());
    place
}

/// An idempotency key, in its shortest form.
pub(crate) fn key(run: &str, generation: u64, key: &str) -> RunName {
    let mut bytes = Vec::with_capacity(64);
    put_text(key, &mut bytes);
    let mut place = life(run, generation);
    place.extend_from_slice(&bytes);
    place
}

/// A snapshot that is kept.
pub(crate) fn snapshot(run: &str, generation: u64, seq: u64) -> RunName {
    let mut place = life(run, generation);
    place.push(KEPT);
    place.extend_from_slice(&seq.to_be_bytes());
    place
}

/// What a reducer of a user has made.
pub(crate) fn state(run: &str, generation: u64, reducer: &str) -> RunName {
    let mut place = life(run, generation);
    place.push(OF_USERS);
    place.extend_from_slice(reducer.as_bytes());
    place
}

/// The head of a run that is restored and that nobody sees yet. It belongs to no life: no revision is 0.
pub(crate) fn hidden(run: &str) -> RunName {
    let mut place = life(run, 0);
    place.push(HIDDEN);
    place
}

/// The run, and what follows its generation; nothing for what is no such place.
pub(crate) fn split(place: &[u8]) -> Option<(&str, u64, &[u8])> {
    let end = place.iter().position(|byte| *byte == 0)?;
    let (generation, rest) = place[end + 1..].split_first_chunk::<8>()?;
    Some((std::str::from_utf8(&place[..end]).ok()?, u64::from_be_bytes(*generation), rest))
}

/// Whether a key of the space of events is that of an event, and not of what its run was made with.
pub(crate) fn is_event(key: &[u8]) -> bool {
    !key.ends_with(&0_u64.to_be_bytes())
}

/// The event that a snapshot was kept at, by what follows the generation; nothing for a user's state.
pub(crate) fn kept_seq(rest: &[u8]) -> Option<u64> {
    rest.strip_prefix(&[KEPT]).and_then(seq)
}

/// The sequence at the end of a place.
pub(crate) fn seq(rest: &[u8]) -> Option<u64> {
    rest.try_into().ok().map(u64::from_be_bytes)
}
