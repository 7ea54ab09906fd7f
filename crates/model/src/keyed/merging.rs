//! A function that merges what is put with what is there.
//!
//! ```text
//!   put(key, b, v) --look--> a at u --merge(a, b)--> write, if the key is still at u --no: look again
//!   in order: b waits ------------------------------ seal: all that waited, in order of versions, then the same
//! ```
//!
//! The function is its user's and runs here, never where writes are executed: what it made of a key's state is written
//! only if that state is still the key's.

use super::{Kept, KeyedState, StateWrite, Version, WaitingEntry, Wrote};
use crate::{Code, Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes one state out of a key's state, if it has one, and what is put to it.
pub type MergeFunction = dyn Fn(&[u8], Option<&[u8]>, &[u8]) -> Result<Vec<u8>> + Send + Sync;

/// A write that is to be merged: its version, and what is put; nothing for a deletion.
type Due = (Version, Option<Vec<u8>>);

/// How often a put is tried anew because somebody else came first.
const TRIES: usize = 1_000;
/// How many writes that waited are settled together.
const PIECE: usize = 10_000;
/// How many bytes are written together, of several keys: one command holds twice as many.
const PIECE_BYTES: usize = 32 << 20;
/// What a write takes beside its key and its state, about.
const WRITE_BYTES: usize = 64;

/// A space with the function that merges what is put to it.
///
/// ```no_run
/// use mainstay_model::{KeyedState, Merging, Result, SpaceOptions};
/// use std::sync::Arc;
/// fn sums(space: Arc<dyn KeyedState>) -> Result<Merging> {
///     space.declare(SpaceOptions::default().merged())?;
///     let number = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
///     Ok(Merging::new(space, move |_key, old, new| {
///         Ok(vec![(number(old.unwrap_or_default()) + number(new)) as u8])
///     }))
/// }
/// ```
#[derive(Clone)]
pub struct Merging {
    space: Arc<dyn KeyedState>,
    merge: Arc<MergeFunction>,
}

impl Merging {
    /// A space, which is declared as merged, and a function of the key, its state and what is put.
    pub fn new(
        space: Arc<dyn KeyedState>,
        merge: impl Fn(&[u8], Option<&[u8]>, &[u8]) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Merging {
        Merging { space, merge: Arc::new(merge) }
    }

    /// The space itself.
    pub fn space(&self) -> &Arc<dyn KeyedState> {
        &self.space
    }

    /// Merges something with a key's state if the version is newer than the key's.
    pub fn put(&self, key: &[u8], value: &[u8], version: Version) -> Result<Wrote> {
        self.apply(key, Some(value), version)
    }

    /// Deletes a key's state if the version is newer than the key's.
    pub fn delete(&self, key: &[u8], version: Version) -> Result<Wrote> {
        self.apply(key, None, version)
    }

    fn apply(&self, key: &[u8], value: Option<&[u8]>, version: Version) -> Result<Wrote> {
        let info = self.space.info()?;
        if info.is_some_and(|info| info.options.ordered) {
            // It waits, and is merged when it is sealed.
            return match value {
                Some(value) => self.space.put(key, value, version),
                None => self.space.delete(key, version),
            };
        }
        for _ in 0..TRIES {
            let kept = self.space.look(&[key])?.pop().flatten();
            if kept.as_ref().is_some_and(|kept| kept.version >= version) {
                return Ok(Wrote::Stale);
            }
            let writes = vec![(version, value.map(<[u8]>::to_vec))];
            let merge = self.merged(key, kept, writes, &[])?;
            match self.space.write(vec![merge])?.first() {
                Some(Wrote::Moved) => {}
                Some(wrote) => return Ok(*wrote),
                None => break,
            }
        }
        let message = format!(
            "key {} is written so often that nothing can be merged with it",
            key.escape_ascii()
        );
        Err(Error::new(Code::Conflict, message))
    }

    /// Closes all versions below the frontier: what waited is merged, in order. Gives how many writes had waited.
    ///
    /// What comes to wait meanwhile is merged in its place, or told that it is stale: never taken and lost.
    pub fn seal(&self, frontier: Version) -> Result<u64> {
        let (mut settled, mut in_vain, mut piece) = (0, 0, PIECE);
        while in_vain < TRIES {
            let waiting = self.space.waiting(Some(frontier), piece)?;
            let count = waiting.len();
            let done = if waiting.is_empty() {
                match unless_conflict(self.space.seal(frontier))? {
                    Some(sealed) => return Ok(settled + sealed),
                    None => 0,
                }
            } else if let Some((done, bytes)) = unless_too_large(self.settle(waiting), count)? {
                // More would fit.
                if bytes < PIECE_BYTES / 2 {
                    piece = (piece * 2).min(PIECE);
                }
                done
            } else {
                piece = count / 2;
                continue;
            };
            settled += done;
            in_vain += usize::from(done == 0);
        }
        let message = format!("writes below {frontier} come as fast as they are sealed");
        Err(Error::new(Code::Conflict, message))
    }

    /// Merges writes that waited with their keys' states; says how many of them are done, none if others came to wait
    /// among them meanwhile, and how many bytes that were.
    fn settle(&self, waiting: Vec<WaitingEntry>) -> Result<(u64, usize)> {
        let newest = waiting.last().map(|entry| entry.version);
        let mut by_key: BTreeMap<Vec<u8>, Vec<Due>> = BTreeMap::new();
        for WaitingEntry { key, version, value } in waiting {
            by_key.entry(key).or_default().push((version, value));
        }
        let keys: Vec<&[u8]> = by_key.keys().map(Vec::as_slice).collect();
        let kept = self.space.look(&keys)?;
        let mut writes = Vec::with_capacity(by_key.len() + 1);
        let mut counts = Vec::with_capacity(by_key.len());
        let mut bytes = 0;
        for ((key, all), kept) in by_key.into_iter().zip(kept) {
            let versions: Vec<Version> = all.iter().map(|(version, _)| *version).collect();
            counts.push(versions.len() as u64);
            let merge = self.merged(&key, kept, all, &versions)?;
            bytes += weight_bytes(&merge);
            if bytes > PIECE_BYTES && !writes.is_empty() {
                return Err(too_large(bytes));
            }
            writes.push(merge);
        }
        // What waits with the newest version itself is overtaken by none of these.
        writes.extend(newest.map(|below| StateWrite::AllSettled { below }));
        let wrote = unless_conflict(self.space.write(writes))?.unwrap_or_default();
        let done = wrote.iter().zip(counts).filter(|(wrote, _)| wrote.took_effect());
        Ok((done.map(|(_, count)| count).sum(), bytes))
    }

    /// What writes in order of their versions make of a key's state.
    fn merged(
        &self,
        key: &[u8],
        kept: Option<Kept>,
        writes: Vec<Due>,
        settles: &[Version],
    ) -> Result<StateWrite> {
        let read = kept.as_ref().map(|kept| kept.version);
        let (mut newest, mut state) = (read, kept.and_then(|kept| kept.value));
        for (version, value) in writes {
            // What is not newer than the key's state is in it, or was overtaken.
            if newest.is_some_and(|newest| version <= newest) {
                continue;
            }
            newest = Some(version);
            state = match value {
                Some(value) => Some((self.merge)(key, state.as_deref(), &value)?),
                None => None,
            };
        }
        let version = newest.ok_or_else(|| {
            Error::new(Code::InvalidArgument, "nothing was given that could be merged")
        })?;
        let (key, settles) = (key.to_vec(), settles.to_vec());
        Ok(StateWrite::Merge { key, value: state, version, read, settles })
    }
}

/// What a merged state takes in a command, with what it settles, about.
fn weight_bytes(merge: &StateWrite) -> usize {
    let StateWrite::Merge { key, value, settles, .. } = merge else { return 0 };
    value.as_ref().map_or(0, Vec::len) + (key.len() + WRITE_BYTES) * (settles.len() + 1)
}

#[cold]
fn too_large(bytes: usize) -> Error {
    let message = format!("{bytes} bytes of merged states at once: {PIECE_BYTES} are the most");
    Error::new(Code::TransactionTooLarge, message)
}

/// Nothing where several writes are too much at once, so that fewer of them are tried.
fn unless_too_large<T>(result: Result<T>, writes: usize) -> Result<Option<T>> {
    match result {
        Err(error) if error.code() == Code::TransactionTooLarge && writes > 1 => Ok(None),
        result => result.map(Some),
    }
}

/// Nothing where something came in between.
fn unless_conflict<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.code() == Code::Conflict => Ok(None),
        result => result.map(Some),
    }
}
