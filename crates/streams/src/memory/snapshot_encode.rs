//! Snapshot encoding of an in-memory space.

use super::space::{SharedBytes, Space};
use super::states::VersionedState;
use mainstay_model::{
    Code, EntryRef, Error, Result, SnapshotHead, SnapshotSummary, SnapshotWriter,
};
use std::io::Write;

/// An encoded snapshot in memory.
pub(super) struct EncodedSnapshot {
    summary: SnapshotSummary,
    bytes: Vec<u8>,
}

impl EncodedSnapshot {
    /// Writes the snapshot to `out`.
    pub(super) fn write_to(self, out: &mut dyn Write) -> Result<SnapshotSummary> {
        let result = out.write_all(&self.bytes).and_then(|()| out.flush());
        result
            .map_err(|error| Error::new(Code::Io, format!("cannot write the snapshot: {error}")))?;
        Ok(self.summary)
    }
}

impl Space {
    /// Encodes the entries of the wanted keys. A snapshot of some keys has no positions.
    pub(super) fn encode(
        &self,
        head: &SnapshotHead,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<EncodedSnapshot> {
        let mut writer = SnapshotWriter::new(Vec::new(), head)?;
        let mut payload = Vec::new();
        let mut push = |entry: EntryRef<'_>| {
            payload.clear();
            entry.put_payload(&mut payload);
            writer.push(&entry.place(), Some(&payload))
        };
        let states: Vec<_> = self.states.iter().filter(|(key, _)| is_wanted(key)).collect();
        for index in sorted_indexes(&states) {
            let (key, VersionedState { version, value }) = states[index];
            push(EntryRef::State { key, version: *version, value: value.as_deref() })?;
        }
        for ((version, key), value) in self.waiting.iter().filter(|((_, key), _)| is_wanted(key)) {
            push(EntryRef::Waiting { key, version: *version, value: value.as_deref() })?;
        }
        let mut logs: Vec<_> = self.logs.iter().filter(|(key, _)| is_wanted(key)).collect();
        // The encoded place of a log begins with the length of its key.
        logs.sort_unstable_by_key(|(key, _)| (key.len(), *key));
        for (key, log) in logs {
            log.iter().try_for_each(|(id, item)| push(EntryRef::Item { key, id, item }))?;
        }
        for (source, position) in self.positions.iter().filter(|_| !head.some_keys) {
            push(EntryRef::Position { source, position: *position })?;
        }
        let (summary, bytes) = writer.finish()?;
        Ok(EncodedSnapshot { summary, bytes })
    }
}

/// Sorts the states by key. An 8-byte prefix after the common prefix is sorted in one array, which decides
/// nearly every comparison without touching the keys.
fn sorted_indexes(states: &[(&SharedBytes, &VersionedState)]) -> Vec<usize> {
    let Some((first, _)) = states.first() else { return Vec::new() };
    let shared = states.iter().fold(first.len(), |shared, (key, _)| {
        first[..shared].iter().zip(&key[..]).take_while(|(one, other)| one == other).count()
    });
    let key_prefix = |key: &[u8]| {
        let mut padded = [0; 8];
        let bytes = (key.len() - shared).min(8);
        padded[..bytes].copy_from_slice(&key[shared..shared + bytes]);
        u64::from_be_bytes(padded)
    };
    let keyed = states.iter().enumerate().map(|(index, (key, _))| (key_prefix(key), index));
    let mut indexs: Vec<(u64, usize)> = keyed.collect();
    indexs.sort_unstable_by(|one, other| {
        one.0.cmp(&other.0).then_with(|| states[one.1].0.cmp(states[other.1].0))
    });
    indexs.into_iter().map(|(_, index)| index).collect()
}
