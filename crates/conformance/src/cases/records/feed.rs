//! Records in the change feed: each change once, with fields and counter; expiries are events.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{ChangeKind, Contract, Feed, Filter, HashCommand, StringCommand, Transaction, Ttl};

fn watch(w: &TestDb) -> Feed {
    let wanted = Filter { contract: Some(Contract::Records), ..Filter::default() };
    w.db().watch(wanted, w.db().revision()).unwrap()
}

/// An event of a write contains revision, timestamp, branch, contract, key, kind, fields and counter.
pub fn event_tells_everything(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    let mut feed = watch(w);
    w.pass_ms(3);
    w.records().set_field("k", "b", "2").unwrap();
    let event = events(&mut feed, 1).remove(0);
    assert_eq!((event.revision, event.stamp), (w.db().revision(), w.wall_us()));
    assert_eq!((event.branch.as_str(), event.key.as_str()), ("main", "k"));
    assert_eq!((event.contract, event.kind), (Contract::Records, ChangeKind::Set));
    assert_eq!((event.fields, event.value), (Some(fields(&[("a", "1"), ("b", "2")])), None));
    assert_eq!(event.counter, 2);
}

/// A deletion has the kind `Deleted`, also when the last field is removed.
pub fn deletion_has_its_own_kind(w: &mut TestDb) {
    let mut feed = watch(w);
    w.records().set_field("k", "a", "1").unwrap();
    w.records().delete("k").unwrap();
    w.records().set_field("k", "a", "1").unwrap();
    w.records().clear_field("k", "a").unwrap();
    w.records().set_field("k", "a", "1").unwrap();
    let last = HashCommand::Delete { key: name("k"), fields: vec![field("a")] };
    run(w.db(), last).unwrap();
    let seen: Vec<_> =
        events(&mut feed, 6).into_iter().map(|e| (e.kind, e.counter, e.fields)).collect();
    let one = || Some(fields(&[("a", "1")]));
    let set = |counter| (ChangeKind::Set, counter, one());
    let deleted = |counter| (ChangeKind::Deleted, counter, None);
    assert_eq!(seen, [set(1), deleted(2), set(3), deleted(4), set(5), deleted(6)]);
}

/// A swept expiry is an event with the kind `Expired`.
pub fn swept_expiry_is_an_event(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    let mut feed = watch(w);
    w.pass_ms(6);
    w.db().sweep().unwrap();
    let event = events(&mut feed, 1).remove(0);
    assert_eq!((event.kind, event.counter, event.fields), (ChangeKind::Expired, 2, None));
}

/// A write to an expired record produces an `Expired` event before its own.
pub fn met_expiry_is_an_event(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    let mut feed = watch(w);
    w.pass_ms(6);
    w.records().set_field("k", "b", "1").unwrap();
    let seen: Vec<_> = events(&mut feed, 2).into_iter().map(|e| (e.kind, e.counter)).collect();
    assert_eq!(seen, [(ChangeKind::Expired, 2), (ChangeKind::Set, 3)]);
}

/// An inherited expiry produces no event on the branch.
pub fn inherited_expiry_is_no_event(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    let mut feed = watch(w);
    w.pass_ms(6);
    w.db().sweep().unwrap();
    w.records_on("dev").set_field("end", "a", "1").unwrap();
    let seen: Vec<_> = events(&mut feed, 2).into_iter().map(|e| (e.branch, e.key)).collect();
    assert_eq!(seen, [("main".into(), "k".into()), ("dev".into(), "end".into())]);
}

/// A contract filter separates records from cells with the same names.
pub fn by_contract(w: &mut TestDb) {
    let mut records = watch(w);
    let of_cells = Filter { contract: Some(Contract::Cells), ..Filter::default() };
    let mut cells = w.db().watch(of_cells, w.db().revision()).unwrap();
    let both = Transaction::new().step(set("k", 1)).step(write("k", &[("a", "1")]));
    w.db().execute(both).unwrap();
    w.records().set_field("r", "a", "1").unwrap();
    w.cells().set("c", 1).unwrap();
    assert_eq!(keys(&mut records, 2), ["k", "r"]);
    assert_eq!(keys(&mut cells, 2), ["k", "c"]);
}

/// The feed can be filtered by prefix, key and branch.
pub fn by_prefix_key_and_branch(w: &mut TestDb) {
    let start = w.db().revision();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    for key in ["a/1", "b", "a/2"] {
        w.records().set_field(key, "f", "1").unwrap();
        w.records_on("dev").set_field(key, "f", "2").unwrap();
    }
    let contract = Some(Contract::Records);
    let see = |filter: Filter, count| {
        let mut feed = w.db().watch(Filter { contract, ..filter }, start).unwrap();
        let seen = events(&mut feed, count).into_iter();
        seen.map(|event| format!("{} {}", event.branch, event.key)).collect::<Vec<_>>()
    };
    let main = Some("main".to_owned());
    let prefix = Some("a/".to_owned());
    let key = Some("b".to_owned());
    assert_eq!(
        see(Filter { branch: main, prefix, ..Filter::default() }, 2),
        ["main a/1", "main a/2"]
    );
    assert_eq!(see(Filter { key, ..Filter::default() }, 2), ["main b", "dev b"]);
}

/// A transaction produces one event per record, with the final state.
pub fn one_event_per_record_and_transaction(w: &mut TestDb) {
    let mut feed = watch(w);
    let transaction = Transaction::new()
        .step(write("k", &[("a", "1")]))
        .step(write("k", &[("b", "2")]))
        .step(write("l", &[("a", "1")]))
        .step(delete_record("l"));
    w.db().execute(transaction).unwrap();
    let seen: Vec<_> =
        events(&mut feed, 2).into_iter().map(|e| (e.key, e.kind, e.counter)).collect();
    assert_eq!(seen, [("k".into(), ChangeKind::Set, 2), ("l".into(), ChangeKind::Deleted, 2)]);
}

/// Commands without a write produce no event.
pub fn failures_are_not_in_it(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    let mut feed = watch(w);
    w.records().compare_and_swap("k", "a", "x", "2").unwrap();
    w.records().delete("absent").unwrap();
    w.records().expire("k", Ttl::Keep).unwrap();
    w.records().put("k", &fields(&[]), None).unwrap_err();
    w.records().set_field("end", "a", "1").unwrap();
    assert_eq!(keys(&mut feed, 1), ["end"]);
}

/// Overwriting a record with a string produces a deletion of the record and a new cell.
pub fn overwritten_is_deleted(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    let mut feed = w.db().watch(Filter::default(), w.db().revision()).unwrap();
    let put = StringCommand::Put { name: name("k"), value: "v".into(), ttl: Ttl::Clear };
    text(w.db(), put).unwrap();
    let mut seen: Vec<_> = events(&mut feed, 2).into_iter().map(|e| (e.contract, e.kind)).collect();
    seen.sort_by_key(|(contract, _)| *contract == Contract::Records);
    assert_eq!(
        seen,
        [(Contract::Cells, ChangeKind::Set), (Contract::Records, ChangeKind::Deleted)]
    );
}

/// Deleting an expired record produces an `Expired` event, even if the same transaction writes the
/// record again.
pub fn expiry_met_by_a_deletion_is_an_event(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    let mut feed = watch(w);
    w.pass_ms(6);
    let anew = Transaction::new().step(delete_record("k")).step(write("k", &[("a", "2")]));
    w.db().execute(anew).unwrap();
    let seen: Vec<_> = events(&mut feed, 2).into_iter().map(|e| (e.kind, e.counter)).collect();
    assert_eq!(seen, [(ChangeKind::Expired, 2), (ChangeKind::Set, 3)]);
}

/// A merge onto an expired record produces an `Expired` event before its own, and counts the expiry as a
/// write.
pub fn expiry_met_by_a_merge_is_an_event(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    w.records_on("dev").expire("k", Ttl::Clear).unwrap();
    let mut feed = watch(w);
    w.pass_ms(6);
    w.db().merge("dev", "main", mainstay::MergeStrategy::Theirs).unwrap();
    let seen: Vec<_> = events(&mut feed, 2).into_iter().map(|e| (e.kind, e.counter)).collect();
    assert_eq!(seen, [(ChangeKind::Expired, 2), (ChangeKind::Set, 3)]);
    assert_eq!(w.records().history("k", 1, None).unwrap()[0].writes, 2);
}

/// Writes and deletions on a branch that meet an inherited expiry produce no `Expired` event.
pub fn met_inherited_expiry_is_no_event(w: &mut TestDb) {
    for key in ["k", "l"] {
        w.records().put(key, &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    }
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    let mut feed = watch(w);
    w.pass_ms(6);
    let dev = w.records_on("dev");
    assert!(!writes_nothing(w.db(), || dev.delete("l").unwrap()));
    assert_eq!(dev.set_field("k", "a", "2").unwrap(), 3);
    dev.set_field("end", "a", "1").unwrap();
    let seen: Vec<_> = events(&mut feed, 2).into_iter().map(|e| (e.kind, e.key)).collect();
    assert_eq!(seen, [(ChangeKind::Set, "k".into()), (ChangeKind::Set, "end".into())]);
}
