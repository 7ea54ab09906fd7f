//! Names: 1–1024 bytes of UTF-8, no NUL, not starting with `_mainstay/`.
//!
//! Any other name is refused and nothing is written.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Ttl};

/// Asserts that every operation refuses the name and writes nothing.
fn every_operation_refuses(w: &TestDb, bad: &str) {
    let cells = w.cells();
    writes_nothing(w.db(), || {
        refused(cells.init(bad, 1), Code::InvalidName);
        refused(cells.get(bad), Code::InvalidName);
        refused(cells.get_versioned(bad), Code::InvalidName);
        refused(cells.set(bad, 1), Code::InvalidName);
        refused(cells.set_with(bad, 1, Ttl::Millis(1)), Code::InvalidName);
        refused(cells.cas(bad, None, 1), Code::InvalidName);
        refused(cells.cas(bad, Some(1), 1), Code::InvalidName);
        refused(cells.delete(bad), Code::InvalidName);
        refused(cells.delete_if(bad, 1), Code::InvalidName);
        refused(cells.incr(bad, 1), Code::InvalidName);
        refused(cells.expire(bad, Ttl::Clear), Code::InvalidName);
        refused(cells.history(bad, 1, None), Code::InvalidName);
    });
    assert!(names(&cells, "").is_empty());
}

/// The empty name is refused.
pub fn empty_is_refused(w: &mut TestDb) {
    every_operation_refuses(w, "");
}

/// A name of 1025 bytes is refused.
pub fn too_long_is_refused(w: &mut TestDb) {
    every_operation_refuses(w, &"n".repeat(1025));
}

/// The length limit counts bytes, not characters.
pub fn length_is_in_bytes(w: &mut TestDb) {
    every_operation_refuses(w, &"é".repeat(513));
    assert_eq!(w.cells().set(&"é".repeat(512), 1).unwrap(), 1);
}

/// A name of 1024 bytes, the longest valid one, is accepted.
pub fn longest_is_accepted(w: &mut TestDb) {
    let longest = "n".repeat(1024);
    assert_eq!(w.cells().set(&longest, 1).unwrap(), 1);
    assert_eq!(w.cells().get(&longest).unwrap(), int(1));
    assert_eq!(names(&w.cells(), "n"), [longest]);
}

/// A name with a NUL anywhere is refused.
pub fn nul_is_refused(w: &mut TestDb) {
    for bad in ["\0", "a\0", "\0a", "a\0b"] {
        every_operation_refuses(w, bad);
    }
}

/// Names with the reserved prefix are refused.
pub fn reserved_is_refused(w: &mut TestDb) {
    every_operation_refuses(w, "_mainstay/");
    every_operation_refuses(w, "_mainstay/x");
}

/// Names that only resemble the reserved prefix are accepted.
pub fn resembling_reserved_is_accepted(w: &mut TestDb) {
    for good in ["_mainstay", "_mainstayx", "_Mainstay/x", "/_mainstay/", "x_mainstay/"] {
        assert_eq!(w.cells().set(good, 1).unwrap(), 1, "{good}");
    }
}

/// Any other character is accepted, and different names are different cells.
pub fn any_character_is_accepted(w: &mut TestDb) {
    let good = ["\u{1}", " ", "\n", "a b", "é", "e\u{301}", "日本", "🙂", "%00", "a\u{ff}"];
    for (n, name) in good.iter().enumerate() {
        w.cells().set(name, n as i64).unwrap();
    }
    for (n, name) in good.iter().enumerate() {
        assert_eq!(w.cells().get(name).unwrap(), int(n as i64), "{name:?}");
    }
}

/// Branch names follow the same rule.
pub fn branches_are_named_alike(w: &mut TestDb) {
    let long = "n".repeat(1025);
    for bad in ["", "a\0b", "_mainstay/x", &long] {
        writes_nothing(w.db(), || {
            refused(w.db().fork(bad, "main", mainstay::At::Latest), Code::InvalidName);
        });
    }
    assert_eq!(w.db().branches().len(), 1);
}

/// Tag names follow the same rule.
pub fn tags_are_named_alike(w: &mut TestDb) {
    for bad in ["", "a\0b", "_mainstay/x"] {
        writes_nothing(w.db(), || {
            refused(w.db().tag(bad, "main", mainstay::At::Latest), Code::InvalidName);
        });
    }
    assert!(w.db().tags().is_empty());
}
