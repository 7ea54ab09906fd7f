//! Merge strategies: conflict resolution for keys that changed on both branches.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, ErrorKind, MergeStrategy::*};

/// Changes `k` and `l` on both branches, `m` only on the source, `n` only on the target.
fn conflicting(w: &TestDb) {
    for cell in ["k", "l", "m", "n"] {
        w.cells().set(cell, 0).unwrap();
    }
    w.db().fork("dev", "main", At::Latest).unwrap();
    for cell in ["k", "l", "m"] {
        w.on("dev").set(cell, 1).unwrap();
    }
    for cell in ["k", "l", "n"] {
        w.cells().set(cell, 2).unwrap();
    }
}

fn all(w: &TestDb) -> Vec<i64> {
    ["k", "l", "m", "n"]
        .map(|cell| w.cells().get(cell).unwrap().unwrap().as_i64().unwrap())
        .to_vec()
}

/// `strict` fails without a change and lists the conflicting keys.
pub fn strict_changes_nothing_and_lists_the_keys(w: &mut TestDb) {
    conflicting(w);
    let error = writes_nothing(w.db(), || w.db().merge("dev", "main", Strict).unwrap_err());
    assert_eq!((error.code(), error.kind()), (Code::MergeConflict, ErrorKind::Conflict));
    assert_eq!(error.keys(), ["k", "l"]);
    assert_eq!(all(w), [2, 2, 0, 2]);
}

/// `theirs` takes the source's values.
pub fn theirs_takes_the_source(w: &mut TestDb) {
    conflicting(w);
    w.db().merge("dev", "main", Theirs).unwrap();
    assert_eq!(all(w), [1, 1, 1, 2]);
}

/// `ours` keeps the target's values of conflicting keys and still applies the other changes.
pub fn ours_keeps_the_target(w: &mut TestDb) {
    conflicting(w);
    w.db().merge("dev", "main", Ours).unwrap();
    assert_eq!(all(w), [2, 2, 1, 2]);
    assert_eq!(counter(&w.cells(), "k"), Some(2), "what stays is not written");
}

/// A conflict resolved by `ours` does not recur in the next merge.
pub fn settled_by_ours_stays_settled(w: &mut TestDb) {
    conflicting(w);
    w.db().merge("dev", "main", Ours).unwrap();
    w.on("dev").set("m", 3).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    assert_eq!(all(w), [2, 2, 3, 2]);
}

/// After `ours`, a merge in the other direction takes the target's values.
pub fn settled_by_ours_comes_back(w: &mut TestDb) {
    conflicting(w);
    w.db().merge("dev", "main", Ours).unwrap();
    w.db().merge("main", "dev", Strict).unwrap();
    assert_eq!(w.on("dev").get("k").unwrap(), int(2));
}

/// With `theirs`, the source's deletion wins over the target's change.
pub fn theirs_brings_deletions(w: &mut TestDb) {
    conflicting(w);
    w.on("dev").delete("k").unwrap();
    w.db().merge("dev", "main", Theirs).unwrap();
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// With `theirs`, the source's change wins over the target's deletion.
pub fn theirs_brings_back_what_was_deleted(w: &mut TestDb) {
    conflicting(w);
    w.cells().delete("k").unwrap();
    w.db().merge("dev", "main", Theirs).unwrap();
    assert_eq!(w.cells().get("k").unwrap(), int(1));
    assert_eq!(counter(&w.cells(), "k"), Some(4));
}

/// A key deleted on one branch and changed on the other conflicts with `strict`.
pub fn deletion_against_change_conflicts(w: &mut TestDb) {
    conflicting(w);
    w.on("dev").set("k", 2).unwrap();
    w.on("dev").set("l", 2).unwrap();
    w.on("dev").delete("n").unwrap();
    let error = w.db().merge("dev", "main", Strict).unwrap_err();
    assert_eq!(error.keys(), ["n"]);
}

/// The same value on both branches is no conflict.
pub fn same_change_is_no_conflict(w: &mut TestDb) {
    conflicting(w);
    w.on("dev").set("k", 2).unwrap();
    w.on("dev").set("l", 2).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    assert_eq!(all(w), [2, 2, 1, 2]);
    assert_eq!(counter(&w.cells(), "k"), Some(2), "nothing had to be written");
}
