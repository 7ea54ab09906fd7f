//! Implements the `KeyedState` interface of operators for a space.

use super::{Keyed, KeyedAt, KeyedBackend};
use crate::backend::Backend;
use mainstay_client::wait;
use mainstay_model::{
    At, EntryRef, Item, Kept, KeySelection, KeyedCapabilities, KeyedState, Result, SnapshotHead,
    SnapshotMark, SnapshotSummary, SnapshotTaken, SnapshotWriter, SpaceInfo, SpaceOptions,
    StatePage, StateWrite, Version, WaitingEntry, Wrote,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};

impl KeyedState for Keyed {
    fn capabilities(&self) -> KeyedCapabilities {
        KeyedCapabilities {
            atomic: true,
            ordered: true,
            merged: true,
            appends: true,
            durable: true,
            incremental: true,
            ..KeyedCapabilities::none("mainstay")
        }
    }

    fn declare(&self, options: SpaceOptions) -> Result<bool> {
        Keyed::declare(self, options)
    }

    fn info(&self) -> Result<Option<SpaceInfo>> {
        Keyed::info(self)
    }

    fn write(&self, writes: Vec<StateWrite>) -> Result<Vec<Wrote>> {
        Keyed::write(self, writes)
    }

    fn look(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>> {
        Keyed::look(self, keys)
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<StatePage> {
        Keyed::scan(self, prefix, after, limit)
    }

    fn items(&self, key: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Item>> {
        Keyed::items(self, key, after, limit)
    }

    fn positions(&self) -> Result<BTreeMap<String, u64>> {
        Ok(Keyed::positions(self)?.into_iter().collect())
    }

    fn waiting(&self, below: Option<Version>, limit: usize) -> Result<Vec<WaitingEntry>> {
        Keyed::waiting(self, below, limit)
    }

    fn seal(&self, frontier: Version) -> Result<u64> {
        Keyed::seal(self, frontier)
    }

    fn sync(&self) -> Result<()> {
        let synced = match &self.place {
            Backend::Local(core) => core.sequencer.sync(),
            Backend::Remote(link) => wait(Backend::there(link).sync()),
        };
        synced.map(|_| ())
    }

    fn clear(&self) -> Result<bool> {
        Keyed::clear(self)
    }

    fn snapshot_to(&self, out: &mut dyn Write) -> Result<SnapshotSummary> {
        self.at(At::Latest)?.snapshot_to(out)
    }

    fn snapshot_since(
        &self,
        since: Option<&SnapshotMark>,
        out: &mut dyn Write,
    ) -> Result<SnapshotTaken> {
        self.take_since(since, out)
    }

    fn restore_from(&self, from: &mut dyn Read) -> Result<u64> {
        self.replace_by(from)
    }

    fn snapshot_keys_to(
        &self,
        keys: &KeySelection,
        out: &mut dyn Write,
    ) -> Result<SnapshotSummary> {
        self.at(At::Latest)?.snapshot_keys_to(keys, out)
    }

    fn restore_keys_from(&self, from: &mut dyn Read) -> Result<u64> {
        self.add_from(from)
    }
}

impl KeyedAt {
    /// Writes a full snapshot of the space at this view. Equal states give equal bytes.
    pub fn snapshot_to(&self, out: &mut dyn Write) -> Result<SnapshotSummary> {
        let mut writer = SnapshotWriter::new(out, &SnapshotHead::all(self.space_info()?))?;
        self.each(|place, payload| writer.push(place, Some(payload)))?;
        Ok(writer.finish()?.0)
    }

    /// Writes a snapshot of the selected keys. It contains no positions.
    pub fn snapshot_keys_to(
        &self,
        keys: &KeySelection,
        out: &mut dyn Write,
    ) -> Result<SnapshotSummary> {
        let info = self.space_info()?;
        let versions = info.options.versions;
        let mut writer = SnapshotWriter::new(out, &SnapshotHead::some(info))?;
        self.each(|place, payload| {
            let entry = EntryRef::from_parts(place, Some(payload), versions)?;
            if entry.key().is_some_and(|key| keys.contains(key)) {
                writer.push(place, Some(payload))
            } else {
                Ok(())
            }
        })?;
        Ok(writer.finish()?.0)
    }

    /// The declared options of the space, or the default options if it did not exist.
    pub(super) fn space_info(&self) -> Result<SpaceInfo> {
        let none = SpaceInfo { options: SpaceOptions::default(), frontier: None };
        Ok(self.info()?.unwrap_or(none))
    }

    /// Visits all entries in the encoding of snapshots.
    fn each(&self, visit: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        match &self.view {
            KeyedBackend::Here(pinned) => pinned.snapshot.each_of_space(&self.space, visit),
            KeyedBackend::There(_) => self.each_dumped(visit),
        }
    }

    /// Fetches all entries from the server, page by page.
    fn each_dumped(&self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut after = None;
        loop {
            let (block, next) = self.read(self.ask().dump(after))?.into_state()?.into_entries()?;
            for entry in &block {
                let (place, payload) = entry?;
                visit(place, payload.unwrap_or_default())?;
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }
}
