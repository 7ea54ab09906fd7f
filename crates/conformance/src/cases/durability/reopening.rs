//! Recovery after a reopen (disk only): exactly the acknowledged state is restored.
//!
//! Requires: Disk.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, Durability, Filter, Receipt, RequestId, Transaction, Ttl};

/// Values, counters, history and names are unchanged after a reopen.
pub fn everything_is_there(w: &mut TestDb) {
    for n in 0..50 {
        w.cells().set(&format!("k{:02}", n % 10), n).unwrap();
    }
    w.cells().delete("k03").unwrap();
    let revision = w.db().revision();
    let listed = names(&w.cells(), "");
    let versioned = w.cells().get_versioned("k07").unwrap();
    let history = w.cells().history("k03", 99, None).unwrap().len();
    w.reopen();
    assert_eq!(w.db().revision(), revision);
    assert_eq!(names(&w.cells(), ""), listed);
    assert_eq!(w.cells().get_versioned("k07").unwrap(), versioned);
    assert_eq!(w.cells().history("k03", 99, None).unwrap().len(), history);
    assert_eq!(w.cells().set("k03", 0).unwrap(), 7);
}

/// Past revisions and timestamps can still be read after a reopen.
pub fn past_is_readable(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let then = w.db().revision();
    let stamp = w.wall_us();
    w.pass_ms(5);
    w.cells().set("k", 2).unwrap();
    w.reopen();
    assert_eq!(read_at(&w.cells(), At::Revision(then), "k").unwrap(), int(1));
    assert_eq!(read_at(&w.cells(), At::Stamp(stamp), "k").unwrap(), int(1));
    assert_eq!(w.db().stamp_of(then).unwrap(), stamp);
}

/// Revisions and timestamps continue after a reopen.
pub fn revisions_go_on(w: &mut TestDb) {
    let before = w.db().execute(Transaction::new().step(set("k", 1))).unwrap();
    w.reopen();
    let after = w.db().execute(Transaction::new().step(set("k", 2))).unwrap();
    assert_eq!(after.revision, before.revision + 1);
    assert!(after.stamp > before.stamp);
}

/// Branches, merge bases and tags are unchanged after a reopen.
pub fn branches_and_tags_are_there(w: &mut TestDb) {
    w.cells().set("k", 0).unwrap();
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set("k", 1).unwrap();
    w.db().merge("dev", "main", Default::default()).unwrap();
    w.db().tag("v", "dev", At::Latest).unwrap();
    w.cells().set("k", 2).unwrap();
    w.reopen();
    assert_eq!(w.db().branch_info("dev").unwrap().parent.as_deref(), Some("main"));
    assert_eq!(w.db().tags()[0].name, "v");
    w.on("dev").set("l", 1).unwrap();
    w.db().merge("dev", "main", Default::default()).unwrap();
    assert_eq!(w.cells().get("k").unwrap(), int(2), "the merge before is still the base");
    assert_eq!(w.cells().get("l").unwrap(), int(1));
}

/// A deleted branch stays deleted, and its name can be used again.
pub fn deleted_branch_stays_deleted(w: &mut TestDb) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").set("k", 1).unwrap();
    w.db().delete_branch("dev").unwrap();
    w.reopen();
    refused(w.db().branch("dev").map(drop), Code::BranchNotFound);
    w.db().fork("dev", "main", At::Latest).unwrap();
    assert_eq!(w.on("dev").get("k").unwrap(), None);
}

/// Times to live also elapse while the database is closed.
pub fn times_to_live_run_while_closed(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(50)).unwrap();
    w.cells().set_with("long", 1, Ttl::Millis(50_000)).unwrap();
    w.pass_ms(60);
    w.reopen();
    assert_eq!(w.cells().get("k").unwrap(), None);
    assert_eq!(w.cells().get("long").unwrap(), int(1));
    assert_eq!(w.db().sweep().unwrap(), 1);
}

/// Request IDs are still deduplicated after a reopen.
pub fn request_ids_are_remembered(w: &mut TestDb) {
    let named = || Transaction::new().request(RequestId::new("r1").unwrap()).step(incr("n", 1));
    let first = w.db().execute(named()).unwrap();
    w.reopen();
    let again = w.db().execute(named()).unwrap();
    assert_eq!(again, Receipt { repeated: true, ..first });
    assert_eq!(w.cells().get("n").unwrap(), int(1));
}

/// The feed can be resumed from a revision before the reopen.
pub fn feed_goes_on(w: &mut TestDb) {
    let start = w.db().revision();
    w.cells().set("a", 1).unwrap();
    w.cells().set("b", 1).unwrap();
    w.reopen();
    w.cells().set("c", 1).unwrap();
    let mut feed = w.db().watch(Filter::default(), start).unwrap();
    assert_eq!(keys(&mut feed, 3), ["a", "b", "c"]);
}

/// Unsynced writes survive an orderly close.
pub fn orderly_close_keeps_unsynced_writes(w: &mut TestDb) {
    for mode in [Durability::Memory, Durability::Interval] {
        w.configure(move |options| options.durability(mode));
        for n in 0..20 {
            w.cells().set("k", n).unwrap();
        }
        w.reopen();
        assert_eq!(w.cells().get("k").unwrap(), int(19), "{mode:?}");
    }
}

/// Dropping the last handle closes the database: no write is lost, and the directory can be reopened at
/// once.
pub fn dropping_the_last_handle_closes(w: &mut TestDb) {
    w.configure(|options| options.write_buffer_bytes(64 << 10));
    let filler = "x".repeat(5_000);
    for round in 1..=20 {
        (0..20).for_each(|n| done(w.cells().set(&format!("k{n}"), filler.as_str()).unwrap()));
        w.drop_and_reopen();
        assert_eq!(counter(&w.cells(), "k7"), Some(round));
    }
}

/// An uncommitted transaction is not visible after a reopen.
pub fn uncommitted_is_not_there(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let mut t = w.db().begin().unwrap();
    t.set("k", 2).unwrap();
    drop(t);
    w.reopen();
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// Values and counters survive many reopens with a write buffer that flushes constantly.
pub fn many_reopens_with_a_small_buffer(w: &mut TestDb) {
    w.configure(|options| options.write_buffer_bytes(64 << 10));
    let filler = "x".repeat(2_000);
    for round in 0..6 {
        for n in 0..60 {
            w.cells().set(&format!("k{n}"), format!("{round} {filler}")).unwrap();
        }
        w.reopen();
        for n in 0..60 {
            let seen = w.cells().get_versioned(&format!("k{n}")).unwrap().unwrap();
            assert_eq!(seen.counter, round + 1);
            assert!(seen.value.as_str().unwrap().starts_with(&format!("{round} ")));
        }
    }
}

/// Opening a database that is already open is refused.
pub fn opened_twice_is_refused(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    refused(mainstay::Database::open(w.directory()).map(drop), Code::Locked);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// The export hash is the same after a reopen.
pub fn hash_is_the_same(w: &mut TestDb) {
    for n in 0..20 {
        w.cells().set(&format!("k{n}"), n).unwrap();
    }
    let hash = w.db().export_hash("main").unwrap();
    w.reopen();
    assert_eq!(w.db().export_hash("main").unwrap(), hash);
}
