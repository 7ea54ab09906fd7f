//! Direct modification of a space through its snapshot.
//!
//! Faulty stores use it for changes that the interface does not allow.

use mainstay_model::{
    EntryKind, EntryRef, KeyedState, SnapshotHead, SnapshotReader, SnapshotSummary, SnapshotWriter,
    SpaceEntry, Version, WaitingEntry,
};
use std::collections::BTreeMap;
use std::io::Write;

pub struct Edited {
    pub head: SnapshotHead,
    pub entries: BTreeMap<Vec<u8>, SpaceEntry>,
}

impl Edited {
    /// Decodes a snapshot as far as it is readable, and returns whether it was complete.
    pub fn read(bytes: &[u8]) -> (Option<Edited>, bool) {
        let Ok(mut reader) = SnapshotReader::new(bytes) else { return (None, false) };
        let mut edited = Edited { head: *reader.head(), entries: BTreeMap::new() };
        loop {
            match reader.next_block() {
                Ok(Some(block)) => {
                    for (place, payload) in block.iter().flatten() {
                        let kind = edited.head.space.options.versions;
                        let entry = EntryRef::from_parts(place, payload, kind).unwrap();
                        edited.set(entry.to_owned());
                    }
                }
                Ok(None) => return (Some(edited), true),
                Err(_) => return (Some(edited), false),
            }
        }
    }

    /// Decodes the snapshot of a space.
    pub fn of(space: &dyn KeyedState) -> Edited {
        Edited::read(&space.snapshot().unwrap()).0.unwrap()
    }

    pub fn set(&mut self, entry: SpaceEntry) {
        self.entries.insert(entry.place().to_vec(), entry);
    }

    pub fn set_state(&mut self, key: &[u8], version: Version, value: Option<&[u8]>) {
        let key = key.to_vec();
        let value = value.map(<[u8]>::to_vec);
        self.set(SpaceEntry::State { key, version, value });
    }

    pub fn forget(&mut self, key: &[u8]) {
        self.entries.remove(EntryKind::state(key).as_slice());
    }

    /// Removes and returns the waiting writes below a version, in order.
    pub fn take_waiting(&mut self, below: Version) -> Vec<WaitingEntry> {
        let mut taken = Vec::new();
        self.entries.retain(|_, entry| match entry {
            SpaceEntry::Waiting(waiting) if waiting.version < below => {
                taken.push(waiting.clone());
                false
            }
            _ => true,
        });
        taken
    }

    pub fn write_to(&self, out: &mut dyn Write) -> mainstay_model::Result<SnapshotSummary> {
        let mut writer = SnapshotWriter::new(out, &self.head)?;
        for (place, entry) in &self.entries {
            let mut payload = Vec::new();
            entry.put_payload(&mut payload);
            writer.push(place, Some(&payload))?;
        }
        Ok(writer.finish()?.0)
    }

    /// Replaces the contents of a space.
    pub fn put_back(&self, space: &dyn KeyedState) {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes).unwrap();
        space.restore(&bytes).unwrap();
    }
}

/// Modifies a space through its snapshot.
pub fn edit(space: &dyn KeyedState, change: impl FnOnce(&mut Edited)) {
    let mut edited = Edited::of(space);
    change(&mut edited);
    edited.put_back(space);
}
