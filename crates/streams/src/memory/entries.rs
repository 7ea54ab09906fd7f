//! A space as entries in order of their places: what a snapshot has.

use super::space::Space;
use mainstay_model::{
    EntryKind, EntryPlace, EntryRef, Result, SnapshotHead, SnapshotSummary, SnapshotWriter,
};
use std::io::Write;

type Placed<'s> = (EntryPlace, EntryRef<'s>);

impl Space {
    /// Writes a snapshot of the entries whose keys are wanted; a position has no key.
    pub(super) fn write_to(
        &self,
        out: &mut dyn Write,
        head: &SnapshotHead,
        is_wanted: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<SnapshotSummary> {
        let mut writer = SnapshotWriter::new(out, head)?;
        let mut entries: Vec<Placed<'_>> =
            self.entries().filter(|(_, entry)| is_wanted(entry.key())).collect();
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut payload = Vec::new();
        for (place, entry) in entries {
            payload.clear();
            entry.to_owned().put_payload(&mut payload);
            writer.push(&place, Some(&payload))?;
        }
        let (summary, _) = writer.finish()?;
        Ok(summary)
    }

    fn entries(&self) -> impl Iterator<Item = Placed<'_>> {
        let states = self.states.iter().map(|(key, held)| {
            let (version, value) = (held.version, held.value.as_deref());
            (EntryKind::state(key), EntryRef::State { key, version, value })
        });
        let waiting = self.waiting.iter().map(|((version, key), value)| {
            let (version, value) = (*version, value.as_deref());
            (EntryKind::waiting(version, key), EntryRef::Waiting { key, version, value })
        });
        let items = self.logs.iter().flat_map(|(key, log)| {
            log.iter()
                .map(move |(id, item)| (EntryKind::item(key, id), EntryRef::Item { key, id, item }))
        });
        let positions = self.positions.iter().map(|(source, position)| {
            let position = *position;
            (EntryKind::position(source), EntryRef::Position { source, position })
        });
        states.chain(waiting).chain(items).chain(positions)
    }
}
