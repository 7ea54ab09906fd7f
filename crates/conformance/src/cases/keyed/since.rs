//! Incremental snapshots: exactly the difference since a mark, or a full snapshot with the reason.

use super::{ordered, snapshot_of, space, space_on, whole};
use crate::TestDb;
use crate::assertions::done;
use mainstay::{
    At, EntryPlace, Keyed, KeyedState, SnapshotHead, SnapshotMark, SnapshotReader, SnapshotTaken,
    SnapshotWriter, StateWrite,
};
use std::collections::BTreeMap;

type Contents = BTreeMap<EntryPlace, Vec<u8>>;

fn since(keyed: &Keyed, mark: Option<&SnapshotMark>) -> (SnapshotTaken, Vec<u8>) {
    let mut bytes = Vec::new();
    (keyed.snapshot_since(mark, &mut bytes).unwrap(), bytes)
}

/// Applies an incremental or full snapshot to the contents.
fn apply(contents: &mut Contents, bytes: &[u8]) -> SnapshotHead {
    let mut reader = SnapshotReader::new(bytes).unwrap();
    let head = *reader.head();
    if !head.changes {
        contents.clear();
    }
    while let Some(block) = reader.next_block().unwrap() {
        for entry in &block {
            let (place, payload) = entry.unwrap();
            match payload {
                Some(payload) => contents.insert(place.into(), payload.to_vec()),
                None => contents.remove(place),
            };
        }
    }
    head
}

fn written(contents: &Contents, head: &SnapshotHead) -> Vec<u8> {
    let head = SnapshotHead { changes: false, ..*head };
    let mut writer = SnapshotWriter::new(Vec::new(), &head).unwrap();
    contents.iter().for_each(|(place, payload)| writer.push(place, Some(payload)).unwrap());
    writer.finish().unwrap().1
}

/// Applied in sequence, incremental snapshots reproduce the full snapshot byte for byte. Each has only
/// changed entries.
pub fn changes_add_up(w: &mut TestDb) {
    ordered(w);
    let keyed = space(w);
    let (taken, bytes) = since(&keyed, None);
    assert!(taken.is_full && taken.why.is_none());
    let mut contents = Contents::new();
    let mut mark = taken.mark;
    apply(&mut contents, &bytes);
    let steps: [(&dyn Fn(), u64); 7] = [
        (&|| done(keyed.put("a", "1", 1).unwrap()), 1),
        (
            &|| {
                done(
                    keyed
                        .write(vec![
                            StateWrite::put("b", "1", 2),
                            StateWrite::append("l", "1", "x"),
                            StateWrite::advance("in", 7),
                        ])
                        .unwrap(),
                )
            },
            3,
        ),
        (&|| done(keyed.seal(3).unwrap()), 4),
        (&|| done(keyed.delete("a", 4).unwrap()), 1),
        (&|| done(keyed.seal(9).unwrap()), 2),
        (&|| done(keyed.put("a", "late", 4).unwrap()), 0),
        (
            &|| {
                done((
                    keyed.put("c", "1", 10).unwrap(),
                    keyed.seal(11).unwrap(),
                    keyed.put("c", "2", 12).unwrap(),
                ))
            },
            3,
        ),
    ];
    for (step, entries) in steps {
        step();
        let (taken, bytes) = since(&keyed, mark.as_ref());
        assert!(!taken.is_full && taken.why.is_none(), "{taken:?}");
        assert_eq!(taken.summary.entries, entries);
        let head = apply(&mut contents, &bytes);
        assert_eq!(written(&contents, &head), whole(&keyed));
        mark = taken.mark;
    }
    let (taken, _) = since(&keyed, mark.as_ref());
    assert_eq!((taken.is_full, taken.summary.entries), (false, 0));
}

/// Changes in other spaces, on other branches, or staged by a restore are not included.
pub fn others_are_not_in_it(w: &mut TestDb) {
    space(w).put("a", "1", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let (taken, _) = since(&space(w), None);
    w.db().keyed("s2").unwrap().put("a", "1", 1).unwrap();
    space_on(w, "dev").put("a", "dev", 2).unwrap();
    space_on(w, "dev").clear().unwrap();
    w.cells().set("s", 1).unwrap();
    let info = space(w).info().unwrap().unwrap();
    let mut block = mainstay::EntryBlock::default();
    block.push(&mainstay::EntryKind::position("x"), Some(&[0; 8]));
    let begin = mainstay::StateCommand::Restore {
        space: crate::assertions::name("s"),
        info,
        block,
        begun: None,
        ends: false,
    };
    crate::assertions::run(w.db(), begin).unwrap();
    let (taken, _) = since(&space(w), taken.mark.as_ref());
    assert_eq!((taken.is_full, taken.summary.entries), (false, 0));
}

/// After a restore or a drop, on another branch, or with a mark from the future, the snapshot is full
/// and gives the reason.
pub fn full_says_why(w: &mut TestDb) {
    let keyed = space(w);
    keyed.put("a", "1", 1).unwrap();
    let full = |keyed: &Keyed, mark: &Option<SnapshotMark>, why: &str| {
        let (taken, bytes) = since(keyed, mark.as_ref());
        assert!(taken.is_full && taken.why.unwrap().contains(why), "{taken:?}");
        assert_eq!(bytes, whole(keyed));
        taken.mark
    };
    let mark = since(&keyed, None).0.mark;
    keyed.restore(&snapshot_of(&[("b", "1", 1)])).unwrap();
    let mark = full(&keyed, &mark, "restored");
    keyed.clear().unwrap();
    full(&keyed, &mark, "restored");
    keyed.put("a", "2", 1).unwrap();
    let mark = full(&keyed, &mark, "restored");
    // The log records the changes between the mark and the fork under the parent branch.
    keyed.put("b", "2", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let dev = space_on(w, "dev");
    dev.put("a", "3", 2).unwrap();
    let own = full(&dev, &mark, "forked");
    dev.put("a", "4", 3).unwrap();
    assert!(!since(&dev, own.as_ref()).0.is_full);
    // A mark can be ahead of the database if a backup was restored after the mark was taken.
    let SnapshotMark(mark) = since(&keyed, None).0.mark.unwrap();
    let (life, _) = mark.rsplit_once('/').unwrap();
    let ahead = SnapshotMark(format!("{life}/{}", w.db().revision() + 1_000));
    full(&keyed, &Some(ahead), "later");
}

/// Changes made by a merge are part of the target's incremental snapshot.
pub fn merges_are_changes(w: &mut TestDb) {
    space(w).put("a", "1", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    space_on(w, "dev").put("a", "2", 2).unwrap();
    space_on(w, "dev").put("b", "2", 2).unwrap();
    let (taken, _) = since(&space(w), None);
    w.db().merge("dev", "main", mainstay::MergeStrategy::Strict).unwrap();
    let (taken, _) = since(&space(w), taken.mark.as_ref());
    assert_eq!((taken.is_full, taken.summary.entries), (false, 2));
}
