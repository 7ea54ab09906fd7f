//! Keyed state in the change feed: each change exactly once.

use super::{ordered, snapshot_of, space, space_on, whole};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    At, ChangeKind, Contract, EntryBlock, EntryKind, Feed, Filter, KeyedState, StateCommand,
    StateWrite, Value,
};

fn watch(w: &TestDb) -> Feed {
    let wanted = Filter { contract: Some(Contract::Keyed), ..Filter::default() };
    w.db().watch(wanted, w.db().revision()).unwrap()
}

/// Writes an end marker and returns the key and kind of each event before it.
fn told(w: &TestDb, feed: &mut Feed) -> Vec<String> {
    w.db().keyed("end").unwrap().put("end", "1", w.db().revision() + 1).unwrap();
    let mut told = Vec::new();
    loop {
        let event = events(feed, 1).remove(0);
        match event.key.as_str() {
            "end" => {}
            "end/end" => return told,
            key => told.push(format!("{key} {:?}", event.kind)),
        }
    }
}

/// An event of a put contains revision, timestamp, branch, contract, key, version and value.
pub fn event_tells_everything(w: &mut TestDb) {
    space(w).put("a", "1", 1).unwrap();
    let mut feed = watch(w);
    w.pass_ms(3);
    space(w).put("a", "2", 7).unwrap();
    let event = events(&mut feed, 1).remove(0);
    assert_eq!((event.revision, event.stamp), (w.db().revision(), w.wall_us()));
    assert_eq!((event.branch.as_str(), event.key.as_str()), ("main", "s/a"));
    assert_eq!((event.contract, event.kind), (Contract::Keyed, ChangeKind::Set));
    let expected = [("value", "2"), ("version", "7")].map(|(k, v)| (k.to_owned(), Value::from(v)));
    assert_eq!(event.value, Some(Value::Object(expected.into())));
}

/// Puts, deletions, items, positions and drops each produce one event. Stale writes produce none.
pub fn each_change_once(w: &mut TestDb) {
    let mut feed = watch(w);
    space(w).put("a", "1", 1).unwrap();
    assert_eq!(told(w, &mut feed), ["s/a Set", "s Set"]);
    space(w).put("a", "2", 1).unwrap();
    space(w).put("a", "2", 2).unwrap();
    let twice = || StateWrite::append("a", "i", "x");
    space(w)
        .write(vec![twice(), twice(), StateWrite::advance("in", 4), StateWrite::advance("in", 3)])
        .unwrap();
    space(w).delete("a", 2).unwrap();
    space(w).delete("a", 3).unwrap();
    space(w).delete("a", 3).unwrap();
    let expected = ["s/a Set", "s/a#i Appended", "s@in Set", "s/a Deleted"];
    assert_eq!(told(w, &mut feed), expected);
    space(w).seal(9).unwrap();
    assert_eq!(told(w, &mut feed), ["s Set"], "that it is forgotten is no change");
    space(w).clear().unwrap();
    space(w).clear().unwrap();
    w.beside().reap().unwrap();
    assert_eq!(told(w, &mut feed), ["s Deleted"]);
}

/// A waiting write produces its event when it is applied. So does a deletion whose tombstone is
/// discarded at once.
pub fn waiting_is_told_when_it_is_applied(w: &mut TestDb) {
    ordered(w);
    let mut feed = watch(w);
    space(w).put("a", "1", 1).unwrap();
    space(w).put("b", "1", 1).unwrap();
    assert_eq!(told(w, &mut feed), Vec::<String>::new());
    space(w).seal(2).unwrap();
    assert_eq!(told(w, &mut feed), ["s/a Set", "s/b Set", "s Set"]);
    space(w).delete("a", 3).unwrap();
    space(w).delete("b", 9).unwrap();
    space(w).seal(5).unwrap();
    assert_eq!(told(w, &mut feed), ["s/a Deleted", "s Set"]);
}

fn piece(w: &TestDb, block: EntryBlock, begun: Option<u64>, ends: bool) -> u64 {
    let info = mainstay::SpaceInfo {
        options: mainstay::SpaceOptions::default().versions(mainstay::VersionKind::U64),
        frontier: None,
    };
    run(w.db(), StateCommand::Restore { space: name("s"), info, block, begun, ends }).unwrap();
    w.db().revision()
}

/// A restore is one event, independent of its number of blocks and entries. Beginning or abandoning one
/// is no event.
pub fn restoring_is_one_event(w: &mut TestDb) {
    let mut feed = watch(w);
    space(w).restore(&snapshot_of(&[("a", "1", 1), ("b", "2", 2)])).unwrap();
    assert_eq!(told(w, &mut feed), ["s Restored"]);
    let position = |n: u64| {
        let mut block = EntryBlock::default();
        block.push(&EntryKind::position(&format!("p{n}")), Some(&n.to_be_bytes()));
        block
    };
    let begun = piece(w, position(1), None, false);
    piece(w, position(2), Some(begun), false);
    assert_eq!(told(w, &mut feed), Vec::<String>::new());
    piece(w, position(3), Some(begun), true);
    w.beside().reap().unwrap();
    assert_eq!(told(w, &mut feed), ["s Restored"]);
    let begun = piece(w, position(1), None, false);
    run(w.db(), StateCommand::Abandon { space: name("s"), begun }).unwrap();
    w.beside().reap().unwrap();
    assert_eq!(told(w, &mut feed), Vec::<String>::new());
    space(w).clear().unwrap();
    assert_eq!(told(w, &mut feed), ["s Deleted"]);
    // A space that was never published produces no event, neither when it is created nor when it is
    // dropped.
    let begun = piece(w, position(1), None, false);
    run(w.db(), StateCommand::Abandon { space: name("s"), begun }).unwrap();
    piece(w, position(1), None, false);
    assert!(!space(w).clear().unwrap());
    assert_eq!(told(w, &mut feed), Vec::<String>::new());
}

/// Writes between the blocks of a restore produce events.
pub fn writes_while_restoring_are_told(w: &mut TestDb) {
    space(w).put("a", "1", 1).unwrap();
    let before = whole(&space(w));
    let begun = piece(w, EntryBlock::default(), None, false);
    let mut feed = watch(w);
    space(w).put("a", "2", 2).unwrap();
    space(w).seal(3).unwrap();
    assert_eq!(told(w, &mut feed), ["s/a Set", "s Set"]);
    piece(w, EntryBlock::default(), Some(begun), true);
    assert_eq!(told(w, &mut feed), ["s Restored"]);
    space(w).restore(&before).unwrap();
}

/// The feed can be filtered by branch, prefix and key.
pub fn filters(w: &mut TestDb) {
    let start = w.db().revision();
    w.db().fork("dev", "main", At::Latest).unwrap();
    space(w).put("a/1", "1", 1).unwrap();
    w.cells().set("s/a/1", 1).unwrap();
    space_on(w, "dev").put("a/2", "1", 1).unwrap();
    space(w).put([0xff_u8], "1", 1).unwrap();
    let see = |filter: Filter, count| {
        let contract = Some(Contract::Keyed);
        let mut feed = w.db().watch(Filter { contract, ..filter }, start).unwrap();
        let seen = events(&mut feed, count).into_iter();
        seen.map(|event| format!("{} {}", event.branch, event.key)).collect::<Vec<_>>()
    };
    let text = |text: &str| Some(text.to_owned());
    let of_a = Filter { prefix: text("s/a"), ..Filter::default() };
    assert_eq!(see(of_a, 2), ["main s/a/1", "dev s/a/2"]);
    assert_eq!(see(Filter { key: text("s/\\xff"), ..Filter::default() }, 1), ["main s/\\xff"]);
    assert_eq!(see(Filter { branch: text("dev"), ..Filter::default() }, 2), ["dev s/a/2", "dev s"]);
}
