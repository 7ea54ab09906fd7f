//! `fork(name, from, at?)`: creates a copy-on-write branch from another branch.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, ErrorKind, Transaction, Ttl};

/// A new database has the branch `main` and no other.
pub fn main_is_always_there(w: &mut TestDb) {
    let all = w.db().branches();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].name.as_str(), all[0].depth, &all[0].parent), ("main", 0, &None));
    assert_eq!(w.db().branch("main").unwrap().name(), "main");
}

/// A fork starts with its parent's values, counters and history.
pub fn starts_as_its_parent(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.cells().set("a", 2).unwrap();
    w.cells().set("gone", 1).unwrap();
    w.cells().delete("gone").unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let dev = w.on("dev");
    assert_eq!(dev.get_versioned("a").unwrap(), w.cells().get_versioned("a").unwrap());
    assert_eq!(dev.history("a", 9, None).unwrap().len(), 2);
    assert_eq!(names(&dev, ""), ["a"]);
    assert_eq!(dev.set("gone", 1).unwrap(), 3, "the counter of a deletion is inherited");
}

/// A fork commits one transaction and copies no keys.
pub fn writes_nothing_per_key(w: &mut TestDb) {
    for n in 0..50 {
        w.cells().set(&format!("k{n}"), n).unwrap();
    }
    writes_once(w.db(), || w.db().fork("dev", "main", At::Latest).unwrap());
    let kept = w.on("dev").get_versioned("k7").unwrap().unwrap();
    assert_eq!(kept.revision, w.cells().get_versioned("k7").unwrap().unwrap().revision);
}

/// Writes on a fork are not visible on its parent.
pub fn writes_stay_on_the_fork(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.cells().set("b", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set("a", 2).unwrap();
    w.on("dev").delete("b").unwrap();
    w.on("dev").set("c", 2).unwrap();
    assert_eq!(names(&w.cells(), ""), ["a", "b"]);
    assert_eq!(w.cells().get("a").unwrap(), int(1));
    assert_eq!(names(&w.on("dev"), ""), ["a", "c"]);
    assert_eq!(w.cells().history("a", 9, None).unwrap().len(), 1);
}

/// Writes on the parent after the fork are not visible on the fork.
pub fn later_writes_stay_on_the_parent(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.cells().set("b", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.cells().set("a", 2).unwrap();
    w.cells().delete("b").unwrap();
    w.cells().set("c", 2).unwrap();
    assert_eq!(w.on("dev").get("a").unwrap(), int(1));
    assert_eq!(names(&w.on("dev"), ""), ["a", "b"]);
    assert_eq!(w.on("dev").history("a", 9, None).unwrap().len(), 1);
}

/// Counters on a fork continue the inherited ones.
pub fn counters_continue(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.cells().set("a", 2).unwrap();
    w.cells().set("a", 3).unwrap();
    assert_eq!(w.on("dev").set("a", 9).unwrap(), 2);
    assert_eq!(w.on("dev").cas("a", Some(2), 9).unwrap(), Some(3));
    assert_eq!(counter(&w.cells(), "a"), Some(3));
}

/// A fork at a past revision starts with the state of that revision.
pub fn at_a_revision_of_the_past(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let then = w.db().revision();
    w.cells().set("a", 2).unwrap();
    w.cells().set("b", 2).unwrap();
    w.db().fork("dev", "main", At::Revision(then)).unwrap();
    assert_eq!(w.on("dev").get("a").unwrap(), int(1));
    assert_eq!(names(&w.on("dev"), ""), ["a"]);
    assert_eq!(w.db().branch_info("dev").unwrap().fork_revision, then);
}

/// A fork at a past timestamp starts with the state of that time.
pub fn at_a_stamp_of_the_past(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.pass_ms(10);
    let then = w.wall_us();
    w.pass_ms(10);
    w.cells().set("a", 2).unwrap();
    w.db().fork("dev", "main", At::Stamp(then)).unwrap();
    assert_eq!(w.on("dev").get("a").unwrap(), int(1));
}

/// A fork at a future revision is refused, and no branch is created.
pub fn at_the_future_is_refused(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let future = At::Revision(w.db().revision() + 1);
    writes_nothing(w.db(), || refused(w.db().fork("dev", "main", future), Code::FutureRevision));
    assert_eq!(w.db().branches().len(), 1);
}

/// Forking to an existing name is refused, and that branch stays unchanged.
pub fn existing_name_is_refused(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set("a", 1).unwrap();
    let error = writes_nothing(w.db(), || w.db().fork("dev", "main", At::Latest).unwrap_err());
    assert_eq!((error.code(), error.kind()), (Code::BranchExists, ErrorKind::Exists));
    refused(w.db().fork("main", "dev", At::Latest), Code::BranchExists);
    assert_eq!(w.on("dev").get("a").unwrap(), int(1));
}

/// An unknown parent is refused.
pub fn unknown_parent_is_refused(w: &mut TestDb) {
    let error = w.db().fork("dev", "nowhere", At::Latest).unwrap_err();
    assert_eq!((error.code(), error.kind()), (Code::BranchNotFound, ErrorKind::NotFound));
    refused(w.db().branch("dev").map(drop), Code::BranchNotFound);
}

/// When several transactions fork to the same name at once, exactly one wins.
pub fn racing_for_one_name_has_one_winner(w: &mut TestDb) {
    let fork = || {
        let command =
            mainstay::BranchCommand::Fork { name: name("dev"), from: name("main"), at: None };
        Transaction::new().step(command)
    };
    let tickets: Vec<_> = (0..4).map(|_| w.db().submit(fork())).collect();
    let results: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait()).collect();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    results.into_iter().filter(|r| r.is_err()).for_each(|r| refused(r, Code::BranchExists));
}

/// A fork of a fork reads through all its ancestors.
pub fn forks_of_forks_read_through(w: &mut TestDb) {
    w.cells().set("a", 0).unwrap();
    w.cells().set("z", 0).unwrap();
    w.db().fork("b1", "main", At::Latest).unwrap();
    w.on("b1").set("b", 1).unwrap();
    w.on("b1").set("a", 1).unwrap();
    w.db().fork("b2", "b1", At::Latest).unwrap();
    w.on("b2").set("c", 2).unwrap();
    w.on("b2").delete("z").unwrap();
    w.on("b1").set("a", 11).unwrap();
    w.cells().set("a", 10).unwrap();
    let b2 = w.on("b2");
    assert_eq!(names(&b2, ""), ["a", "b", "c"]);
    assert_eq!((b2.get("a").unwrap(), b2.get("b").unwrap()), (int(1), int(1)));
    assert_eq!(names(&w.on("b1"), ""), ["a", "b", "z"]);
    let info = w.db().branch_info("b2").unwrap();
    assert_eq!((info.depth, info.parent.as_deref(), info.children), (2, Some("b1"), 0));
    assert_eq!(w.db().branch_info("b1").unwrap().children, 1);
}

/// A fork at an old revision of a fork reads the grandparent as of the older fork.
pub fn old_revision_of_a_fork(w: &mut TestDb) {
    w.cells().set("a", 0).unwrap();
    w.db().fork("b1", "main", At::Latest).unwrap();
    w.on("b1").set("b", 1).unwrap();
    let then = w.db().revision();
    w.on("b1").set("b", 2).unwrap();
    w.cells().set("a", 9).unwrap();
    w.db().fork("b2", "b1", At::Revision(then)).unwrap();
    assert_eq!(w.on("b2").get("b").unwrap(), int(1));
    assert_eq!(w.on("b2").get("a").unwrap(), int(0));
}

/// The history of a branch continues through its fork point into the parent.
pub fn past_goes_through_the_fork(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let first = w.db().revision();
    w.cells().set("a", 2).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let forked = w.db().revision();
    w.cells().set("a", 3).unwrap();
    w.on("dev").set("a", 4).unwrap();
    let dev = w.on("dev");
    assert_eq!(read_at(&dev, At::Revision(first), "a").unwrap(), int(1));
    assert_eq!(read_at(&dev, At::Revision(forked), "a").unwrap(), int(2));
    assert_eq!(read_at(&dev, At::Latest, "a").unwrap(), int(4));
    let counters: Vec<u64> = dev.history("a", 9, None).unwrap().iter().map(|e| e.counter).collect();
    assert_eq!(counters, [3, 2, 1]);
}

/// Forks can be nested at most 32 levels deep.
pub fn depth_is_limited(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let mut parent = "main".to_owned();
    for level in 1..=32 {
        let child = format!("level{level}");
        w.db().fork(&child, &parent, At::Latest).unwrap();
        parent = child;
    }
    let error = writes_nothing(w.db(), || w.db().fork("deeper", &parent, At::Latest).unwrap_err());
    assert_eq!((error.code(), error.kind()), (Code::BranchTooDeep, ErrorKind::TooLarge));
    assert_eq!(w.on(&parent).get("a").unwrap(), int(1));
    assert_eq!(w.db().branch_info(&parent).unwrap().depth, 32);
}

/// An inherited time to live also expires on the fork, without a write of its own.
pub fn inherited_ttl_expires_lazily(w: &mut TestDb) {
    w.cells().set_with("a", 1, Ttl::Millis(10)).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    assert_eq!(w.on("dev").get("a").unwrap(), int(1));
    w.pass_ms(11);
    assert_eq!(w.on("dev").get("a").unwrap(), None);
    assert!(names(&w.on("dev"), "").is_empty());
    assert_eq!(w.db().sweep().unwrap(), 1, "main's, and not one per branch");
    assert_eq!(w.on("dev").set("a", 2).unwrap(), 3);
}

/// Clearing an inherited time to live on the fork affects only the fork.
pub fn ttl_is_the_forks_own(w: &mut TestDb) {
    w.cells().set_with("a", 1, Ttl::Millis(10)).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").expire("a", Ttl::Clear).unwrap();
    w.pass_ms(11);
    assert_eq!(w.on("dev").get("a").unwrap(), int(1));
    assert_eq!(w.cells().get("a").unwrap(), None);
}

/// A branch handle runs its transactions on that branch.
pub fn handle_runs_transactions(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let dev = w.db().branch("dev").unwrap();
    dev.transaction(|t| t.set("a", 1)).unwrap();
    let mut t = dev.begin().unwrap();
    assert_eq!(t.branch(), "dev");
    t.set("b", 1).unwrap();
    t.commit().unwrap();
    assert_eq!(names(&dev.cells(), ""), ["a", "b"]);
    assert!(names(&w.cells(), "").is_empty());
}

/// The list of branches contains every branch with its parent and fork revision.
pub fn list_tells_where_they_come_from(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    let at = w.db().revision();
    w.db().fork("dev", "main", At::Latest).unwrap();
    let all = w.db().branches();
    let dev = all.iter().find(|branch| branch.name == "dev").unwrap();
    assert_eq!((dev.parent.as_deref(), dev.fork_revision, dev.depth), (Some("main"), at, 1));
    assert_eq!(dev.created, w.db().stamp_of(at + 1).unwrap());
    let main = all.iter().find(|branch| branch.name == "main").unwrap();
    assert_eq!((main.children, all.len()), (1, 2));
    assert_ne!(main.id, dev.id);
}
