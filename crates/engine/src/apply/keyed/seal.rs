//! Sealing: closes versions below a frontier (a watermark), in batches.
//!
//! ```text
//!   waiting below the frontier --a batch--> applied in version order
//!   frontier                   --rises to the first version still waiting, at most right after the last tombstone
//!   tombstones below that      --a batch--> removed
//! ```
//!
//! Some tombstones with the version right below the frontier may remain. Writes with that version are stale
//! already, and the next batch begins with it. Thus any number of keys can be deleted with one version.

use super::write::{SpaceWriter, is_stale};
use crate::key::keyspace::KEYED;
use crate::key::state_keys;
use mainstay_model::{Code, EntryKind, EntryRef, Error, Result, Version};

/// A batch ends once it has this many bytes.
const PIECE_BYTES: usize = 16 << 20;

/// Outcome of one batch of sealing.
pub(crate) struct SealOutcome {
    /// Number of waiting writes that were handled.
    pub settled: u64,
    /// Whether the frontier has reached the requested version and no tombstones are left below it.
    pub done: bool,
}

/// Version and key of a tombstone.
type StateTombstone = (Version, Vec<u8>);

/// A write that waits until its version is sealed.
struct WaitingWrite {
    version: Version,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl SpaceWriter<'_> {
    /// Closes versions below a frontier, in a batch of at most `limit` waiting writes and `limit` tombstones.
    pub fn seal(&mut self, frontier: Version, limit: usize) -> Result<SealOutcome> {
        self.declared.info.check_version(frontier)?;
        if self.declared.info.frontier.is_some_and(|before| before > frontier) {
            return Ok(SealOutcome { settled: 0, done: true });
        }
        let (graves, last_grave) = self.graves(frontier, limit)?;
        let (waiting, beyond) = self.due(frontier, limit)?;
        if self.declared.info.options.merged && !waiting.is_empty() {
            return Err(unsettled(self.space.as_str(), frontier));
        }
        // If the batch ended within the waiting writes of a version, the frontier stops at that version,
        // because more of them may wait. If it ended within the tombstones of a version, the frontier may
        // pass that version, which makes all writes with it stale.
        let reached = [beyond, last_grave.and_then(Version::next)];
        let reached = reached.into_iter().flatten().min().unwrap_or(frontier);
        let settled = waiting.len() as u64;
        waiting.into_iter().try_for_each(|due| self.settle(due, reached))?;
        // A waiting write may be older than a tombstone, so the tombstones are removed last.
        for (version, key) in graves {
            if version < reached {
                self.forget(&key, version)?;
            }
        }
        let done = reached == frontier && last_grave.is_none();
        if self.declared.info.frontier < Some(reached) {
            self.fix_kind(frontier);
            self.declared.info.frontier = Some(reached);
            self.changed = true;
        }
        Ok(SealOutcome { settled, done })
    }

    /// Applies a waiting write if it is newer than the key's state. A deletion below the new frontier leaves
    /// no tombstone.
    fn settle(&mut self, due: WaitingWrite, reached: Version) -> Result<()> {
        let WaitingWrite { version, key, value } = due;
        self.clear_waiting(version, &key)?;
        let (seen, had) = self.see(&key)?;
        if is_stale(had, version) {
            return Ok(());
        }
        if value.is_none() && version < reached {
            self.clear_state(&key)
        } else {
            self.set_state(&key, seen, had, version, value.as_deref())
        }
    }

    /// Returns a batch of tombstones with versions below `below`, and the version within which the batch
    /// ended.
    fn graves(
        &self,
        below: Version,
        limit: usize,
    ) -> Result<(Vec<StateTombstone>, Option<Version>)> {
        let mut graves = Vec::new();
        let from = self.declared.info.frontier.and_then(Version::previous);
        let left_off = self.below(&state_keys::GRAVES, from, below, |version, key, _| {
            graves.push((version, key.to_vec()));
            Ok(graves.len() < limit)
        })?;
        Ok((graves, left_off))
    }

    /// Returns a batch of waiting writes with versions below `below`, and the version within which the batch
    /// ended.
    fn due(&self, below: Version, limit: usize) -> Result<(Vec<WaitingWrite>, Option<Version>)> {
        let mut waiting = Vec::new();
        let mut bytes = 0;
        let kind = state_keys::kind(EntryKind::Waiting);
        // No write waits below the current frontier.
        let from = self.declared.info.frontier;
        let left_off = self.below(&kind, from, below, |version, key, payload| {
            let place = EntryKind::waiting(version, key);
            let entry = EntryRef::from_parts(&place, Some(payload), Some(version.kind()))?;
            let EntryRef::Waiting { value, .. } = entry else { return Ok(true) };
            bytes += key.len() + payload.len() + 256;
            let key = key.to_vec();
            let value = value.map(<[u8]>::to_vec);
            waiting.push(WaitingWrite { version, key, value });
            Ok(waiting.len() < limit && bytes < PIECE_BYTES)
        })?;
        Ok((waiting, left_off))
    }

    /// Visits entries that are ordered by version, from `from` and below `below`, until `visit` returns
    /// `false`. In that case returns the version of the last entry.
    fn below(
        &self,
        kind: &[u8],
        from: Option<Version>,
        below: Version,
        mut visit: impl FnMut(Version, &[u8], &[u8]) -> Result<bool>,
    ) -> Result<Option<Version>> {
        let life = state_keys::life(self.space.as_str(), self.declared.generation);
        let prefix = [&life[..], kind].concat();
        // A version without a key sorts before all keys of that version.
        let from = from.map(Version::to_bytes).unwrap_or_default();
        let from = [&prefix[..], &from].concat();
        let mut walk = self.view.walk(self.overlay, KEYED, &prefix, Some(&from));
        while let Some(step) = walk.next()? {
            if step.head.is_deleted() {
                continue;
            }
            let split = step.name()[prefix.len()..].split_at_checked(below.kind().bytes());
            let Some((version, key)) = split else { continue };
            let Some(version) = Version::from_bytes(version) else { continue };
            if version >= below {
                break;
            }
            if !visit(version, key, step.payload())? {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }
}

#[cold]
fn unsettled(space: &str, frontier: Version) -> Error {
    let message = format!(
        "writes to `{space}` with versions below {frontier} wait for the function that merges them: settle them first"
    );
    Error::new(Code::Conflict, message)
}
