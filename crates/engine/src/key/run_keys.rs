//! Key layout of runs.
//!
//! ```text
//!   03 heads      run
//!   04 events     run 00 | generation u64 BE | sequence u64 BE          sequence 0: the creation metadata of the run
//!   05 keys       run 00 | generation u64 BE | idempotency key
//!   07 states     run 00 | generation u64 BE | 00 | sequence u64 BE     stored snapshots
//!                 run 00 | generation u64 BE | 01 | reducer             states of users' reducers
//!                 run 00 | 0 u64 BE | 02                                the head of a run in a staged restore
//!   08 alerts     run 00 | generation u64 BE | sequence u64 BE
//! ```
//!
//! A generation is the revision that created the run. A run that is created again gets a new generation, so
//! it cannot see data of the deleted one.

use mainstay_model::put_text;
use smallvec::SmallVec;

/// A name within a key space.
pub type RunName = SmallVec<[u8; 64]>;

const KEPT: u8 = 0;
const OF_USERS: u8 = 1;
const HIDDEN: u8 = 2;

/// Returns the common prefix of all keys of one generation of a run.
pub fn life(run: &str, generation: u64) -> RunName {
    let mut place = RunName::from_slice(run.as_bytes());
    place.push(0);
    place.extend_from_slice(&generation.to_be_bytes());
    place
}

/// Returns the name of an event or of its alert.
pub fn at(run: &str, generation: u64, seq: u64) -> RunName {
    let mut place = life(run, generation);
    place.extend_from_slice(&seq.to_be_bytes());
    place
}

/// Returns the name of an idempotency key, encoded in its shortest form.
pub fn key(run: &str, generation: u64, key: &str) -> RunName {
    let mut bytes = Vec::with_capacity(64);
    put_text(key, &mut bytes);
    let mut place = life(run, generation);
    place.extend_from_slice(&bytes);
    place
}

/// Returns the name of a stored snapshot.
pub fn snapshot(run: &str, generation: u64, seq: u64) -> RunName {
    let mut place = life(run, generation);
    place.push(KEPT);
    place.extend_from_slice(&seq.to_be_bytes());
    place
}

/// Returns the name of the state of a user's reducer.
pub fn state(run: &str, generation: u64, reducer: &str) -> RunName {
    let mut place = life(run, generation);
    place.push(OF_USERS);
    place.extend_from_slice(reducer.as_bytes());
    place
}

/// Returns the name of the head of a run that is being restored and is not visible yet. It belongs to no
/// generation, because no revision is 0.
pub(crate) fn hidden(run: &str) -> RunName {
    let mut place = life(run, 0);
    place.push(HIDDEN);
    place
}

/// Splits a name into run, generation and the rest, or returns `None` if it is not such a name.
pub fn split(place: &[u8]) -> Option<(&str, u64, &[u8])> {
    let end = place.iter().position(|byte| *byte == 0)?;
    let (generation, rest) = place[end + 1..].split_first_chunk::<8>()?;
    Some((std::str::from_utf8(&place[..end]).ok()?, u64::from_be_bytes(*generation), rest))
}

/// Returns whether a name in the space of events is an event. The other names hold the creation metadata of a
/// run.
pub(crate) fn is_event(key: &[u8]) -> bool {
    !key.ends_with(&0_u64.to_be_bytes())
}

/// Returns the sequence number of a stored snapshot from the bytes after the generation, or `None` for a
/// user's state.
pub fn kept_seq(rest: &[u8]) -> Option<u64> {
    rest.strip_prefix(&[KEPT]).and_then(seq)
}

/// Decodes the sequence number at the end of a name.
pub fn seq(rest: &[u8]) -> Option<u64> {
    rest.try_into().ok().map(u64::from_be_bytes)
}
