//! Restore of a snapshot: it is read and checked completely before the space changes.

use super::space::{SharedBytes, Space, options_mismatch};
use super::states::VersionedState;
use mainstay_model::{
    Code, EntryRef, Error, Result, SnapshotHead, SnapshotReader, SpaceInfo, SpaceOptions,
};
use std::io::Read;

/// A decoded snapshot.
pub(super) struct SnapshotLoad {
    head: SnapshotHead,
    space: Space,
    /// The number of entries.
    pub(super) entries: u64,
}

impl SnapshotLoad {
    /// Reads a snapshot to its end. Rejects an incremental one, because its base is missing.
    pub(super) fn read(from: &mut dyn Read) -> Result<SnapshotLoad> {
        let mut reader = SnapshotReader::new(from)?;
        let head = *reader.head();
        let mut space = Space { info: Some(head.space), ..Space::default() };
        let mut entries = 0;
        while let Some(block) = reader.next_block()? {
            for entry in &block {
                let (place, payload) = entry?;
                let entry = EntryRef::from_parts(place, payload, head.space.options.versions)?;
                space.insert_entry(entry);
                entries += 1;
            }
        }
        // Damage is reported before any other error.
        if head.changes {
            let message = "the snapshot has only what changed since another one: give a whole one";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(SnapshotLoad { head, space, entries })
    }

    /// Converts a full snapshot to a space.
    pub(super) fn into_space(self) -> Result<Space> {
        if self.head.some_keys {
            let message = "the snapshot has only some keys: they can be added, and replace nothing";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.check_waiting()?;
        let mut space = self.space;
        if let Some(frontier) = self.head.space.frontier {
            // Tombstones below the frontier are dropped. Older writes to these keys are stale because of the
            // frontier.
            space.states.drop_tombstones_below(frontier);
        }
        Ok(space)
    }

    /// Rejects writes that wait below the frontier, because they would never be applied.
    fn check_waiting(&self) -> Result<()> {
        let first = self.space.waiting.keys().next().map(|(version, _)| *version);
        match first.filter(|version| self.head.space.is_sealed(*version)) {
            None => Ok(()),
            Some(version) => {
                let message = format!("a write with version {version} waits, and that is closed");
                Err(Error::new(Code::InvalidArgument, message))
            }
        }
    }

    /// Merges the snapshot into a space. Returns the number of new entries.
    pub(super) fn add_to(self, space: &mut Space) -> Result<u64> {
        let from = self.head.space.options;
        match &space.info {
            Some(info) => check_same_options(info, &from)?,
            None => space.info = Some(SpaceInfo { options: from, frontier: None }),
        }
        self.check_unsealed(&space.info())?;
        space.fix_version_kind(from.versions);
        Ok(space.merge_space(self.space))
    }
}

impl SnapshotLoad {
    /// Rejects writes that wait for a merge function if their version is sealed here.
    fn check_unsealed(&self, info: &SpaceInfo) -> Result<()> {
        let first = self.space.waiting.keys().next().filter(|_| info.options.merged);
        let Some((version, key)) = first.filter(|(version, _)| info.is_sealed(*version)) else {
            return Ok(());
        };
        let message = format!(
            "a write to key {} with version {version} waits to be merged, and that version is closed: settle it first",
            key.escape_ascii()
        );
        Err(Error::new(Code::Conflict, message))
    }
}

/// Rejects a snapshot of a space with other options.
fn check_same_options(info: &SpaceInfo, from: &SpaceOptions) -> Result<()> {
    let comparable = |options: &SpaceOptions| SpaceOptions { versions: None, ..*options };
    if comparable(&info.options) != comparable(from) {
        return Err(options_mismatch(&info.options, from));
    }
    let kinds = info.options.versions.zip(from.versions);
    let Some((is, from)) = kinds.filter(|(is, from)| is != from) else { return Ok(()) };
    let message = format!("the space has versions of kind {is}, and the snapshot of kind {from}");
    Err(Error::new(Code::InvalidVersion, message))
}

impl Space {
    /// Inserts an entry of a snapshot.
    fn insert_entry(&mut self, entry: EntryRef<'_>) {
        match entry {
            EntryRef::State { key, version, value } => {
                self.states.set(key.into(), version, value.map(SharedBytes::from));
            }
            EntryRef::Waiting { key, version, value } => {
                self.waiting.insert((version, key.into()), value.map(SharedBytes::from));
            }
            EntryRef::Item { key, id, item } => {
                self.logs.entry(key.into()).or_default().insert(id.into(), item.into());
            }
            EntryRef::Position { source, position } => {
                self.positions.insert(source.to_owned(), position);
            }
            // Only incremental snapshots have removals, and those were rejected.
            EntryRef::NoState { .. } | EntryRef::NotWaiting { .. } => {}
        }
    }

    /// Adds the entries of another space that are newer or missing here. Returns their number.
    fn merge_space(&mut self, other: Space) -> u64 {
        let mut added = 0;
        // States first: waiting writes that they overtake are then dropped.
        for (key, VersionedState { version, value }) in other.states {
            added += u64::from(self.states.set_newer(key, version, value));
        }
        let info = self.info();
        for ((version, key), value) in other.waiting {
            if info.is_sealed(version) && !info.options.merged {
                // The version is sealed here, so the write is applied at once.
                added += u64::from(self.states.set_newer(key, version, value));
            } else if self.states.is_newer(&key, version) {
                added += u64::from(self.add_waiting(key, version, value));
            }
        }
        if let Some(frontier) = info.frontier {
            self.states.drop_tombstones_below(frontier);
        }
        for (key, log) in other.logs {
            for (id, item) in log {
                added += u64::from(self.append(key.clone(), id, item).took_effect());
            }
        }
        for (source, position) in other.positions {
            added += u64::from(self.advance(source, position).took_effect());
        }
        added
    }
}
