//! `snapshot`: a canonical encoding of the whole space, independent of how it is stored.

use super::TestSpace;
use mainstay_model::{
    Code, EntryKind, EntryRef, SnapshotHead, SnapshotReader, SnapshotSummary, SnapshotWriter,
    SpaceEntry, SpaceInfo, SpaceOptions, VersionKind, put_state,
};
use std::io::{self, Write};

/// Decodes the head and the entries of a snapshot.
fn read(snapshot: &[u8]) -> (SnapshotHead, Vec<SpaceEntry>) {
    let mut reader = SnapshotReader::new(snapshot).unwrap();
    let head = *reader.head();
    let mut entries = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        for entry in &block {
            let (place, payload) = entry.unwrap();
            let kind = head.space.options.versions;
            entries.push(EntryRef::from_parts(place, payload, kind).unwrap().to_owned());
        }
    }
    (head, entries)
}

/// Equal states have equal bytes, whatever writes led to them.
pub fn equal_states_have_equal_bytes(s: &TestSpace<'_>) {
    let one = s.other("one");
    let other = s.other("another");
    for (key, version) in [("b", 1), ("a", 2), ("c", 3), ("b", 9), ("z", 4)] {
        one.put(key, "v", version);
    }
    one.advance("x", 1);
    one.advance("x", 5);
    one.advance("y", 2);
    one.delete("z", 9);
    other.advance("y", 2);
    other.delete("z", 9);
    for (key, version) in [("c", 3), ("b", 9), ("b", 1), ("a", 2)] {
        other.put(key, "v", version);
    }
    other.advance("x", 5);
    assert_eq!(one.snapshot(), other.snapshot());
}

/// Repeated snapshots are equal, and taking one changes nothing.
pub fn is_the_same_again(s: &TestSpace<'_>) {
    let s = s.filled("full");
    let first = s.snapshot();
    for _ in 0..5 {
        assert_eq!(s.snapshot(), first);
    }
}

/// A snapshot has exactly the bytes of the documented format.
pub fn bytes_are_these(s: &TestSpace<'_>) {
    s.put("b", "v", 258);
    s.delete("a", 300);
    s.advance("orders", 7);
    s.seal(200);
    let options = SpaceOptions::default().versions(VersionKind::U64);
    let space = SpaceInfo { options, frontier: Some(200.into()) };
    let mut writer = SnapshotWriter::new(Vec::new(), &SnapshotHead::all(space)).unwrap();
    for (key, version, value) in [(b"a", 300, None), (b"b", 258, Some(&b"v"[..]))] {
        let mut payload = Vec::new();
        put_state(version.into(), value, &mut payload);
        writer.push(&EntryKind::state(key), Some(&payload)).unwrap();
    }
    writer.push(&EntryKind::position("orders"), Some(&7_u64.to_be_bytes())).unwrap();
    let (summary, bytes) = writer.finish().unwrap();
    assert_eq!(s.snapshot(), bytes);
    assert_eq!(s.store().snapshot_to(&mut io::sink()), Ok(summary));
}

/// A snapshot contains states, tombstones, waiting writes, logs and positions.
pub fn has_everything(s: &TestSpace<'_>) {
    let can = s.can();
    let s = s.filled("full");
    let (head, entries) = read(&s.snapshot());
    assert_eq!(head, SnapshotHead::all(s.info()));
    let count = |kind: EntryKind| entries.iter().filter(|entry| entry.kind() == kind).count();
    let deleted = usize::from(!can.ordered || can.merged);
    assert_eq!(count(EntryKind::State), 3 + deleted);
    assert_eq!(count(EntryKind::Waiting), if can.ordered { 3 } else { 0 });
    assert_eq!(count(EntryKind::Item), if can.appends { 2 } else { 0 });
    assert_eq!(count(EntryKind::Position), 2);
}

/// The returned summary matches the written snapshot.
pub fn summary_is_right(s: &TestSpace<'_>) {
    let s = s.filled("full");
    let mut bytes = Vec::new();
    let summary: SnapshotSummary = s.store().snapshot_to(&mut bytes).unwrap();
    let found = SnapshotReader::new(&bytes[..]).unwrap().check_rest();
    assert_eq!(summary.bytes, bytes.len() as u64);
    assert_eq!(summary.positions, s.positions());
    assert_eq!(found, Ok(summary));
}

/// The snapshot of an undeclared space is empty.
pub fn of_nothing_has_no_entries(s: &TestSpace<'_>) {
    let (head, entries) = read(&s.snapshot());
    assert_eq!(entries, []);
    assert_eq!(head.space, SpaceInfo { options: SpaceOptions::default(), frontier: None });
    s.is_undeclared();
}

/// An I/O error of the writer is returned.
pub fn failing_writer_is_told(s: &TestSpace<'_>) {
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = self.0.min(bytes.len());
            self.0 -= room;
            if room == 0 { Err(io::Error::other("no room")) } else { Ok(room) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let s = s.filled("full");
    let length = s.snapshot().len();
    for room in [0, 7, 8, 40, length - 1] {
        let error = s.unchanged(|| s.store().snapshot_to(&mut Full(room))).unwrap_err();
        assert_eq!(error.code(), Code::Io, "{error}");
    }
    assert!(s.store().snapshot_to(&mut Full(length)).is_ok());
}

/// A snapshot can have many blocks, and states larger than a block.
pub fn of_many_blocks(s: &TestSpace<'_>) {
    let large = "v".repeat(200_000);
    for n in 0..300 {
        s.put(&format!("k{n:03}"), if n % 100 == 0 { &large } else { "small" }, n + 1);
    }
    let (_, entries) = read(&s.snapshot());
    assert_eq!(entries.len(), 300);
    assert!(s.snapshot().len() > 600_000);
}
