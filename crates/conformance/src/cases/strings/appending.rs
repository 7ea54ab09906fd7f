//! `Append`: appends bytes to the text of a cell.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, StringCommand, Ttl, Value};

fn append(w: &TestDb, more: &[u8]) -> mainstay::Result<Answer> {
    text(w.db(), StringCommand::Append { name: name("k"), text: more.to_vec() })
}

/// An absent cell counts as empty, and the answer is the new length in bytes.
pub fn absent_is_empty(w: &mut TestDb) {
    assert_eq!(append(w, b"ab").unwrap(), Answer::Count(2));
    assert_eq!(append(w, "é".as_bytes()).unwrap(), Answer::Count(4));
    assert_eq!(w.cells().get("k").unwrap(), Some("abé".into()));
}

/// Appending nothing to an absent cell creates an empty text.
pub fn nothing_makes_an_empty_text(w: &mut TestDb) {
    assert_eq!(append(w, b"").unwrap(), Answer::Count(0));
    assert_eq!(w.cells().get("k").unwrap(), Some("".into()));
}

/// Text that is not valid UTF-8 is stored as bytes, and as a string once it is valid.
pub fn bytes_until_it_is_text(w: &mut TestDb) {
    append(w, &[0xc3]).unwrap();
    assert_eq!(w.cells().get("k").unwrap(), Some(Value::Bytes(vec![0xc3])));
    assert_eq!(append(w, &[0xa9]).unwrap(), Answer::Count(2));
    assert_eq!(w.cells().get("k").unwrap(), Some("é".into()));
}

/// A number becomes its text.
pub fn number_becomes_text(w: &mut TestDb) {
    w.cells().set("k", 12).unwrap();
    assert_eq!(append(w, b"3").unwrap(), Answer::Count(3));
    assert_eq!(w.cells().get("k").unwrap(), Some("123".into()));
}

/// `Append` keeps the time to live.
pub fn keeps_the_time_to_live(w: &mut TestDb) {
    w.cells().set_with("k", "a", Ttl::Millis(10)).unwrap();
    append(w, b"b").unwrap();
    w.pass_ms(9);
    assert_eq!(w.cells().get("k").unwrap(), Some("ab".into()));
    w.pass_ms(2);
    assert_eq!(append(w, b"c").unwrap(), Answer::Count(1));
    assert_eq!(counter(&w.cells(), "k"), Some(4));
}

/// A result larger than the value limit is refused.
pub fn too_large_is_refused(w: &mut TestDb) {
    w.cells().set("k", "x".repeat((16 << 20) - 10)).unwrap();
    writes_nothing(w.db(), || refused(append(w, &[b'x'; 20]), Code::ValueTooLarge));
}
