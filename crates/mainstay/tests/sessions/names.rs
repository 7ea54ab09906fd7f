//! Names of 1,024 bytes, the maximal length.

use super::machine::{Machine, make_sizes, sized};
use super::*;
use mainstay::{Code, ErrorKind, Filter, MemoryFiles};
use std::collections::BTreeSet;

/// Returns a name of two-byte characters, so that a cut at the wrong place is not valid text.
fn long(end: &str) -> String {
    let rest = 1024 - end.len();
    format!("{}{}{end}", "é".repeat(rest / 2), "x".repeat(rest % 2))
}

#[test]
fn the_longest_names_are_names_like_others() {
    let machine = Machine::with(Arc::new(MemoryFiles::new()));
    let mut db = machine.open();
    make_sizes(&db, &[10, 300, 2_000]);
    let names = [long("a"), long("b"), long("bc")];
    assert!(names.iter().all(|name| name.len() == 1024));
    let first: Vec<Vec<Receipt>> = names.iter().map(|name| furnish(&db, name)).collect();
    for round in 0..3 {
        check(&db, &machine, &names, &first);
        if round == 1 {
            db.trim().unwrap();
        }
        drop(db);
        db = machine.open();
    }
    end(&db, &machine, &names);
    drop(db);
    let db = machine.open();
    assert!(db.sessions().list(None, 10).unwrap().sessions.is_empty());
    let anew = open(&db, &names[0]);
    assert_eq!((anew.is_new(), anew.info().last_sent), (true, 3));
}

/// Creates responses and messages, some of which are removed.
fn furnish(db: &Database, name: &str) -> Vec<Receipt> {
    let session = open(db, name);
    assert_eq!(session.name().as_str(), name);
    let receipts = (1..).zip([10, 10, 2_000, 300, 10]);
    let receipts =
        receipts.map(|(id, bytes)| session.execute(id, id.min(3), sized(bytes)).unwrap());
    let receipts = receipts.collect();
    for number in 1..=3 {
        assert_eq!(db.sessions().send(name, number.to_string()).unwrap(), Some(number));
    }
    assert_eq!(session.acknowledge(1).unwrap(), 1);
    receipts
}

/// Returns all names, in pages of one.
fn listed(db: &Database) -> Vec<String> {
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let page = db.sessions().list(after.as_deref(), 1).unwrap();
        names.extend(page.sessions.iter().map(|info| info.session.as_str().to_owned()));
        after = page.next;
        if after.is_none() {
            return names;
        }
    }
}

fn check(db: &Database, machine: &Machine, names: &[String], first: &[Vec<Receipt>]) {
    let sorted: BTreeSet<String> = names.iter().cloned().collect();
    assert!(listed(db).into_iter().eq(sorted));
    for (name, first) in names.iter().zip(first) {
        let session = open(db, name);
        for (id, first) in (1..).zip(first) {
            let again = session.execute(id, 0, add("twice"));
            if id < 3 {
                assert_eq!(again.unwrap_err().kind(), ErrorKind::ResponseEvicted)
            } else {
                assert_eq!(again.unwrap(), Receipt { repeated: true, ..first.clone() })
            }
        }
        assert_eq!(session.pending(0, 10).unwrap(), [(2, b"2".to_vec()), (3, b"3".to_vec())]);
    }
    machine.clock.advance(secs(1));
    let again = db.sessions().requests_for_retry(db.now_us().unwrap(), 100).unwrap();
    let again: BTreeSet<_> = again.into_iter().collect();
    let waits =
        |name: &String| [2, 3].map(|n: u64| (super::name(name), n, n.to_string().into_bytes()));
    assert_eq!(again, names.iter().flat_map(waits).collect());
    assert_eq!(value(db, "twice"), 0);
}

/// Closes one session and lets the others expire. Each is reported with its whole name.
fn end(db: &Database, machine: &Machine, names: &[String]) {
    let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
    assert!(open(db, &names[1]).close().unwrap());
    machine.clock.advance(secs(61));
    db.sweep().unwrap();
    let gone: BTreeSet<String> =
        (0..3).map(|_| feed.next(secs(60)).unwrap().unwrap().key).collect();
    assert_eq!(gone, names.iter().cloned().collect());
}

#[test]
fn longer_ones_are_refused() {
    let (db, _) = memory();
    let longer = long("a") + "x";
    let error = db.sessions().open(SessionOptions::new().name(&longer)).err().unwrap();
    assert_eq!(error.code(), Code::InvalidName);
    assert_eq!(db.sessions().send(&longer, "x").unwrap_err().code(), Code::InvalidName);
    assert_eq!(db.sessions().close(&longer).unwrap_err().code(), Code::InvalidName);
    // A list may start after a string that is too long for a name.
    open(&db, "é");
    assert_eq!(db.sessions().list(Some(&"a".repeat(2_000)), 10).unwrap().sessions.len(), 1);
    assert_eq!(db.revision(), 1);
}
