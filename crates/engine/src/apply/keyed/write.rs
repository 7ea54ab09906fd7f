//! Writes to keyed state: a write applies only if its version is newer than the key's.
//!
//! ```text
//!   put, delete --sealed, or not newer--> stale
//!               \--ordered space: waiting, until its version is sealed
//!                \--else: the key's state
//! ```

use super::space::{self, Declaration, SpaceState};
use crate::apply::key_state::{self, KeyState, load_with};
use crate::key::keyspace::KEYED;
use crate::key::state_keys;
use crate::key::state_keys::StateName;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, WriteSet};
use mainstay_model::{
    Code, EntryKind, Error, Name, Result, Revision, SpaceOptions, StateWrite, Version, Wrote,
    put_state, take_state,
};

/// Maximal overhead of an entry, beside its key and value.
const ENTRY_BYTES: usize = 64;

pub(crate) struct SpaceWriter<'w> {
    pub view: &'w View<'w>,
    pub overlay: &'w mut WriteSet,
    pub space: &'w Name,
    pub declared: Declaration,
    /// Whether the space did not exist before.
    pub is_new: bool,
    /// Whether the declaration must be written.
    pub changed: bool,
    /// State of the declaration's key, as it was loaded.
    seen: KeyState,
}

/// Version of a key's state, and whether the state is a tombstone.
pub(crate) type KeyVersion = Option<(Version, bool)>;

impl<'w> SpaceWriter<'w> {
    /// Opens a space for writing. If the space does not exist, the first write creates it.
    pub fn open(
        view: &'w View<'w>,
        overlay: &'w mut WriteSet,
        space: &'w Name,
        revision: Revision,
    ) -> Result<SpaceWriter<'w>> {
        let SpaceState { seen, declared } = space::meet(view, overlay, space)?;
        let filling = declared.map_or(0, |declared| declared.filling);
        let there = declared.filter(|declared| declared.is_there);
        let is_new = there.is_none();
        let declared = there.unwrap_or(Declaration {
            filling,
            ..Declaration::new(SpaceOptions::default(), revision)
        });
        Ok(SpaceWriter { view, overlay, space, declared, is_new, changed: false, seen })
    }

    /// Writes the declaration if it has changed.
    pub fn close(self) -> Result<()> {
        if self.changed { space::put(self.overlay, self.seen, &self.declared) } else { Ok(()) }
    }

    /// Runs all writes. All checks run first, so that a failing write has written nothing.
    pub fn write(&mut self, writes: &[StateWrite]) -> Result<Vec<Wrote>> {
        self.check(writes)?;
        self.check_all_settled(writes)?;
        writes.iter().map(|write| self.one(write)).collect()
    }

    fn check(&mut self, writes: &[StateWrite]) -> Result<()> {
        let life = self.space.as_bytes().len() + ENTRY_BYTES;
        let mut bytes = 0;
        let mut kind = self.declared.info.options.versions;
        for write in writes {
            if let Some(version) = write.version() {
                self.declared.info.check_write(version)?;
                let first = *kind.get_or_insert(version.kind());
                if first != version.kind() {
                    return Err(two_kinds(self.space));
                }
            }
            let is_plain = matches!(write, StateWrite::Put { .. } | StateWrite::Delete { .. });
            if is_plain && self.lacks_function() {
                return Err(no_function(self.space));
            }
            bytes += weigh(write) + 2 * (life + write.key().map_or(0, <[u8]>::len));
        }
        self.overlay.check_room(bytes)
    }

    fn lacks_function(&self) -> bool {
        let options = self.declared.info.options;
        options.merged && !options.ordered
    }

    fn one(&mut self, write: &StateWrite) -> Result<Wrote> {
        match write {
            StateWrite::Put { key, value, version } => self.put(key, Some(value), *version),
            StateWrite::Delete { key, version } => self.put(key, None, *version),
            StateWrite::Append { key, id, item } => self.append(key, id, item),
            StateWrite::Advance { source, position } => self.advance(source, *position),
            StateWrite::Merge { key, value, version, read, settles } => {
                self.merge(key, value.as_deref(), *version, *read, settles)
            }
            StateWrite::AllSettled { .. } => Ok(Wrote::Applied),
            _ => Err(Error::new(Code::Unsupported, "this version does not know that write")),
        }
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>, version: Version) -> Result<Wrote> {
        if self.declared.info.is_sealed(version) {
            return Ok(Wrote::Stale);
        }
        let (seen, had) = self.see(key)?;
        if is_stale(had, version) {
            return Ok(Wrote::Stale);
        }
        if self.declared.info.options.ordered {
            return self.wait(key, value, version);
        }
        self.set_state(key, seen, had, version, value)?;
        Ok(Wrote::Applied)
    }

    /// Stores a write until its version is sealed. The first write of a version wins.
    pub fn wait(&mut self, key: &[u8], value: Option<&[u8]>, version: Version) -> Result<Wrote> {
        let (_, there) = self.look(&EntryKind::waiting(version, key), |_| Ok(()))?;
        if there.is_some() {
            return Ok(Wrote::Stale);
        }
        self.wait_anew(key, value, version)?;
        Ok(Wrote::Waiting)
    }

    /// Stores a waiting write, and replaces another one of the same key and version.
    pub fn wait_anew(&mut self, key: &[u8], value: Option<&[u8]>, version: Version) -> Result<()> {
        self.fix_kind(version);
        let (seen, _) = self.look(&EntryKind::waiting(version, key), |_| Ok(()))?;
        let said = [if value.is_some() { 0 } else { 0x80 }];
        let (start, ()) = self.overlay.stage(|out| {
            out.extend_from_slice(&said);
            out.extend_from_slice(value.unwrap_or_default());
            Ok(())
        })?;
        self.put_staged(seen, start)
    }

    pub fn append(&mut self, key: &[u8], id: &[u8], item: &[u8]) -> Result<Wrote> {
        let (seen, there) = self.look(&EntryKind::item(key, id), |_| Ok(()))?;
        if there.is_some() {
            return Ok(Wrote::Stale);
        }
        self.set(seen, item)?;
        Ok(Wrote::Applied)
    }

    /// Adds an item, and replaces another one with the same id.
    pub fn append_anew(&mut self, key: &[u8], id: &[u8], item: &[u8]) -> Result<()> {
        let (seen, _) = self.look(&EntryKind::item(key, id), |_| Ok(()))?;
        self.set(seen, item)
    }

    pub fn advance(&mut self, source: &str, position: u64) -> Result<Wrote> {
        let (seen, before) = self.look(&EntryKind::position(source), position_of)?;
        if before.is_some_and(|before| before >= position) {
            return Ok(Wrote::Stale);
        }
        self.set(seen, &position.to_be_bytes())?;
        Ok(Wrote::Applied)
    }

    /// Writes the result of a merge function if the key still has the version that the function read. Removes
    /// the waiting writes that went into the result.
    fn merge(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        version: Version,
        read: Option<Version>,
        settles: &[Version],
    ) -> Result<Wrote> {
        let (seen, had) = self.see(key)?;
        if had.map(|(version, _)| version) != read {
            return Ok(Wrote::Moved);
        }
        if settles.is_empty() && self.declared.info.is_sealed(version) {
            return Ok(Wrote::Stale);
        }
        let mut waited = Vec::with_capacity(settles.len());
        for &version in settles {
            let (seen, there) = self.look(&EntryKind::waiting(version, key), |_| Ok(()))?;
            if there.is_none() {
                return Ok(Wrote::Moved);
            }
            waited.push(seen);
        }
        waited.into_iter().try_for_each(|seen| key_state::remove(self.overlay, seen))?;
        // All waiting writes may have been stale. Then the state does not change.
        if read != Some(version) {
            self.set_state(key, seen, had, version, value)?;
        }
        Ok(Wrote::Applied)
    }

    /// The first version fixes the kind of all versions of the space.
    pub fn fix_kind(&mut self, version: Version) {
        let versions = &mut self.declared.info.options.versions;
        if versions.is_none() {
            *versions = Some(version.kind());
            self.changed = true;
        }
    }

    /// Loads the state of a key.
    pub fn see(&self, key: &[u8]) -> Result<(KeyState, KeyVersion)> {
        self.look(&EntryKind::state(key), |payload| {
            let (version, value) = take_state(payload).ok_or_else(damaged)?;
            Ok((version, value.is_none()))
        })
    }

    /// Loads the entry at a place.
    pub fn look<T>(
        &self,
        place: &[u8],
        read: impl FnMut(&[u8]) -> Result<T>,
    ) -> Result<(KeyState, Option<T>)> {
        load_with(self.view, self.overlay, KEYED, &self.at(place), read)
    }

    fn at(&self, place: &[u8]) -> StateName {
        let mut at = state_keys::life(self.space.as_str(), self.declared.generation);
        at.extend_from_slice(place);
        at
    }

    /// Writes a key's state. Adds a deletion to the tombstone index, and removes the previous tombstone from
    /// it.
    pub fn set_state(
        &mut self,
        key: &[u8],
        seen: KeyState,
        had: KeyVersion,
        version: Version,
        value: Option<&[u8]>,
    ) -> Result<()> {
        self.fix_kind(version);
        if let Some((before, true)) = had {
            self.forget_grave(before, key)?;
        }
        let (start, ()) = self.overlay.stage(|out| {
            put_state(version, value, out);
            Ok(())
        })?;
        self.put_staged(seen, start)?;
        if value.is_none() {
            let (seen, _) = self.look(&state_keys::grave(version, key), |_| Ok(()))?;
            self.set(seen, b"")?;
        }
        Ok(())
    }

    /// Removes a tombstone and its version. The feed has reported the deletion already, so the removal is
    /// quiet, unless the deletion is part of this transaction.
    pub fn forget(&mut self, key: &[u8], version: Version) -> Result<()> {
        let (seen, had) = self.see(key)?;
        if had == Some((version, true)) {
            if self.overlay.find(seen.hash, &seen.key).is_some() {
                key_state::remove(self.overlay, seen)?
            } else {
                key_state::remove_quietly(self.overlay, seen)?
            }
        }
        self.forget_grave(version, key)
    }

    /// Removes a key's state without a tombstone, because versions below the frontier need none.
    pub fn clear_state(&mut self, key: &[u8]) -> Result<()> {
        let (seen, had) = self.see(key)?;
        match had {
            Some((_, false)) => key_state::remove(self.overlay, seen),
            Some((version, true)) => self.forget(key, version),
            None => Ok(()),
        }
    }

    /// Removes a waiting write.
    pub fn clear_waiting(&mut self, version: Version, key: &[u8]) -> Result<()> {
        let (seen, there) = self.look(&EntryKind::waiting(version, key), |_| Ok(()))?;
        match there {
            Some(()) => key_state::remove(self.overlay, seen),
            None => Ok(()),
        }
    }

    fn forget_grave(&mut self, version: Version, key: &[u8]) -> Result<()> {
        let (seen, there) = self.look(&state_keys::grave(version, key), |_| Ok(()))?;
        match there {
            Some(()) => key_state::remove(self.overlay, seen),
            None => Ok(()),
        }
    }

    fn set(&mut self, seen: KeyState, payload: &[u8]) -> Result<()> {
        self.changed |= self.is_new;
        let write = seen.write(0, None, Payload::Bytes(payload));
        self.overlay.write(seen.key, seen.hash, write)
    }

    fn put_staged(&mut self, seen: KeyState, start: usize) -> Result<()> {
        self.changed |= self.is_new;
        let write = seen.write(0, None, Payload::Staged(start));
        self.overlay.write(seen.key, seen.hash, write)
    }
}

/// Returns whether a version is not newer than the key's.
pub(crate) fn is_stale(had: KeyVersion, version: Version) -> bool {
    had.is_some_and(|(before, _)| before >= version)
}

pub(crate) fn position_of(payload: &[u8]) -> Result<u64> {
    payload.try_into().map(u64::from_be_bytes).map_err(|_| damaged())
}

fn weigh(write: &StateWrite) -> usize {
    match write {
        StateWrite::Put { value, .. } => value.len(),
        StateWrite::Append { id, item, .. } => id.len() + item.len(),
        StateWrite::Advance { source, .. } => source.len(),
        StateWrite::Merge { value, settles, .. } => {
            value.as_ref().map_or(0, Vec::len) + settles.len() * ENTRY_BYTES
        }
        _ => 0,
    }
}

#[cold]
pub(crate) fn damaged() -> Error {
    Error::new(Code::CorruptData, "an entry of a space is damaged")
}

#[cold]
fn two_kinds(space: &Name) -> Error {
    let message = format!("writes to `{space}` have versions of two kinds: a space has one kind");
    Error::new(Code::InvalidVersion, message)
}

#[cold]
fn no_function(space: &Name) -> Error {
    let message =
        format!("a function merges what is put to `{space}`: put it where that function is");
    Error::new(Code::InvalidArgument, message)
}
