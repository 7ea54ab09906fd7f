//! Restore of a space from a snapshot in batches, and adding entries to a space.
//!
//! ```text
//!   begin     the declaration names a new generation to fill, which is not visible
//!   continue  entries are written batch by batch under that generation; the feed reports none of them
//!   end       the declaration makes it the visible generation; the previous one is deleted in batches
//! ```
//!
//! After a crash the declaration still names the partial generation, so the next restore schedules its
//! deletion.

use super::space::{self, Declaration, SpaceState};
use super::write::{SpaceWriter, is_stale};
use crate::apply::{deferred_delete, key_state};
use crate::key::entry::QUIET;
use crate::key::keyspace::{self, KEYED, Key};
use crate::key::state_keys;
use crate::mvcc::view::View;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use mainstay_model::{
    Code, EntryBlock, EntryRef, Error, Name, Result, Revision, SpaceInfo, Version, Wrote,
};

/// A batch of a space that is being restored.
pub(crate) struct RestoredStates<'p> {
    pub space: &'p Name,
    pub info: SpaceInfo,
    pub block: &'p EntryBlock,
    /// Revision of the transaction that began the restore. `None`: this transaction begins it.
    pub begun: Option<Revision>,
    /// Whether this batch completes the space.
    pub ends: bool,
}

/// Writes a batch. Returns the number of its entries.
pub(crate) fn restore(
    view: &View<'_>,
    overlay: &mut WriteSet,
    piece: &RestoredStates<'_>,
    revision: Revision,
) -> Result<u64> {
    let SpaceState { seen, declared } = space::meet(view, overlay, piece.space)?;
    let empty = Declaration { is_there: false, ..Declaration::new(piece.info.options, 0) };
    let before = declared.unwrap_or(empty);
    let filling = piece.goes_on(&before, revision)?;
    overlay.check_room(piece.block.as_bytes().len() + 256)?;
    check(piece)?;
    let branch = view.branch();
    let mut now = Declaration { filling, ..before };
    if piece.begun.is_none() && before.filling != 0 {
        let marker = deferred_delete::space(branch, piece.space.as_str(), before.filling);
        deferred_delete::mark(view.index, overlay, &marker)?;
    }
    let count = fill(view, overlay, piece, filling)?;
    if piece.ends {
        if before.is_there {
            let marker = deferred_delete::space(branch, piece.space.as_str(), before.generation);
            deferred_delete::mark(view.index, overlay, &marker)?;
        }
        now = Declaration {
            is_there: true,
            generation: filling,
            shown: revision,
            restored: true,
            filling: 0,
            info: piece.info,
        };
        space::put(overlay, seen, &now)?;
    } else if now != before || declared.is_none() {
        space::put_quietly(overlay, seen, &now)?;
    }
    Ok(count)
}

impl RestoredStates<'_> {
    /// Returns the generation that this batch fills.
    fn goes_on(&self, before: &Declaration, revision: Revision) -> Result<u64> {
        match self.begun {
            // A generation is identified by the revision that created it, so one transaction cannot create
            // two of them.
            None if before.is_there && before.generation == revision => {
                Err(made_now(self.space, "restore"))
            }
            None if before.filling == revision && revision != 0 => Err(over(self.space)),
            None => Ok(revision),
            Some(begun) if begun == before.filling && begun != 0 => Ok(begun),
            Some(_) => Err(over(self.space)),
        }
    }
}

/// Refuses entries that cannot exist in such a space, before any entry is written.
fn check(piece: &RestoredStates<'_>) -> Result<()> {
    for entry in piece.block {
        let (place, payload) = entry?;
        match entry_of(place, payload, &piece.info)? {
            EntryRef::Waiting { version, .. } if piece.info.is_sealed(version) => {
                let message = format!("a write with version {version} waits, and that is closed");
                return Err(Error::new(Code::InvalidArgument, message));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Parses an entry. Refuses entries that record a removal.
fn entry_of<'e>(
    place: &'e [u8],
    payload: Option<&'e [u8]>,
    info: &SpaceInfo,
) -> Result<EntryRef<'e>> {
    match EntryRef::from_parts(place, payload, info.options.versions)? {
        EntryRef::NoState { .. } | EntryRef::NotWaiting { .. } => {
            let message = "what has changed since a snapshot cannot be restored without it";
            Err(Error::new(Code::InvalidArgument, message))
        }
        entry => Ok(entry),
    }
}

pub(crate) fn fill(
    view: &View<'_>,
    overlay: &mut WriteSet,
    piece: &RestoredStates<'_>,
    generation: u64,
) -> Result<u64> {
    let life = state_keys::life(piece.space.as_str(), generation);
    let mut key: Key = keyspace::key(KEYED, view.branch(), &life);
    let start = key.len();
    let mut put = |place: &[u8], payload: &[u8]| {
        key.truncate(start);
        key.extend_from_slice(place);
        let payload = Payload::Bytes(payload);
        let write =
            Write { flags: QUIET, counter: 1, writes: 1, expires: None, prior: None, payload };
        overlay.write(key.clone(), view.index.current.hash(&key), write)
    };
    let mut count = 0;
    for entry in piece.block {
        let (place, payload) = entry?;
        count += 1;
        match entry_of(place, payload, &piece.info)? {
            // Deletions below the frontier need no tombstone, because the frontier makes all older versions
            // stale.
            EntryRef::State { version, value: None, .. } if piece.info.is_sealed(version) => {
                continue;
            }
            EntryRef::State { key, version, value: None } => {
                put(&state_keys::grave(version, key), b"")?;
            }
            _ => {}
        }
        put(place, payload.unwrap_or_default())?;
    }
    Ok(count)
}

/// Abandons a generation that is being filled. Returns whether it was being filled.
pub(crate) fn abandon(
    view: &View<'_>,
    overlay: &mut WriteSet,
    space: &Name,
    begun: Revision,
) -> Result<bool> {
    let SpaceState { seen, declared } = space::meet(view, overlay, space)?;
    let filled = declared.filter(|declared| declared.filling == begun && begun != 0);
    let Some(declared) = filled else { return Ok(false) };
    deferred_delete::mark(
        view.index,
        overlay,
        &deferred_delete::space(view.branch(), space.as_str(), begun),
    )?;
    if declared.is_there {
        space::put_quietly(overlay, seen, &Declaration { filling: 0, ..declared })?
    } else {
        key_state::remove_quietly(overlay, seen)?
    }
    Ok(true)
}

/// Removes a space. Returns whether it existed.
pub(crate) fn remove(
    view: &View<'_>,
    overlay: &mut WriteSet,
    space: &Name,
    revision: Revision,
) -> Result<bool> {
    let SpaceState { seen, declared } = space::meet(view, overlay, space)?;
    let Some(declared) = declared else { return Ok(false) };
    if declared.is_there && declared.generation == revision {
        return Err(made_now(space, "remove"));
    }
    let there = declared.is_there.then_some(declared.generation);
    let filling = Some(declared.filling).filter(|filling| *filling != 0);
    for generation in there.into_iter().chain(filling) {
        let marker = deferred_delete::space(view.branch(), space.as_str(), generation);
        deferred_delete::mark(view.index, overlay, &marker)?;
    }
    if declared.is_there {
        key_state::remove(overlay, seen)?
    } else {
        // No reader has seen this space, so the feed does not report its removal.
        key_state::remove_quietly(overlay, seen)?
    }
    Ok(declared.is_there)
}

impl SpaceWriter<'_> {
    /// Adds entries of another space without lowering any version. Returns the number of new entries.
    pub fn take(&mut self, info: &SpaceInfo, block: &EntryBlock) -> Result<u64> {
        self.check_like(info)?;
        self.overlay.check_room(2 * block.as_bytes().len() + 256)?;
        for entry in block {
            let (place, payload) = entry?;
            entry_of(place, payload, info)?;
        }
        let mut taken = 0;
        for entry in block {
            let (place, payload) = entry?;
            taken += u64::from(self.take_one(entry_of(place, payload, info)?)?);
        }
        Ok(taken)
    }

    /// Refuses entries of an incompatible space.
    fn check_like(&mut self, info: &SpaceInfo) -> Result<()> {
        let own = &mut self.declared.info.options;
        let theirs = &info.options;
        if self.is_new && !self.changed {
            *own = *theirs;
            self.changed = true;
            return Ok(());
        }
        if own.versions.is_none() && theirs.versions.is_some() {
            own.versions = theirs.versions;
            self.changed = true;
        }
        let options = self.declared.info.options;
        if theirs.versions.is_some() && options.versions != theirs.versions {
            let message = format!(
                "`{}` and what is added to it have versions of different kinds",
                self.space
            );
            return Err(Error::new(Code::InvalidVersion, message));
        }
        if options.is_as(theirs) { Ok(()) } else { Err(otherwise(self.space)) }
    }

    /// Adds an entry. Returns whether it was new.
    pub fn take_one(&mut self, entry: EntryRef<'_>) -> Result<bool> {
        let wrote = match entry {
            EntryRef::State { key, version, value } => self.take_state(key, version, value)?,
            // A write with a sealed version is applied at once instead of waiting.
            EntryRef::Waiting { key, version, value }
                if self.declared.info.is_sealed(version) && !self.declared.info.options.merged =>
            {
                self.take_state(key, version, value)?
            }
            EntryRef::Waiting { version, .. } if self.declared.info.is_sealed(version) => {
                return Err(closed(self.space, version));
            }
            EntryRef::Waiting { key, version, value } => {
                let (_, had) = self.see(key)?;
                if is_stale(had, version) { Wrote::Stale } else { self.wait(key, value, version)? }
            }
            EntryRef::Item { key, id, item } => self.append(key, id, item)?,
            EntryRef::Position { source, position } => self.advance(source, position)?,
            EntryRef::NoState { .. } | EntryRef::NotWaiting { .. } => Wrote::Stale,
        };
        Ok(wrote.took_effect())
    }

    fn take_state(&mut self, key: &[u8], version: Version, value: Option<&[u8]>) -> Result<Wrote> {
        let (seen, had) = self.see(key)?;
        if is_stale(had, version) {
            return Ok(Wrote::Stale);
        }
        if value.is_none() && self.declared.info.is_sealed(version) {
            // Deletions below the frontier need no tombstone, because the frontier makes all older versions
            // stale.
            self.clear_state(key)?
        } else {
            self.set_state(key, seen, had, version, value)?
        }
        Ok(Wrote::Applied)
    }
}

#[cold]
fn closed(space: &Name, version: Version) -> Error {
    let message = format!(
        "a write with version {version} waits for the function that merges it, and `{space}` has closed that version: \
         settle it first"
    );
    Error::new(Code::Conflict, message)
}

#[cold]
pub(crate) fn otherwise(space: &Name) -> Error {
    let message =
        format!("space `{space}` is declared in another way: ask for it as it is, or remove it");
    Error::new(Code::SpaceExists, message)
}

#[cold]
fn made_now(space: &Name, what: &str) -> Error {
    let message =
        format!("space `{space}` was made in the same transaction: {what} it in another one");
    Error::new(Code::InvalidArgument, message)
}

#[cold]
fn over(space: &Name) -> Error {
    let message = format!(
        "this restoring of `{space}` is over, or another one has begun since: begin it again"
    );
    Error::new(Code::Fenced, message)
}
