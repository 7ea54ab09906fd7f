//! `list(prefix, after, limit)`: names in byte order, paged with a cursor.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code};

fn fill(w: &TestDb, names: &[&str]) {
    for name in names.iter() {
        w.cells().set(name, 1).unwrap();
    }
}

/// The list of an empty database is empty.
pub fn empty_lists_nothing(w: &mut TestDb) {
    let page = w.cells().list("", None, 10).unwrap();
    assert_eq!((page.names.len(), page.next), (0, None));
}

/// Names are sorted by their bytes.
pub fn goes_in_byte_order(w: &mut TestDb) {
    fill(w, &["b", "é", "a", "B", "aa", "a/b", "a-b", "~", "\u{10ffff}", "\u{1}"]);
    let expected = ["\u{1}", "B", "a", "a-b", "a/b", "aa", "b", "~", "é", "\u{10ffff}"];
    assert_eq!(names(&w.cells(), ""), expected);
}

/// Only names with the prefix are listed, including the prefix itself.
pub fn keeps_to_the_prefix(w: &mut TestDb) {
    fill(w, &["a", "job", "job/", "job/1", "job/2", "job0", "joc", "k"]);
    assert_eq!(names(&w.cells(), "job/"), ["job/", "job/1", "job/2"]);
    assert_eq!(names(&w.cells(), "job"), ["job", "job/", "job/1", "job/2", "job0"]);
    assert!(names(&w.cells(), "nothing").is_empty());
}

/// A prefix of the greatest character, which has no next prefix, is listed completely.
pub fn prefix_at_the_end_of_the_order(w: &mut TestDb) {
    fill(w, &["a", "\u{10ffff}", "\u{10ffff}b"]);
    assert_eq!(names(&w.cells(), "\u{10ffff}"), ["\u{10ffff}", "\u{10ffff}b"]);
}

/// `after` is exclusive and need not exist.
pub fn after_is_exclusive(w: &mut TestDb) {
    fill(w, &["a", "b", "c"]);
    assert_eq!(w.cells().list("", Some("a"), 10).unwrap().names, ["b", "c"]);
    assert_eq!(w.cells().list("", Some("aa"), 10).unwrap().names, ["b", "c"]);
    assert!(w.cells().list("", Some("c"), 10).unwrap().names.is_empty());
}

/// An `after` before the prefix starts at the prefix. An `after` greater than all names with the prefix
/// gives an empty page.
pub fn after_outside_the_prefix(w: &mut TestDb) {
    fill(w, &["a", "p/1", "p/2", "z"]);
    assert_eq!(w.cells().list("p/", Some("a"), 10).unwrap().names, ["p/1", "p/2"]);
    assert!(w.cells().list("p/", Some("q"), 10).unwrap().names.is_empty());
}

/// The cursor is set while more names follow, and `None` at the end.
pub fn cursor_is_none_at_the_end(w: &mut TestDb) {
    fill(w, &["a", "b", "c"]);
    let first = w.cells().list("", None, 2).unwrap();
    assert_eq!((first.names, first.next.as_deref()), (vec!["a".into(), "b".into()], Some("b")));
    let second = w.cells().list("", Some("b"), 2).unwrap();
    assert_eq!((second.names, second.next), (vec!["c".to_owned()], None));
}

/// Consecutive pages have no gap and no repetition.
pub fn pages_give_everything_once(w: &mut TestDb) {
    let expected: Vec<String> = (0..37).map(|n| format!("k{n:02}")).collect();
    for name in expected.iter() {
        w.cells().set(name, 1).unwrap();
    }
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = w.cells().list("k", after.as_deref(), 5).unwrap();
        assert!(page.names.len() <= 5);
        all.extend(page.names);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(all, expected);
}

/// Deleted names do not count towards the limit.
pub fn deleted_names_take_no_place(w: &mut TestDb) {
    fill(w, &["a", "b", "c", "d"]);
    w.cells().delete("b").unwrap();
    assert_eq!(w.cells().list("", None, 2).unwrap().names, ["a", "c"]);
}

/// A limit of zero or above 100,000 is refused.
pub fn limits_are_checked(w: &mut TestDb) {
    refused(w.cells().list("", None, 0), Code::InvalidLimit);
    refused(w.cells().list("", None, 100_001), Code::InvalidLimit);
    assert!(w.cells().list("", None, 100_000).is_ok());
}

/// A list at a past revision shows the names of that revision.
pub fn at_a_revision(w: &mut TestDb) {
    fill(w, &["a", "b"]);
    let then = w.db().revision();
    w.cells().delete("a").unwrap();
    w.cells().set("c", 1).unwrap();
    let past = w.cells().at(At::Revision(then)).unwrap();
    assert_eq!(past.list("", None, 10).unwrap().names, ["a", "b"]);
    assert_eq!(names(&w.cells(), ""), ["b", "c"]);
}
