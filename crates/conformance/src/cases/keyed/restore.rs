//! Atomic restore of a space. The old contents are removed later, in steps.

use super::{all, held, snapshot_of, space, whole};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, Code, EntryBlock, EntryKind, KeyedState, SpaceInfo, SpaceOptions, StateCommand,
    StateWrite, VersionKind, Wrote,
};

fn info() -> SpaceInfo {
    SpaceInfo { options: SpaceOptions::default().versions(VersionKind::U64), frontier: None }
}

fn state(key: &str, value: &str, version: u64) -> EntryBlock {
    let mut payload = Vec::new();
    mainstay::put_state(version.into(), Some(value.as_bytes()), &mut payload);
    let mut block = EntryBlock::default();
    block.push(&EntryKind::state(key.as_bytes()), Some(&payload));
    block
}

fn command(block: EntryBlock, begun: Option<u64>, ends: bool) -> StateCommand {
    StateCommand::Restore { space: name("s"), info: info(), block, begun, ends }
}

fn piece(w: &TestDb, block: EntryBlock, begun: Option<u64>, ends: bool) -> u64 {
    run(w.db(), command(block, begun, ends)).unwrap();
    w.db().revision()
}

/// A snapshot that needs several blocks.
fn large() -> Vec<u8> {
    let other = TestDb::memory();
    for n in 0..5 {
        space(&other).put(format!("k{n}"), vec![n as u8; 1 << 20], 9).unwrap();
    }
    space(&other).delete("gone", 9).unwrap();
    whole(&space(&other))
}

/// Readers see the complete old contents until the last block, then the complete new contents.
pub fn readers_see_one_or_the_other(w: &mut TestDb) {
    space(w).put("a", "old", 5).unwrap();
    let begun = piece(w, state("a", "new", 1), None, false);
    assert_eq!(all(&space(w)), ["a=old@5"]);
    assert_eq!(space(w).put("b", "meanwhile", 1).unwrap(), Wrote::Applied);
    piece(w, state("c", "new", 1), Some(begun), false);
    assert_eq!(all(&space(w)), ["a=old@5", "b=meanwhile@1"]);
    assert_eq!(w.db().spaces("", None, 9).unwrap().names, ["s"]);
    piece(w, state("d", "new", 1), Some(begun), true);
    assert_eq!(all(&space(w)), ["a=new@1", "c=new@1", "d=new@1"]);
    assert_eq!(
        space(w).put("a", "newer", 2).unwrap(),
        Wrote::Applied,
        "versions are the restored ones"
    );
}

/// A new space is invisible until its restore is complete.
pub fn new_space_is_not_seen_before(w: &mut TestDb) {
    let begun = piece(w, state("a", "new", 1), None, false);
    assert!(space(w).info().unwrap().is_none());
    assert_eq!(w.db().spaces("", None, 9).unwrap().names, Vec::<String>::new());
    assert_eq!((all(&space(w)), held(&space(w), "a")), (vec![], None));
    // A write meanwhile creates the space, and the end of the restore replaces it.
    space(w).put("x", "1", 1).unwrap();
    piece(w, EntryBlock::default(), Some(begun), true);
    assert_eq!(all(&space(w)), ["a=new@1"]);
}

/// Damaged, truncated or foreign bytes leave the space unchanged, and the staged entries can be reaped.
pub fn damage_leaves_everything(w: &mut TestDb) {
    space(w).put("a", "old", 5).unwrap();
    space(w).write(vec![StateWrite::advance("in", 5)]).unwrap();
    let before = whole(&space(w));
    let large = large();
    w.beside().reap().unwrap();
    let mut flipped = large.clone();
    let at = large.len() - 40;
    flipped[at] ^= 1;
    let cut = &large[..large.len() - 1];
    for damaged in [&flipped[..], cut, &large[..3 << 20], b"", b"MSTKEYS1", b"something else"] {
        refused(space(w).restore(damaged), Code::CorruptData);
        assert_eq!(whole(&space(w)), before);
    }
    let reaped = w.beside().reap().unwrap();
    assert!(reaped > 0, "what was filled goes");
    assert_eq!(w.beside().reap().unwrap(), 0);
    assert_eq!(whole(&space(w)), before);
    let keys = space(w).snapshot_keys(&mainstay::KeySelection::Prefix(vec![])).unwrap();
    refused(writes_nothing(w.db(), || space(w).restore(&keys)), Code::InvalidArgument);
    space(w).restore(&large).unwrap();
    assert_eq!(whole(&space(w)), large);
}

/// Of two concurrent restores the later one continues. The earlier one fails with `Fenced`.
pub fn another_one_fences(w: &mut TestDb) {
    let first = piece(w, state("a", "first", 1), None, false);
    let second = piece(w, state("a", "second", 1), None, false);
    refused(run(w.db(), command(state("b", "first", 1), Some(first), false)), Code::Fenced);
    refused(run(w.db(), command(state("b", "first", 1), Some(first), true)), Code::Fenced);
    let abandon = |begun| StateCommand::Abandon { space: name("s"), begun };
    assert_eq!(run(w.db(), abandon(first)).unwrap(), Answer::Did(false));
    piece(w, state("b", "second", 1), Some(second), true);
    assert_eq!(all(&space(w)), ["a=second@1", "b=second@1"]);
    refused(run(w.db(), command(EntryBlock::default(), Some(second), true)), Code::Fenced);
    refused(run(w.db(), command(EntryBlock::default(), Some(0), true)), Code::Fenced);
    w.beside().reap().unwrap();
    assert_eq!(all(&space(w)), ["a=second@1", "b=second@1"]);
}

/// Dropping the space fences a restore in progress.
pub fn removed_while_restoring(w: &mut TestDb) {
    space(w).put("a", "old", 1).unwrap();
    let begun = piece(w, state("a", "new", 1), None, false);
    space(w).clear().unwrap();
    refused(run(w.db(), command(state("b", "new", 1), Some(begun), true)), Code::Fenced);
    assert!(space(w).info().unwrap().is_none());
    w.beside().reap().unwrap();
    space(w).put("b", "again", 1).unwrap();
    assert_eq!(all(&space(w)), ["b=again@1"]);
}

/// The reaper removes all entries of a replaced generation and nothing else.
pub fn old_generations_are_reaped(w: &mut TestDb) {
    let other = w.db().keyed("s2").unwrap();
    other.put("a", "other", 1).unwrap();
    let writes = (0..50).map(|n| StateWrite::put(format!("k{n}"), "1", 1));
    let writes = writes.chain([
        StateWrite::delete("gone", 1),
        StateWrite::append("l", "i", "x"),
        StateWrite::advance("in", 1),
    ]);
    space(w).write(writes.collect()).unwrap();
    space(w).restore(&snapshot_of(&[("x", "1", 1)])).unwrap();
    // 53 entries, the index entry of the tombstone, and the marker.
    assert_eq!(w.beside().reap().unwrap(), 55);
    assert_eq!(w.beside().reap().unwrap(), 0);
    space(w).clear().unwrap();
    assert_eq!(w.beside().reap().unwrap(), 2);
    assert_eq!(all(&other), ["a=other@1"]);
}

/// Invalid entries are refused before any entry is written.
pub fn entries_are_looked_at(w: &mut TestDb) {
    let place = EntryKind::state(b"k").to_vec();
    let bad = |place: &[u8], payload: Option<&[u8]>| {
        let mut block = state("a", "1", 1);
        block.push(place, payload);
        block
    };
    let mut of_time = Vec::new();
    mainstay::put_state(mainstay::LogicalTime::new(1, 1).into(), Some(b"1"), &mut of_time);
    for block in [bad(&place, Some(&of_time)), bad(b"\x09", Some(b"")), bad(&place, Some(b""))] {
        refused(
            writes_nothing(w.db(), || run(w.db(), command(block, None, true))),
            Code::CorruptData,
        );
    }
    refused(run(w.db(), command(bad(&place, None), None, true)), Code::InvalidArgument);
    let waiting = EntryKind::waiting(3.into(), b"k");
    let closed = SpaceInfo { frontier: Some(5.into()), ..info() };
    let space_ = name("s");
    let block = bad(&waiting, Some(b"\0v"));
    let below =
        StateCommand::Restore { space: space_, info: closed, block, begun: None, ends: true };
    refused(run(w.db(), below), Code::InvalidArgument);
    assert!(space(w).info().unwrap().is_none());
}

/// A restore works in one transaction with other commands and with later writes to the space.
pub fn within_a_transaction(w: &mut TestDb) {
    space(w).put("a", "old", 5).unwrap();
    let all_of_it = mainstay::Transaction::new()
        .step(command(state("b", "new", 1), None, true))
        .step(super::put("b", "behind", 2))
        .step(set("c", 1));
    writes_once(w.db(), || w.db().execute(all_of_it).unwrap());
    assert_eq!(all(&space(w)), ["b=behind@2"]);
    let twice = mainstay::Transaction::new()
        .step(command(state("c", "new", 1), None, true))
        .step(command(state("d", "new", 1), None, true));
    refused(writes_nothing(w.db(), || w.db().execute(twice)), Code::InvalidArgument);
    assert_eq!(all(&space(w)), ["b=behind@2"]);
}
