//! Sealing: versions below the frontier are closed, in pieces.
//!
//! ```text
//!   waiting below the frontier --at most so many--> applied in order of versions
//!   frontier                   --rises as far as nothing waits any more: at most right behind the last grave
//!   graves below that          --at most so many--> forgotten
//! ```
//!
//! Of the version right below the frontier some graves may be left: what comes with that version is stale already, and the
//! next piece begins there. So any number of keys can be deleted with one version.

use super::write::{SpaceWriter, is_stale};
use crate::key::keyspace::KEYED;
use crate::key::state_keys;
use mainstay_model::{Code, EntryKind, EntryRef, Error, Result, Version};

/// A piece ends when it has so many bytes.
const PIECE_BYTES: usize = 16 << 20;

/// What a piece of sealing did.
pub(crate) struct SealOutcome {
    /// How many writes had waited.
    pub settled: u64,
    /// Whether the frontier is where it was asked to be.
    pub done: bool,
}

/// A key that was deleted with a version.
type StateTombstone = (Version, Vec<u8>);

/// A write that waits, and its version's.
struct WaitingWrite {
    version: Version,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl SpaceWriter<'_> {
    /// Closes versions below a frontier, at most so many entries of them.
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
        // Of the version at which it was left off some may wait still, and those of one that was left off among its
        // graves are stale once the frontier is behind it.
        let reached = [beyond, last_grave.and_then(Version::next)];
        let reached = reached.into_iter().flatten().min().unwrap_or(frontier);
        let settled = waiting.len() as u64;
        waiting.into_iter().try_for_each(|due| self.settle(due, reached))?;
        // What waited may be older than a deletion: that is forgotten last.
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

    /// Applies a write that waited, if it is newer than its key's. What it deletes below the frontier is forgotten.
    fn settle(&mut self, due: WaitingWrite, reached: Version) -> Result<()> {
        let WaitingWrite { version, key, value } = due;
        self.clear_waiting(version, &key)?;
        let (seen, had) = self.see(&key)?;
        if is_stale(had, version) {
            return Ok(());
        }
        match value.is_none() && version < reached {
            true => self.clear_state(&key),
            false => self.set_state(&key, seen, had, version, value.as_deref()),
        }
    }

    /// Keys that were deleted with versions below one, some of them, and the version at which it was left off.
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

    /// Writes that wait with versions below one, some of them, and the version at which it was left off.
    fn due(&self, below: Version, limit: usize) -> Result<(Vec<WaitingWrite>, Option<Version>)> {
        let (mut waiting, mut bytes) = (Vec::new(), 0);
        let kind = state_keys::kind(EntryKind::Waiting);
        // Nothing waits below the frontier.
        let from = self.declared.info.frontier;
        let left_off = self.below(&kind, from, below, |version, key, payload| {
            let place = EntryKind::waiting(version, key);
            let entry = EntryRef::from_parts(&place, Some(payload), Some(version.kind()))?;
            let EntryRef::Waiting { value, .. } = entry else { return Ok(true) };
            bytes += key.len() + payload.len() + 256;
            let (key, value) = (key.to_vec(), value.map(<[u8]>::to_vec));
            waiting.push(WaitingWrite { version, key, value });
            Ok(waiting.len() < limit && bytes < PIECE_BYTES)
        })?;
        Ok((waiting, left_off))
    }

    /// Visits what is kept by version, from one on and below another, until told to stop; gives the version of the last
    /// one if it was stopped there.
    fn below(
        &self,
        kind: &[u8],
        from: Option<Version>,
        below: Version,
        mut visit: impl FnMut(Version, &[u8], &[u8]) -> Result<bool>,
    ) -> Result<Option<Version>> {
        let life = state_keys::life(self.space.as_str(), self.declared.generation);
        let prefix = [&life[..], kind].concat();
        // A version alone stands before all of its keys.
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
