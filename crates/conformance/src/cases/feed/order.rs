//! Order and content of feed events: every committed change exactly once.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, ChangeKind, Contract, Event, Filter, Transaction, Ttl};
use std::time::Duration;

fn all(w: &TestDb, after: u64) -> mainstay::Feed {
    w.db().watch(Filter::default(), after).unwrap()
}

/// Events are ordered by revision.
pub fn in_the_order_of_revisions(w: &mut TestDb) {
    let mut feed = all(w, w.db().revision());
    for cell in ["c", "a", "b", "a"] {
        w.cells().set(cell, 1).unwrap();
    }
    let seen = events(&mut feed, 4);
    let keys: Vec<&str> = seen.iter().map(|event| event.key.as_str()).collect();
    assert_eq!(keys, ["c", "a", "b", "a"]);
    assert!(seen.windows(2).all(|two| two[0].revision < two[1].revision));
}

/// An event contains revision, timestamp, branch, contract, key, kind, value and counter.
pub fn event_tells_everything(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let mut feed = all(w, w.db().revision());
    w.pass_ms(3);
    w.cells().set("k", 2).unwrap();
    let event = events(&mut feed, 1).remove(0);
    assert_eq!((event.revision, event.stamp), (w.db().revision(), w.wall_us()));
    assert_eq!((event.branch.as_str(), event.key.as_str()), ("main", "k"));
    assert!(matches!(event.contract, Contract::Cells));
    assert!(matches!(event.kind, ChangeKind::Set));
    assert_eq!((event.value, event.counter), (int(2), 2));
}

/// A deletion has the kind `Deleted` and no value.
pub fn deletion_has_its_own_kind(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let mut feed = all(w, w.db().revision());
    w.cells().delete("k").unwrap();
    let event = events(&mut feed, 1).remove(0);
    assert!(matches!(event.kind, ChangeKind::Deleted));
    assert_eq!((event.value, event.counter), (None, 2));
}

/// An expiry has the kind `Expired` and no value.
pub fn expiry_has_its_own_kind(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(5)).unwrap();
    let mut feed = all(w, w.db().revision());
    w.pass_ms(6);
    w.db().sweep().unwrap();
    let event = events(&mut feed, 1).remove(0);
    assert!(matches!(event.kind, ChangeKind::Expired), "{:?}", event.kind);
    assert_eq!((event.key.as_str(), event.value), ("k", None));
}

/// A transaction produces one event per written key, with the final value.
pub fn one_event_per_key_and_transaction(w: &mut TestDb) {
    let mut feed = all(w, w.db().revision());
    let transaction =
        Transaction::new().step(set("b", 1)).step(set("a", 1)).step(set("b", 2)).step(get("c"));
    w.db().execute(transaction).unwrap();
    w.cells().set("end", 1).unwrap();
    let seen = events(&mut feed, 3);
    let of = |key: &str| -> Vec<&Event> { seen.iter().filter(|event| event.key == key).collect() };
    assert_eq!((of("a").len(), of("b").len(), of("end").len()), (1, 1, 1));
    assert_eq!((&of("b")[0].value, of("b")[0].counter), (&int(2), 2));
    assert_eq!(of("a")[0].revision, of("b")[0].revision);
}

/// Failed commands and commands without an effect produce no event.
pub fn failures_are_not_in_it(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    let mut feed = all(w, w.db().revision());
    w.cells().incr("text", 1).unwrap_err();
    w.cells().cas("text", Some(7), 1).unwrap();
    w.cells().delete("absent").unwrap();
    w.db().execute(Transaction::new().step(set("a", 1)).must(delete("b"))).unwrap_err();
    w.cells().set("end", 1).unwrap();
    assert_eq!(keys(&mut feed, 1), ["end"]);
}

/// `next` returns `None` after its timeout if no change was committed.
pub fn nothing_more_is_none(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let mut feed = all(w, w.db().revision());
    assert!(feed.next(Duration::from_millis(10)).unwrap().is_none());
    w.cells().set("k", 2).unwrap();
    assert_eq!(keys(&mut feed, 1), ["k"]);
    assert!(feed.next(Duration::from_millis(10)).unwrap().is_none());
}

/// A waiting consumer is woken by the next change.
pub fn waiting_consumer_is_woken(w: &mut TestDb) {
    let mut feed = all(w, w.db().revision());
    let cells = w.cells();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || keys(&mut feed, 1));
        cells.set("k", 1).unwrap();
        assert_eq!(waiting.join().unwrap(), ["k"]);
    });
}

/// Branch and tag changes are events too.
pub fn branch_changes_are_events(w: &mut TestDb) {
    let mut feed = all(w, w.db().revision());
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.db().rename_branch("dev", "next").unwrap();
    w.db().tag("v", "next", At::Latest).unwrap();
    w.db().untag("v").unwrap();
    w.db().delete_branch("next").unwrap();
    let seen = events(&mut feed, 5);
    assert!(matches!(seen[0].kind, ChangeKind::Forked), "{:?}", seen[0].kind);
    assert!(matches!(seen[1].kind, ChangeKind::Renamed), "{:?}", seen[1].kind);
    assert!(matches!(seen[2].kind, ChangeKind::Tagged), "{:?}", seen[2].kind);
    assert!(matches!(seen[3].kind, ChangeKind::Untagged), "{:?}", seen[3].kind);
    assert!(matches!(seen[4].kind, ChangeKind::BranchDeleted), "{:?}", seen[4].kind);
    assert!(seen.iter().all(|event| matches!(event.contract, Contract::Branches)));
}

/// Changes written by a merge are events on the target branch.
pub fn merged_changes_are_events(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set("a", 1).unwrap();
    let filter = Filter { contract: Some(Contract::Cells), ..Filter::default() };
    let mut feed = w.db().watch(filter, w.db().revision()).unwrap();
    let merged = w.db().merge("dev", "main", Default::default()).unwrap();
    let event = events(&mut feed, 1).remove(0);
    assert_eq!((event.branch.as_str(), event.key.as_str()), ("main", "a"));
    assert_eq!((event.revision, event.value), (merged, int(1)));
}

/// The expiry of an inherited key is an event only on the branch that wrote the key.
pub fn inherited_expiry_is_no_event(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(5)).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let mut feed = all(w, w.db().revision());
    w.pass_ms(6);
    w.db().sweep().unwrap();
    w.cells().set("end", 1).unwrap();
    let seen = events(&mut feed, 2);
    assert_eq!((seen[0].branch.as_str(), seen[0].key.as_str()), ("main", "k"));
    assert_eq!(seen[1].key, "end");
}
