//! `Append`: bytes behind the text of a cell.

use crate::World;
use crate::check::*;
use mainstay::{Answer, Code, StringCommand, Ttl, Value};

fn append(w: &World, more: &[u8]) -> mainstay::Result<Answer> {
    text(w.db(), StringCommand::Append { name: name("k"), text: more.to_vec() })
}

/// An absent cell counts as empty; the answer is the length in bytes.
pub fn absent_is_empty(w: &mut World) {
    assert_eq!(append(w, b"ab").unwrap(), Answer::Count(2));
    assert_eq!(append(w, "é".as_bytes()).unwrap(), Answer::Count(4));
    assert_eq!(w.cells().get("k").unwrap(), Some("abé".into()));
}

/// Nothing behind nothing is an empty text, which is there.
pub fn nothing_makes_an_empty_text(w: &mut World) {
    assert_eq!(append(w, b"").unwrap(), Answer::Count(0));
    assert_eq!(w.cells().get("k").unwrap(), Some("".into()));
}

/// What is no UTF-8 is bytes; completed, it is a string again.
pub fn bytes_until_it_is_text(w: &mut World) {
    append(w, &[0xc3]).unwrap();
    assert_eq!(w.cells().get("k").unwrap(), Some(Value::Bytes(vec![0xc3])));
    assert_eq!(append(w, &[0xa9]).unwrap(), Answer::Count(2));
    assert_eq!(w.cells().get("k").unwrap(), Some("é".into()));
}

/// A number becomes the text of its digits.
pub fn number_becomes_text(w: &mut World) {
    w.cells().set("k", 12).unwrap();
    assert_eq!(append(w, b"3").unwrap(), Answer::Count(3));
    assert_eq!(w.cells().get("k").unwrap(), Some("123".into()));
}

/// The time to live stays.
pub fn keeps_the_time_to_live(w: &mut World) {
    w.cells().set_with("k", "a", Ttl::Millis(10)).unwrap();
    append(w, b"b").unwrap();
    w.pass_ms(9);
    assert_eq!(w.cells().get("k").unwrap(), Some("ab".into()));
    w.pass_ms(2);
    assert_eq!(append(w, b"c").unwrap(), Answer::Count(1));
    assert_eq!(counter(&w.cells(), "k"), Some(4));
}

/// Beyond the largest value it is refused.
pub fn too_large_is_refused(w: &mut World) {
    w.cells().set("k", "x".repeat((16 << 20) - 10)).unwrap();
    writes_nothing(w.db(), || refused(append(w, &[b'x'; 20]), Code::ValueTooLarge));
}
