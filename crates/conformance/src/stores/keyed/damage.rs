//! Damaged snapshots: restoring one is an error and changes nothing.

use super::{TestSpace, keys};
use crate::assertions::refused;
use mainstay_model::{
    Code, EntryKind, SnapshotHead, SnapshotWriter, SpaceInfo, SpaceOptions, VersionKind, put_state,
};
use std::io::{self, Read};

/// Asserts that `restore` and `restore_keys` both refuse these bytes as corrupt.
#[track_caller]
fn is_found(s: &TestSpace<'_>, bytes: &[u8]) {
    refused(s.store().restore(bytes), Code::CorruptData);
    refused(s.store().restore_keys(bytes), Code::CorruptData);
}

/// Returns a filled space, and a snapshot that would change it.
fn two<'w>(s: &TestSpace<'w>) -> (TestSpace<'w>, Vec<u8>) {
    let full = s.filled("full");
    full.put("new", "new", 99);
    let snapshot = full.snapshot();
    (s.filled("here"), snapshot)
}

/// A snapshot truncated at any length is refused.
pub fn every_end_that_is_missing(s: &TestSpace<'_>) {
    let (s, snapshot) = two(s);
    s.unchanged(|| (0..snapshot.len()).for_each(|end| is_found(&s, &snapshot[..end])));
}

/// A snapshot with a flipped bit in any byte is refused.
pub fn every_byte_that_is_another(s: &TestSpace<'_>) {
    let (s, mut snapshot) = two(s);
    s.unchanged(|| {
        for at in 0..snapshot.len() {
            let flipped = 1 << (at % 8);
            snapshot[at] ^= flipped;
            is_found(&s, &snapshot);
            snapshot[at] ^= flipped;
        }
    });
    s.restore(&snapshot);
}

/// Trailing bytes after a snapshot are refused.
pub fn something_behind_the_end(s: &TestSpace<'_>) {
    let (s, snapshot) = two(s);
    s.unchanged(|| {
        is_found(&s, &[&snapshot[..], &[0]].concat());
        is_found(&s, &[&snapshot[..], &snapshot[..]].concat());
    });
}

/// Bytes that never were a snapshot are refused.
pub fn foreign_bytes(s: &TestSpace<'_>) {
    let (s, _) = two(s);
    let zeros = [0; 4_096];
    let foreign: [&[u8]; 6] = [b"", b"{}", b"MSTKEYS", b"MSTKEYS2", b"REDIS0011", &zeros];
    s.unchanged(|| foreign.into_iter().for_each(|bytes| is_found(&s, bytes)));
}

/// Truncated or damaged snapshots of selected keys are refused.
pub fn of_some_keys(s: &TestSpace<'_>) {
    let full = s.filled("full");
    full.put("ab", "new", 99);
    let snapshot = full.snapshot_keys(&keys(&["a", "ab", "c"]));
    let s = s.filled("here");
    s.unchanged(|| {
        for at in 0..snapshot.len() {
            refused(s.store().restore_keys(&snapshot[..at]), Code::CorruptData);
            let mut other = snapshot.clone();
            other[at] ^= 0x10;
            refused(s.store().restore_keys(&other), Code::CorruptData);
        }
    });
}

/// Damage in a later block undoes the blocks that were already read.
pub fn in_a_later_block(s: &TestSpace<'_>) {
    let from = s.other("from");
    for n in 0..600 {
        from.put(&format!("k{n:03}"), &"v".repeat(400), n + 1);
    }
    let snapshot = from.snapshot();
    s.put("k001", "here", 1);
    s.put("k599", "here", 1_000);
    s.unchanged(|| {
        for at in [snapshot.len() / 2, snapshot.len() - 60, snapshot.len() - 1] {
            let mut other = snapshot.clone();
            other[at] ^= 1;
            is_found(s, &other);
            is_found(s, &snapshot[..at]);
        }
    });
}

/// An I/O error in the reader changes nothing.
pub fn failing_reader(s: &TestSpace<'_>) {
    struct Failing<'b>(&'b [u8]);

    impl Read for Failing<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            match self.0.read(room)? {
                0 => Err(io::Error::other("the wire broke")),
                read => Ok(read),
            }
        }
    }

    let (s, snapshot) = two(s);
    s.unchanged(|| {
        for end in [0, 8, 20, snapshot.len() / 2, snapshot.len() - 1] {
            let mut broken = Failing(&snapshot[..end]);
            refused(s.store().restore_from(&mut broken), Code::Io);
            refused(s.store().restore_keys_from(&mut Failing(&snapshot[..end])), Code::Io);
        }
    });
}

/// Entries that make no sense are refused even if the checksums are right.
pub fn nonsense_with_right_checksums(s: &TestSpace<'_>) {
    let (s, _) = two(s);
    let options = SpaceOptions { ordered: s.can().ordered, ..SpaceOptions::default() };
    let options = options.versions(VersionKind::U64);
    let head = SnapshotHead::all(SpaceInfo { options, frontier: None });
    let mut of_time = Vec::new();
    put_state(super::time(1, 1), Some(b"v"), &mut of_time);
    let mut good = Vec::new();
    put_state(9.into(), Some(b"v"), &mut good);
    let entries: [(&[u8], Option<&[u8]>); 7] = [
        (b"\0k", Some(&of_time)),
        (b"\0k", Some(b"")),
        (b"\0k", None),
        (b"\0", Some(&good)),
        (b"\x03k", Some(&good)),
        (b"\x04", Some(&[0; 8])),
        (b"\x04source", Some(&[0; 7])),
    ];
    s.unchanged(|| {
        for (place, payload) in entries {
            let mut writer = SnapshotWriter::new(Vec::new(), &head).unwrap();
            // A valid entry before the bad one must not be applied either.
            let before = EntryKind::state(&[0]);
            if before.as_slice() < place {
                writer.push(&before, Some(&good)).unwrap();
            }
            writer.push(place, payload).unwrap();
            let (_, bytes) = writer.finish().unwrap();
            is_found(&s, &bytes);
        }
    });
}
