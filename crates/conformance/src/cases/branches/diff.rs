//! Three-way diff `diff(a, b)` against the common ancestor, by value.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, Difference, DifferenceKind, Value};

fn found(w: &TestDb, a: &str, b: &str) -> Vec<Difference> {
    w.db().diff(a, b).unwrap()
}

/// Values at the base, on `a` and on `b`.
fn values(difference: &Difference) -> [Option<Value>; 3] {
    [difference.base.clone(), difference.a.clone(), difference.b.clone()]
}

fn one_cell_and_a_fork(w: &TestDb) {
    w.cells().set("k", 0).unwrap();
    w.cells().set("still", 0).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
}

/// A fresh fork does not differ from its parent, nor a branch from itself.
pub fn fresh_forks_do_not_differ(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    assert!(found(w, "main", "dev").is_empty());
    assert!(found(w, "main", "main").is_empty());
}

/// A change on one branch only is reported for that branch.
pub fn change_on_one_side(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.on("dev").set("k", 1).unwrap();
    let seen = found(w, "main", "dev");
    assert_eq!((seen.len(), seen[0].key.as_str()), (1, "k"));
    assert!(matches!(seen[0].kind, DifferenceKind::OnlyB));
    assert_eq!(values(&seen[0]), [int(0), int(0), int(1)]);
    let turned = found(w, "dev", "main");
    assert!(matches!(turned[0].kind, DifferenceKind::OnlyA));
    assert_eq!(values(&turned[0]), [int(0), int(1), int(0)]);
}

/// Different changes on both branches are reported as `Both`.
pub fn change_on_both_sides(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.cells().set("k", 1).unwrap();
    w.on("dev").set("k", 2).unwrap();
    let seen = found(w, "main", "dev");
    assert_eq!(seen.len(), 1);
    assert!(matches!(seen[0].kind, DifferenceKind::Both));
    assert_eq!(values(&seen[0]), [int(0), int(1), int(2)]);
}

/// The same value on both branches is no difference, even if timestamps and counters differ.
pub fn same_change_on_both_sides_is_none(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.cells().set("k", 1).unwrap();
    w.pass_ms(5);
    w.on("dev").set("k", 7).unwrap();
    w.on("dev").set("k", 1).unwrap();
    assert!(found(w, "main", "dev").is_empty());
}

/// A value that is changed and changed back is no difference.
pub fn there_and_back_is_none(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.on("dev").set("k", 1).unwrap();
    w.on("dev").set("k", 0).unwrap();
    assert!(found(w, "main", "dev").is_empty());
}

/// A deletion is a difference.
pub fn deletion_is_a_difference(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.on("dev").delete("k").unwrap();
    let seen = found(w, "main", "dev");
    assert_eq!(values(&seen[0]), [int(0), int(0), None]);
}

/// A key deleted on both branches is no difference.
pub fn deleted_on_both_sides_is_none(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.on("dev").delete("k").unwrap();
    w.cells().delete("k").unwrap();
    assert!(found(w, "main", "dev").is_empty());
}

/// A key deleted on one branch and changed on the other is reported as `Both`.
pub fn deleted_here_changed_there(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.on("dev").delete("k").unwrap();
    w.cells().set("k", 1).unwrap();
    let seen = found(w, "main", "dev");
    assert!(matches!(seen[0].kind, DifferenceKind::Both));
    assert_eq!(values(&seen[0]), [int(0), int(1), None]);
}

/// A new key has no base.
pub fn new_key_has_no_base(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.on("dev").set("new", 1).unwrap();
    assert_eq!(values(&found(w, "main", "dev")[0]), [None, None, int(1)]);
}

/// A key that is created and deleted again is no difference.
pub fn come_and_gone_is_none(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.on("dev").set("new", 1).unwrap();
    w.on("dev").delete("new").unwrap();
    assert!(found(w, "main", "dev").is_empty());
}

/// `Null` differs from an absent key.
pub fn null_is_not_absence(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.on("dev").set("new", ()).unwrap();
    assert_eq!(values(&found(w, "main", "dev")[0]), [None, None, Some(Value::Null)]);
}

/// The common ancestor of siblings is the older of their two fork revisions.
pub fn siblings_meet_at_the_older_fork(w: &mut TestDb) {
    w.cells().set("k", 0).unwrap();
    w.db().fork("one", "main", At::Latest).unwrap();
    w.cells().set("k", 1).unwrap();
    w.db().fork("two", "main", At::Latest).unwrap();
    let seen = found(w, "one", "two");
    assert_eq!(seen.len(), 1);
    assert!(matches!(seen[0].kind, DifferenceKind::OnlyB));
    assert_eq!(values(&seen[0]), [int(0), int(0), int(1)]);
}

/// The common ancestor of a branch and its grandparent is the revision where the parent forked.
pub fn grandchild_meets_its_grandparent(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.on("dev").set("k", 1).unwrap();
    w.db().fork("deep", "dev", At::Latest).unwrap();
    w.cells().set("k", 2).unwrap();
    let seen = found(w, "deep", "main");
    assert_eq!(values(&seen[0]), [int(0), int(1), int(2)]);
}

/// Differences are sorted by key.
pub fn in_the_order_of_keys(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    for cell in ["z", "a", "m"] {
        w.on("dev").set(cell, 1).unwrap();
    }
    w.cells().set("b", 1).unwrap();
    let keys: Vec<String> = found(w, "main", "dev").into_iter().map(|d| d.key).collect();
    assert_eq!(keys, ["a", "b", "m", "z"]);
}

/// An unknown branch is refused.
pub fn unknown_branch_is_refused(w: &mut TestDb) {
    refused(w.db().diff("main", "nowhere").map(drop), Code::BranchNotFound);
    refused(w.db().diff("nowhere", "main").map(drop), Code::BranchNotFound);
}

/// A diff writes nothing.
pub fn looking_writes_nothing(w: &mut TestDb) {
    one_cell_and_a_fork(w);
    w.on("dev").set("k", 1).unwrap();
    writes_nothing(w.db(), || found(w, "main", "dev"));
}
