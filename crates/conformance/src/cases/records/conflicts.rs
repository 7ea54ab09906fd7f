//! Conflict detection for interactive transactions on records.
//!
//! A commit fails with `Conflict` if a read has changed.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{
    Answer, Code, ErrorKind, FieldValue, HashCommand, InteractiveTransaction, Only, RecordCommand,
    RecordWrite, StringCommand, Test, Transaction, Ttl,
};

/// Runs a transaction around a concurrent write. Returns whether it committed.
#[track_caller]
fn survives(
    w: &TestDb,
    inside: impl FnOnce(&mut InteractiveTransaction),
    meanwhile: impl FnOnce(),
) -> bool {
    let mut t = w.db().begin().unwrap();
    inside(&mut t);
    t.set("result", 1).unwrap();
    meanwhile();
    let before = w.db().revision();
    match t.commit() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert_eq!(w.db().revision(), before, "a conflict writes nothing");
            false
        }
    }
}

fn runs(command: impl Into<mainstay::Command>) -> impl FnOnce(&mut InteractiveTransaction) {
    |t| done(t.run(command).unwrap())
}

fn filled(w: &TestDb) {
    for key in ["a/1", "a/2", "a/3", "b"] {
        w.records().set_field(key, "f", "1").unwrap();
    }
}

/// A transaction reads its snapshot and its own writes.
pub fn reads_a_snapshot_and_its_own_writes(w: &mut TestDb) {
    filled(w);
    let mut t = w.db().begin().unwrap();
    w.records().set_field("a/1", "f", "2").unwrap();
    let get = |t: &mut InteractiveTransaction| match t.run(get_record("a/1")).unwrap() {
        Answer::Record(Some(record)) => record,
        other => panic!("{other:?}"),
    };
    assert_eq!(get(&mut t).fields, fields(&[("f", "1")]));
    t.run(write("a/1", &[("g", "3")])).unwrap();
    let own = get(&mut t);
    assert_eq!((own.fields, own.counter, own.revision), (fields(&[("f", "1"), ("g", "3")]), 2, 0));
}

/// Scans and counts see the transaction's own writes and deletions.
pub fn scans_see_its_own_writes(w: &mut TestDb) {
    filled(w);
    let mut t = w.db().begin().unwrap();
    t.run(write("a/0", &[("f", "1")])).unwrap();
    t.run(write("a/2", &[("f", "2")])).unwrap();
    t.run(delete_record("a/3")).unwrap();
    let ones = || vec![filter("f", Test::Eq, "1")];
    let Answer::Records(page) = t.run(scan("a/", ones())).unwrap() else { panic!("no page") };
    assert_eq!(keys_of(&page), ["a/0", "a/1"]);
    assert_eq!(t.run(count("a/", ones())).unwrap(), Answer::Count(2));
    assert_eq!(t.run(count("a/", vec![])).unwrap(), Answer::Count(3));
}

/// A record that was read and then written, deleted or created conflicts.
pub fn read_then_changed(w: &mut TestDb) {
    filled(w);
    let set = || done(w.records().set_field("b", "f", "1").unwrap());
    assert!(!survives(w, runs(get_record("b")), set));
    let delete = || done(w.records().delete("b").unwrap());
    assert!(!survives(w, runs(get_record("b")), delete));
    let make = || done(w.records().set_field("new", "f", "1").unwrap());
    assert!(!survives(w, runs(get_record("new")), make));
    assert_eq!(w.cells().get("result").unwrap(), None);
}

/// Reading one field counts as reading the whole record.
pub fn reading_a_field_reads_the_record(w: &mut TestDb) {
    filled(w);
    let get = RecordCommand::Get { key: name("b"), fields: Some(vec![field("f")]) };
    let other = || done(w.records().set_field("b", "g", "1").unwrap());
    assert!(!survives(w, runs(get), other));
}

/// A cell with the same name does not conflict.
pub fn cell_of_the_name_is_another(w: &mut TestDb) {
    filled(w);
    let cell = || done(w.cells().set("b", 1).unwrap());
    assert!(survives(w, runs(get_record("b")), cell));
    let cell = || done(w.cells().set("a/2", 1).unwrap());
    assert!(survives(w, runs(scan("a/", vec![])), cell));
}

/// A record created, changed or deleted in a scanned range conflicts.
pub fn scanned_range_changed(w: &mut TestDb) {
    filled(w);
    let looking = || runs(scan("a/", vec![]));
    assert!(!survives(w, looking(), || done(w.records().set_field("a/9", "f", "1").unwrap())));
    assert!(!survives(w, looking(), || done(w.records().set_field("a/1", "f", "1").unwrap())));
    assert!(!survives(w, looking(), || done(w.records().delete("a/2").unwrap())));
    assert!(survives(w, looking(), || done(w.records().set_field("b", "f", "2").unwrap())));
}

/// A record that starts to match the filter is a phantom and conflicts.
pub fn phantom_of_a_filter(w: &mut TestDb) {
    filled(w);
    let stuck = || vec![filter("f", Test::Eq, "stuck")];
    let comes = || done(w.records().set_field("a/2", "f", "stuck").unwrap());
    assert!(!survives(w, runs(scan("a/", stuck())), comes));
    w.records().set_field("a/2", "f", "1").unwrap();
    let comes = || done(w.records().set_field("a/2", "f", "stuck").unwrap());
    assert!(!survives(w, runs(count("a/", stuck())), comes));
}

/// A changed range conflicts with a count of it.
pub fn counted_range_changed(w: &mut TestDb) {
    filled(w);
    let counting = || runs(count("a/", vec![]));
    assert!(!survives(w, counting(), || done(w.records().set_field("a/9", "f", "1").unwrap())));
    assert!(!survives(w, counting(), || done(w.records().delete("a/2").unwrap())));
    assert!(survives(w, counting(), || done(w.records().delete("b").unwrap())));
}

/// Changes after the page that was read do not conflict.
pub fn behind_the_page(w: &mut TestDb) {
    filled(w);
    let page =
        || RecordCommand::Scan { prefix: "a/".into(), filters: vec![], after: None, limit: 2 };
    assert!(survives(w, runs(page()), || done(w.records().set_field("a/3", "f", "2").unwrap())));
    assert!(!survives(w, runs(page()), || done(w.records().set_field("a/2", "f", "2").unwrap())));
}

/// Blind writes never conflict: put, replace, setting fields, the revision, the time.
pub fn blind_writes_never_conflict(w: &mut TestDb) {
    filled(w);
    let inside = |t: &mut InteractiveTransaction| {
        t.run(write("b", &[("g", "1")])).unwrap();
        t.run(write("b", &[("g", "1")]).replace()).unwrap();
        t.run(write("b", &[("h", "1")]).ttl(Ttl::Millis(500))).unwrap();
        t.run(RecordWrite::to("b").unwrap().set("token", FieldValue::Revision).unwrap()).unwrap();
        t.run(RecordWrite::to("b").unwrap().set("at", FieldValue::Millis { plus: 0 }).unwrap())
            .unwrap();
    };
    assert!(survives(w, inside, || done(w.records().set_field("b", "f", "9").unwrap())));
    assert!(survives(w, inside, || done(w.records().delete("b").unwrap())));
}

/// Reading a record after a blind write counts as a read, because the write keeps the other fields of
/// the snapshot.
pub fn reading_behind_a_blind_write_is_a_read(w: &mut TestDb) {
    filled(w);
    let inside = |t: &mut InteractiveTransaction| {
        t.run(write("b", &[("g", "1")])).unwrap();
        t.run(get_record("b")).unwrap();
    };
    assert!(!survives(w, inside, || done(w.records().set_field("b", "f", "9").unwrap())));
}

/// A blind write is merged into the record as it is at commit.
pub fn blind_writes_merge_at_the_commit(w: &mut TestDb) {
    let inside = runs(write("k", &[("a", "1")]));
    assert!(survives(w, inside, || done(w.records().set_field("k", "b", "2").unwrap())));
    holds(&w.records(), "k", &[("a", "1"), ("b", "2")]);
    assert_eq!(record_counter(&w.records(), "k"), Some(2));
}

/// Commands whose answer depends on the record count as reads: conditions, sums, deletions, hashes.
pub fn what_tells_something_is_a_read(w: &mut TestDb) {
    filled(w);
    let sum = RecordWrite::to("b").unwrap().set("n", FieldValue::Sum { by: 1 }).unwrap();
    let expire =
        RecordCommand::Expire { key: name("b"), ttl: Ttl::Millis(500), only: Default::default() };
    let hset =
        HashCommand::Set { key: name("b"), pairs: vec![(field("n"), vec![])], only_absent: false };
    let commands: Vec<mainstay::Command> = vec![
        write("b", &[("g", "1")]).when_counter(Some(9)).into(),
        RecordWrite::to("b").unwrap().clear("g").unwrap().into(),
        sum.into(),
        delete_record("b").into(),
        expire.into(),
        hset.into(),
    ];
    for command in commands {
        let meanwhile = || done(w.records().set_field("b", "f", "9").unwrap());
        assert!(!survives(w, runs(command.clone()), meanwhile), "{command:?}");
    }
}

/// Redis commands depend on the kind of a name, so a concurrent write of the other kind conflicts.
pub fn kinds_are_read(w: &mut TestDb) {
    let get = HashCommand::Get { key: name("k"), fields: None };
    assert!(!survives(w, runs(get), || done(w.cells().set("k", 1).unwrap())));
    w.cells().delete("k").unwrap();
    let set = string_set("k", "v", Only::Absent, Ttl::Clear);
    assert!(!survives(w, runs(set), || done(w.records().set_field("k", "a", "1").unwrap())));
    w.records().delete("k").unwrap();
    let put = StringCommand::Put { name: name("k"), value: "v".into(), ttl: Ttl::Clear };
    assert!(survives(w, runs(put), || done(w.records().set_field("k", "a", "1").unwrap())));
    is_gone(&w.records(), "k");
}

/// A record that was read live and has expired at commit conflicts.
pub fn read_live_but_expired_at_commit(w: &mut TestDb) {
    let lasting =
        || done(w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap());
    lasting();
    assert!(!survives(w, runs(get_record("k")), || w.pass_ms(6)));
    lasting();
    assert!(!survives(w, runs(scan("", vec![])), || w.pass_ms(6)));
    lasting();
    assert!(!survives(w, runs(count("", vec![])), || w.pass_ms(6)));
    lasting();
    assert!(survives(w, runs(get_record("k")), || w.pass_ms(4)), "still live");
}

/// Records after the page or outside the filter may expire without a conflict.
pub fn unseen_may_expire(w: &mut TestDb) {
    w.records().set_field("a", "f", "1").unwrap();
    let lasting =
        || done(w.records().put("b", &fields(&[("f", "2")]), Some(Ttl::Millis(5))).unwrap());
    lasting();
    let ones = scan("", vec![filter("f", Test::Eq, "1")]);
    assert!(survives(w, runs(ones), || w.pass_ms(6)));
    lasting();
    let page =
        RecordCommand::Scan { prefix: String::new(), filters: vec![], after: None, limit: 1 };
    assert!(survives(w, runs(page), || w.pass_ms(6)));
}

/// The expiry of an own write in a scanned range does not conflict.
pub fn own_expiry_in_a_scanned_range(w: &mut TestDb) {
    let inside = |t: &mut InteractiveTransaction| {
        t.run(write("k", &[("a", "1")]).ttl(Ttl::Millis(5))).unwrap();
        t.run(scan("", vec![])).unwrap();
    };
    assert!(survives(w, inside, || w.pass_ms(6)));
}

/// Two transactions that each count records which the other one writes cannot both commit.
pub fn write_skew_cannot_happen(w: &mut TestDb) {
    let free = || vec![filter("state", Test::Eq, "free")];
    let take = |t: &mut InteractiveTransaction, key: &str| {
        assert_eq!(t.run(count("room", free())).unwrap(), Answer::Count(0));
        t.run(write(key, &[("state", "free")])).unwrap();
    };
    let mut one = w.db().begin().unwrap();
    let mut two = w.db().begin().unwrap();
    take(&mut one, "room/1");
    take(&mut two, "room/2");
    one.commit().unwrap();
    refused(two.commit(), Code::Conflict);
    assert_eq!(w.records().count("room", &free()).unwrap(), 1);
}

/// A failed command leaves the transaction open and writes nothing.
pub fn failed_command_leaves_it_open(w: &mut TestDb) {
    w.records().set_field("k", "token", "8").unwrap();
    let mut t = w.db().begin().unwrap();
    t.run(write("l", &[("a", "1")])).unwrap();
    let fence = mainstay::Condition::Fence { field: field("token"), is: b"7".to_vec() };
    refused(t.run(write("k", &[("a", "1")]).when(fence)), Code::Fenced);
    refused(t.run(write("k", &[("a", "1"), ("a", "2")])), Code::InvalidField);
    t.commit().unwrap();
    holds(&w.records(), "l", &[("a", "1")]);
    holds(&w.records(), "k", &[("token", "8")]);
}

/// The receipt has the final counters, and a rollback writes nothing.
pub fn receipt_has_the_final_counters(w: &mut TestDb) {
    let mut t = w.db().begin().unwrap();
    assert_eq!(t.run(write("k", &[("a", "1")])).unwrap(), Answer::MaybeCounter(Some(1)));
    w.records().set_field("k", "a", "2").unwrap();
    assert_eq!(t.commit().unwrap().answers[0], Answer::MaybeCounter(Some(2)));
    let mut t = w.db().begin().unwrap();
    t.run(delete_record("k")).unwrap();
    t.rollback();
    holds(&w.records(), "k", &[("a", "1")]);
}

/// Records written by a merge conflict with reads of them.
pub fn merge_changes_what_it_brings(w: &mut TestDb) {
    filled(w);
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    w.records_on("dev").set_field("b", "f", "2").unwrap();
    let merge = || done(w.db().merge("dev", "main", mainstay::MergeStrategy::Strict).unwrap());
    assert!(!survives(w, runs(get_record("b")), merge));
}

/// A record made to expire and deleted in one transaction counts as written, not as swept.
pub fn expired_and_deleted_at_once_is_a_change(w: &mut TestDb) {
    filled(w);
    let expire =
        RecordCommand::Expire { key: name("b"), ttl: Ttl::Until(1), only: Default::default() };
    let gone = Transaction::new().step(expire).step(delete_record("b"));
    assert!(!survives(w, runs(get_record("b")), || done(w.db().execute(gone).unwrap())));
}

/// Sweeping a record that had already expired at the snapshot conflicts with no read of it or its range.
pub fn sweep_of_the_unseen_is_no_change(w: &mut TestDb) {
    w.records().put("a/k", &fields(&[("f", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.pass_ms(6);
    let inside = |t: &mut InteractiveTransaction| {
        assert_eq!(t.run(get_record("a/k")).unwrap(), Answer::Record(None));
        assert_eq!(t.run(count("a/", vec![])).unwrap(), Answer::Count(0));
    };
    assert!(survives(w, inside, || assert_eq!(w.db().sweep().unwrap(), 1)));
}

/// Sweeping a record that was live in the snapshot conflicts, and so does one created and swept
/// meanwhile.
pub fn sweep_of_the_seen_is_a_change(w: &mut TestDb) {
    let counting = || runs(count("a/", vec![]));
    let put = |key: &str| {
        done(w.records().put(key, &fields(&[("f", "1")]), Some(Ttl::Millis(5))).unwrap())
    };
    let sweep = || {
        w.pass_ms(6);
        assert_eq!(w.db().sweep().unwrap(), 1);
    };
    put("a/k");
    assert!(!survives(w, counting(), sweep));
    let comes = || {
        put("a/l");
        sweep();
    };
    assert!(!survives(w, counting(), comes));
}
