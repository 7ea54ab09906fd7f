//! Merging records: field by field, with the expiry as one more field.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, ChangeKind, Code, Contract, DifferenceKind, Filter, MergeStrategy::*, Ttl};

/// Writes `k` as `{a: 1, b: 1}` and forks the branch.
fn forked(w: &TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("b", "1")]), None).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
}

fn merge(w: &TestDb, strategy: mainstay::MergeStrategy) -> mainstay::Result<u64> {
    w.db().merge("dev", "main", strategy)
}

/// A merge applies changed fields, new records and deletions of the source.
pub fn changes_travel(w: &mut TestDb) {
    w.records().set_field("gone", "a", "1").unwrap();
    forked(w);
    w.records_on("dev").set_field("k", "a", "2").unwrap();
    w.records_on("dev").set_field("new", "a", "1").unwrap();
    w.records_on("dev").delete("gone").unwrap();
    w.cells().set("own", 1).unwrap();
    assert_eq!(merge(w, Strict).unwrap(), w.db().revision());
    holds(&w.records(), "k", &[("a", "2"), ("b", "1")]);
    holds(&w.records(), "new", &[("a", "1")]);
    is_gone(&w.records(), "gone");
    assert_eq!(w.records().get("k").unwrap().unwrap().revision, w.db().revision());
}

/// Changes to different fields of a record do not conflict, and both are kept.
pub fn other_fields_do_not_conflict(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").set_fields("k", &fields(&[("a", "dev"), ("c", "dev")])).unwrap();
    w.records().set_fields("k", &fields(&[("b", "main"), ("d", "main")])).unwrap();
    merge(w, Strict).unwrap();
    holds(&w.records(), "k", &[("a", "dev"), ("b", "main"), ("c", "dev"), ("d", "main")]);
    holds(&w.records_on("dev"), "k", &[("a", "dev"), ("b", "1"), ("c", "dev")]);
}

/// A field cleared on one branch is cleared by the merge.
pub fn cleared_fields_travel(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").clear_field("k", "a").unwrap();
    w.records().set_field("k", "c", "main").unwrap();
    merge(w, Strict).unwrap();
    holds(&w.records(), "k", &[("b", "1"), ("c", "main")]);
}

/// The same field changed on both branches conflicts under `strict`, which writes nothing.
pub fn same_field_conflicts(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").set_field("k", "a", "dev").unwrap();
    w.records_on("dev").set_field("other", "a", "dev").unwrap();
    w.records().set_field("k", "a", "main").unwrap();
    let error = writes_nothing(w.db(), || merge(w, Strict)).unwrap_err();
    assert_eq!((error.code(), error.keys()), (Code::MergeConflict, &["k".to_owned()][..]));
    is_gone(&w.records(), "other");
    assert_eq!(w.db().diff("dev", "main").unwrap()[0].kind, DifferenceKind::Both);
}

/// Equal changes on both branches are no conflict.
pub fn same_change_is_no_conflict(w: &mut TestDb) {
    forked(w);
    for records in [w.records_on("dev"), w.records()] {
        records.set_fields("k", &fields(&[("a", "2"), ("c", "2")])).unwrap();
        records.clear_field("k", "b").unwrap();
    }
    merge(w, Strict).unwrap();
    holds(&w.records(), "k", &[("a", "2"), ("c", "2")]);
    assert_eq!(record_counter(&w.records(), "k"), Some(3), "nothing was written");
}

fn conflicting(w: &TestDb) {
    forked(w);
    w.records_on("dev").set_fields("k", &fields(&[("a", "dev"), ("c", "dev")])).unwrap();
    w.records().set_fields("k", &fields(&[("a", "main"), ("b", "main")])).unwrap();
}

/// `theirs` takes the source's value of conflicting fields and keeps the target's other changes.
pub fn theirs_takes_the_source(w: &mut TestDb) {
    conflicting(w);
    merge(w, Theirs).unwrap();
    holds(&w.records(), "k", &[("a", "dev"), ("b", "main"), ("c", "dev")]);
}

/// `ours` keeps the target's value of conflicting fields and applies the source's other changes.
pub fn ours_keeps_the_target(w: &mut TestDb) {
    conflicting(w);
    merge(w, Ours).unwrap();
    holds(&w.records(), "k", &[("a", "main"), ("b", "main"), ("c", "dev")]);
}

/// For a record created on both branches, different fields are combined and equal fields conflict.
pub fn made_on_both_sides(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.records_on("dev").put("new", &fields(&[("a", "dev")]), None).unwrap();
    w.records().put("new", &fields(&[("b", "main")]), None).unwrap();
    merge(w, Strict).unwrap();
    holds(&w.records(), "new", &[("a", "dev"), ("b", "main")]);
    w.records_on("dev").put("clash", &fields(&[("a", "dev")]), None).unwrap();
    w.records().put("clash", &fields(&[("a", "main")]), None).unwrap();
    refused(merge(w, Strict), Code::MergeConflict);
}

/// A record deleted on the source and changed on the target conflicts, and is resolved as a whole.
pub fn deletion_against_change(w: &mut TestDb) {
    for (strategy, left) in [(Theirs, None), (Ours, Some(&[("a", "main"), ("b", "1")]))] {
        forked(w);
        w.records_on("dev").delete("k").unwrap();
        w.records().set_field("k", "a", "main").unwrap();
        refused(merge(w, Strict), Code::MergeConflict);
        merge(w, strategy).unwrap();
        match left {
            Some(left) => holds(&w.records(), "k", left),
            None => is_gone(&w.records(), "k"),
        }
        w.db().delete_branch("dev").unwrap();
    }
}

/// A record changed on the source and deleted on the target conflicts, and is resolved as a whole.
pub fn change_against_deletion(w: &mut TestDb) {
    for (strategy, left) in [(Ours, None), (Theirs, Some(&[("a", "dev"), ("b", "1")]))] {
        forked(w);
        w.records_on("dev").set_field("k", "a", "dev").unwrap();
        w.records().delete("k").unwrap();
        refused(merge(w, Strict), Code::MergeConflict);
        merge(w, strategy).unwrap();
        match left {
            Some(left) => holds(&w.records(), "k", left),
            None => is_gone(&w.records(), "k"),
        }
        w.db().delete_branch("dev").unwrap();
    }
}

/// If the merge leaves no fields, the record is deleted.
pub fn no_fields_left_is_gone(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").clear_field("k", "a").unwrap();
    w.records().clear_field("k", "b").unwrap();
    merge(w, Strict).unwrap();
    is_gone(&w.records(), "k");
    assert_eq!(w.records().count("", &[]).unwrap(), 0);
}

/// A record deleted this way has no expiry.
pub fn no_fields_left_expires_no_more(w: &mut TestDb) {
    w.records().put("l", &fields(&[("a", "1"), ("b", "1")]), Some(Ttl::Millis(50))).unwrap();
    w.db().fork("late", "main", mainstay::At::Latest).unwrap();
    w.records_on("late").clear_field("l", "a").unwrap();
    w.records().clear_field("l", "b").unwrap();
    w.db().merge("late", "main", Strict).unwrap();
    assert_eq!(w.records().history("l", 1, None).unwrap()[0].expires, None);
    w.pass_ms(60);
    assert_eq!(w.db().sweep().unwrap(), 1, "that of the source");
}

/// A changed expiry is merged, even if the target changed fields.
pub fn expiry_travels(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").expire("k", Ttl::Millis(50)).unwrap();
    w.records().set_field("k", "a", "main").unwrap();
    merge(w, Strict).unwrap();
    holds(&w.records(), "k", &[("a", "main"), ("b", "1")]);
    let expires = |records: &mainstay::Records| records.get("k").unwrap().unwrap().expires;
    assert_eq!(expires(&w.records()), expires(&w.records_on("dev")));
    w.pass_ms(60);
    is_gone(&w.records(), "k");
    assert_eq!(w.db().sweep().unwrap(), 2, "both have their own");
}

/// An expiry changed only on the target is kept.
pub fn expiry_of_the_target_stays(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").set_field("k", "a", "dev").unwrap();
    w.records().expire("k", Ttl::Millis(50)).unwrap();
    merge(w, Strict).unwrap();
    holds(&w.records(), "k", &[("a", "dev"), ("b", "1")]);
    w.pass_ms(60);
    is_gone(&w.records(), "k");
}

/// Different expiries on both branches conflict like a field.
pub fn expiries_conflict(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").expire("k", Ttl::Millis(50)).unwrap();
    w.records().expire("k", Ttl::Millis(500)).unwrap();
    refused(merge(w, Strict), Code::MergeConflict);
    merge(w, Theirs).unwrap();
    w.pass_ms(60);
    is_gone(&w.records(), "k");
}

/// Counters never fall below either side's counter and have no gaps.
pub fn counters_are_never_lowered(w: &mut TestDb) {
    forked(w);
    (0..5).for_each(|n| done(w.records_on("dev").set_field("k", "a", n.to_string()).unwrap()));
    w.records().set_field("k", "b", "main").unwrap();
    merge(w, Strict).unwrap();
    assert_eq!(record_counter(&w.records(), "k"), Some(6));
    let history = w.records().history("k", 9, None).unwrap();
    assert_eq!((history[0].writes, history[1].counter), (4, 2));
    w.records_on("dev").delete("k").unwrap();
    merge(w, Theirs).unwrap();
    assert_eq!(w.records().set_field("k", "a", "1").unwrap(), 8, "behind both");
}

/// The last merge is the base of the next one, in both directions.
pub fn last_merge_is_the_next_base(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").set_field("k", "a", "dev").unwrap();
    w.records().set_field("k", "b", "main").unwrap();
    merge(w, Strict).unwrap();
    w.db().merge("main", "dev", Strict).unwrap();
    holds(&w.records_on("dev"), "k", &[("a", "dev"), ("b", "main")]);
    assert_eq!(w.db().diff("dev", "main").unwrap(), []);
    w.records_on("dev").set_field("k", "a", "2").unwrap();
    w.records().set_field("k", "b", "2").unwrap();
    merge(w, Strict).unwrap();
    holds(&w.records(), "k", &[("a", "2"), ("b", "2")]);
}

/// Cells and records are merged in one transaction, and a conflict in either aborts both.
pub fn both_kinds_in_one_transaction(w: &mut TestDb) {
    w.cells().set("c", 0).unwrap();
    forked(w);
    w.on("dev").set("c", 1).unwrap();
    w.records_on("dev").set_field("k", "a", "dev").unwrap();
    w.cells().set("c", 2).unwrap();
    refused(writes_nothing(w.db(), || merge(w, Strict)), Code::MergeConflict);
    holds(&w.records(), "k", &[("a", "1"), ("b", "1")]);
    writes_once(w.db(), || merge(w, Theirs).unwrap());
    holds(&w.records(), "k", &[("a", "dev"), ("b", "1")]);
    assert_eq!(w.cells().get("c").unwrap(), int(1));
}

/// Merged records produce events on the target branch.
pub fn merged_records_are_events(w: &mut TestDb) {
    forked(w);
    w.records_on("dev").set_field("k", "a", "dev").unwrap();
    let wanted = Filter { contract: Some(Contract::Records), ..Filter::default() };
    let mut feed = w.db().watch(wanted, w.db().revision()).unwrap();
    merge(w, Strict).unwrap();
    let event = events(&mut feed, 1).remove(0);
    assert_eq!(
        (event.branch.as_str(), event.key.as_str(), event.kind),
        ("main", "k", ChangeKind::Set)
    );
    assert_eq!(event.fields, Some(fields(&[("a", "dev"), ("b", "1")])));
}
