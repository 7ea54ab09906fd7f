//! Read-merge-write loop that combines puts with a user's merge function, by optimistic concurrency.
//!
//! ```text
//!   put(key, b, v) --look--> a at u --merge(a, b)--> write, if the key is still at u --no: retry
//!   in order: b waits ------------------------------ seal: all waiting writes, in version order, then the same
//! ```
//!
//! The merge function belongs to the user and runs here, never on the writer thread. Its result is written
//! only if the key's state has not changed since it was read.

use super::{Kept, KeyedState, StateWrite, Version, WaitingEntry, Wrote};
use crate::{Code, Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Merges a put value with the key's state, if it has one. Returns the new state.
pub type MergeFunction = dyn Fn(&[u8], Option<&[u8]>, &[u8]) -> Result<Vec<u8>> + Send + Sync;

/// A write to merge: its version and its value, or `None` for a deletion.
type Due = (Version, Option<Vec<u8>>);

/// How often a put is retried after a conflict with another writer.
const TRIES: usize = 1_000;
/// The most waiting writes that are settled in one batch.
const PIECE: usize = 10_000;
/// The most bytes in one batch of several keys. One command may hold twice as many.
const PIECE_BYTES: usize = 32 << 20;
/// The approximate overhead of a write beside its key and state, in bytes.
const WRITE_BYTES: usize = 64;

/// A space with its merge function.
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
    /// Combines a space, which must be declared as merged, with a function of the key, its state and the put
    /// value.
    pub fn new(
        space: Arc<dyn KeyedState>,
        merge: impl Fn(&[u8], Option<&[u8]>, &[u8]) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Merging {
        Merging { space, merge: Arc::new(merge) }
    }

    /// The underlying space.
    pub fn space(&self) -> &Arc<dyn KeyedState> {
        &self.space
    }

    /// Merges a value with a key's state if the version is newer than the key's.
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
            // The write waits and is merged when its version is sealed.
            return match value {
                Some(value) => self.space.put(key, value, version),
                None => self.space.delete(key, version),
            };
        }
        // Optimistic concurrency: retry while other writers change the key.
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

    /// Seals all versions below the frontier: merges the waiting writes in order. Returns the number of
    /// waiting writes.
    ///
    /// A write that starts to wait in the meantime is either merged in its order or answered as stale. None
    /// is lost.
    pub fn seal(&self, frontier: Version) -> Result<u64> {
        let mut settled = 0;
        let mut in_vain = 0;
        let mut piece = PIECE;
        while in_vain < TRIES {
            let waiting = self.space.waiting(Some(frontier), piece)?;
            let count = waiting.len();
            let done = if waiting.is_empty() {
                match unless_conflict(self.space.seal(frontier))? {
                    Some(sealed) => return Ok(settled + sealed),
                    None => 0,
                }
            } else if let Some((done, bytes)) = unless_too_large(self.settle(waiting), count)? {
                // The batch was small, so double the next one.
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

    /// Merges waiting writes with their keys' states. Returns the number of settled writes and the batch size
    /// in bytes. The number is zero if other writes started to wait among them in the meantime.
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
        // A write that waits with the newest version itself cannot be overtaken by this batch.
        writes.extend(newest.map(|below| StateWrite::AllSettled { below }));
        let wrote = unless_conflict(self.space.write(writes))?.unwrap_or_default();
        let done = wrote.iter().zip(counts).filter(|(wrote, _)| wrote.took_effect());
        Ok((done.map(|(_, count)| count).sum(), bytes))
    }

    /// Applies writes in version order to a key's state.
    fn merged(
        &self,
        key: &[u8],
        kept: Option<Kept>,
        writes: Vec<Due>,
        settles: &[Version],
    ) -> Result<StateWrite> {
        let read = kept.as_ref().map(|kept| kept.version);
        let mut newest = read;
        let mut state = kept.and_then(|kept| kept.value);
        for (version, value) in writes {
            // A version that is not newer than the key's is already in the state, or was overtaken.
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
        let key = key.to_vec();
        let settles = settles.to_vec();
        Ok(StateWrite::Merge { key, value: state, version, read, settles })
    }
}

/// The approximate size in a command of a merged state and the versions it settles, in bytes.
fn weight_bytes(merge: &StateWrite) -> usize {
    let StateWrite::Merge { key, value, settles, .. } = merge else { return 0 };
    value.as_ref().map_or(0, Vec::len) + (key.len() + WRITE_BYTES) * (settles.len() + 1)
}

#[cold]
fn too_large(bytes: usize) -> Error {
    let message = format!("{bytes} bytes of merged states at once: {PIECE_BYTES} are the most");
    Error::new(Code::TransactionTooLarge, message)
}

/// Maps `TransactionTooLarge` for several writes to `None`, so that the caller retries with fewer.
fn unless_too_large<T>(result: Result<T>, writes: usize) -> Result<Option<T>> {
    match result {
        Err(error) if error.code() == Code::TransactionTooLarge && writes > 1 => Ok(None),
        result => result.map(Some),
    }
}

/// Maps a conflict to `None`.
fn unless_conflict<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.code() == Code::Conflict => Ok(None),
        result => result.map(Some),
    }
}
