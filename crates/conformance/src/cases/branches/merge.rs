//! `merge(from, into, strategy)`: applies one branch's changes to another in one transaction.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, MergeStrategy::*, Ttl};

fn forked(w: &TestDb) {
    w.cells().set("k", 0).unwrap();
    w.cells().set("l", 0).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
}

/// A merge applies changes, new keys and deletions.
pub fn changes_travel(w: &mut TestDb) {
    forked(w);
    w.on("dev").set("k", 1).unwrap();
    w.on("dev").set("new", 1).unwrap();
    w.on("dev").delete("l").unwrap();
    writes_once(w.db(), || w.db().merge("dev", "main", Strict).unwrap());
    assert_eq!(names(&w.cells(), ""), ["k", "new"]);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// A merge returns its revision.
pub fn answers_its_revision(w: &mut TestDb) {
    forked(w);
    w.on("dev").set("k", 1).unwrap();
    let revision = w.db().merge("dev", "main", Strict).unwrap();
    assert_eq!(revision, w.db().revision());
    assert_eq!(w.cells().get_versioned("k").unwrap().unwrap().revision, revision);
}

/// The target keeps its own changes to keys that the source did not change.
pub fn target_keeps_its_own_changes(w: &mut TestDb) {
    forked(w);
    w.on("dev").set("k", 1).unwrap();
    w.cells().set("l", 2).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    assert_eq!((w.cells().get("k").unwrap(), w.cells().get("l").unwrap()), (int(1), int(2)));
}

/// A merge does not change the source.
pub fn source_is_not_changed(w: &mut TestDb) {
    forked(w);
    w.on("dev").set("k", 1).unwrap();
    w.cells().set("l", 2).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    assert_eq!(w.on("dev").get("l").unwrap(), int(0));
    assert_eq!(counter(&w.on("dev"), "k"), Some(2));
}

/// Merged writes get the revision and timestamp of the merge and do not appear in the target's past.
pub fn merged_writes_are_not_in_the_past(w: &mut TestDb) {
    forked(w);
    w.on("dev").set("k", 1).unwrap();
    w.pass_ms(10);
    let before = w.db().revision();
    w.db().merge("dev", "main", Strict).unwrap();
    let seen = w.cells().get_versioned("k").unwrap().unwrap();
    assert_eq!((seen.revision, seen.stamp), (w.db().revision(), w.wall_us()));
    assert_eq!(read_at(&w.cells(), At::Revision(before), "k").unwrap(), int(0));
}

/// A merge from a parent into its child works the same way.
pub fn from_parent_into_child(w: &mut TestDb) {
    forked(w);
    w.cells().set("k", 1).unwrap();
    w.db().merge("main", "dev", Strict).unwrap();
    assert_eq!(w.on("dev").get("k").unwrap(), int(1));
}

/// A merge between siblings does not change their parent.
pub fn between_siblings(w: &mut TestDb) {
    forked(w);
    w.db().fork("other", "main", At::Latest).unwrap();
    w.on("dev").set("k", 1).unwrap();
    w.on("other").set("l", 2).unwrap();
    w.db().merge("dev", "other", Strict).unwrap();
    let other = w.on("other");
    assert_eq!((other.get("k").unwrap(), other.get("l").unwrap()), (int(1), int(2)));
    assert_eq!(w.cells().get("k").unwrap(), int(0));
}

/// The counter in the target rises by at least one and never falls below the source's counter.
pub fn counters_are_never_lowered(w: &mut TestDb) {
    forked(w);
    for n in 1..=5 {
        w.on("dev").set("k", n).unwrap();
    }
    w.on("dev").set("l", 5).unwrap();
    for _ in 1..=4 {
        w.cells().set("l", 5).unwrap();
    }
    w.cells().set("l", 0).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    assert_eq!(counter(&w.cells(), "k"), Some(6), "the source's, since the target had 1");
    assert_eq!(counter(&w.cells(), "l"), Some(7), "one more than the target's 6");
}

/// The merged version records how many writes it represents, so that the counter has no unexplained gap.
pub fn counters_have_no_gaps(w: &mut TestDb) {
    forked(w);
    for n in 1..=5 {
        w.on("dev").set("k", n).unwrap();
    }
    w.db().merge("dev", "main", Strict).unwrap();
    let seen = w.cells().history("k", 9, None).unwrap();
    assert_eq!((seen[0].counter, seen[1].counter), (6, 1));
    assert_eq!(seen[0].writes, 5);
}

/// A merged deletion keeps its counter, so a stale compare-and-swap cannot succeed afterwards.
pub fn deletions_travel_with_their_counter(w: &mut TestDb) {
    forked(w);
    w.on("dev").set("k", 1).unwrap();
    w.on("dev").delete("k").unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    assert_eq!(w.cells().cas("k", Some(1), 9).unwrap(), None);
    assert_eq!(w.cells().cas("k", None, 9).unwrap(), Some(4));
}

/// A merge keeps the time to live of a value.
pub fn time_to_live_travels(w: &mut TestDb) {
    forked(w);
    w.on("dev").set_with("k", 1, Ttl::Millis(50)).unwrap();
    w.pass_ms(5);
    w.db().merge("dev", "main", Strict).unwrap();
    assert_eq!(w.cells().get("k").unwrap(), int(1));
    w.pass_ms(50);
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// A second merge applies only newer changes: the previous merge is the common ancestor.
pub fn last_merge_is_the_next_base(w: &mut TestDb) {
    forked(w);
    w.on("dev").set("k", 1).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    w.cells().set("k", 2).unwrap();
    w.on("dev").set("l", 1).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    assert_eq!((w.cells().get("k").unwrap(), w.cells().get("l").unwrap()), (int(2), int(1)));
}

/// A key changed on both branches since the last merge conflicts again.
pub fn changes_since_the_last_merge_conflict(w: &mut TestDb) {
    forked(w);
    w.on("dev").set("k", 1).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    w.cells().set("k", 2).unwrap();
    w.on("dev").set("k", 3).unwrap();
    refused(w.db().merge("dev", "main", Strict), Code::MergeConflict);
}

/// After a merge in one direction, the merge in the other direction has no conflict.
pub fn there_and_back(w: &mut TestDb) {
    forked(w);
    w.on("dev").set("k", 1).unwrap();
    w.cells().set("l", 2).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    w.db().merge("main", "dev", Strict).unwrap();
    assert_eq!((w.on("dev").get("k").unwrap(), w.on("dev").get("l").unwrap()), (int(1), int(2)));
    assert!(w.db().diff("main", "dev").unwrap().is_empty());
}

/// A diff after a merge shows only later changes.
pub fn diff_after_merge_shows_what_changed_since(w: &mut TestDb) {
    forked(w);
    w.on("dev").set("k", 1).unwrap();
    w.db().merge("dev", "main", Strict).unwrap();
    assert!(w.db().diff("main", "dev").unwrap().is_empty());
    w.cells().set("k", 5).unwrap();
    let seen = w.db().diff("main", "dev").unwrap();
    assert_eq!((&seen[0].base, &seen[0].a, &seen[0].b), (&int(1), &int(5), &int(1)));
}

/// An unknown branch is refused.
pub fn unknown_branch_is_refused(w: &mut TestDb) {
    refused(w.db().merge("main", "nowhere", Strict), Code::BranchNotFound);
    refused(w.db().merge("nowhere", "main", Strict), Code::BranchNotFound);
}

/// A branch cannot be merged into itself.
pub fn into_itself_is_refused(w: &mut TestDb) {
    writes_nothing(w.db(), || refused(w.db().merge("main", "main", Strict), Code::InvalidArgument));
}

/// A merge is one transaction: all merged writes have the same revision.
pub fn is_one_transaction(w: &mut TestDb) {
    forked(w);
    for n in 0..20 {
        w.on("dev").set(&format!("k{n}"), n).unwrap();
    }
    let revision = w.db().merge("dev", "main", Strict).unwrap();
    for n in 0..20 {
        let seen = w.cells().get_versioned(&format!("k{n}")).unwrap().unwrap();
        assert_eq!(seen.revision, revision);
    }
}
