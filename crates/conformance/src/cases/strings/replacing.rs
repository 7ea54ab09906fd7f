//! `Set`: a write with a condition and a time to live, which returns the old value.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, Only, StringCommand, Ttl, Value};

fn put(w: &TestDb, value: impl Into<Value>, only: Only) -> Answer {
    text(w.db(), string_set("k", value, only, Ttl::Clear)).unwrap()
}

fn replaced(did: bool, old: impl Into<Option<Value>>) -> Answer {
    Answer::Replaced { did, old: old.into() }
}

/// `Always` writes and returns the old value.
pub fn always_writes_and_tells_the_old(w: &mut TestDb) {
    assert_eq!(put(w, "a", Only::Always), replaced(true, None));
    assert_eq!(put(w, "b", Only::Always), replaced(true, Value::from("a")));
    assert_eq!(w.cells().get("k").unwrap(), Some("b".into()));
    assert_eq!(counter(&w.cells(), "k"), Some(2));
}

/// `Absent` writes only an absent cell; otherwise it returns the present value.
pub fn only_absent(w: &mut TestDb) {
    assert_eq!(put(w, "a", Only::Absent), replaced(true, None));
    let kept = writes_nothing(w.db(), || put(w, "b", Only::Absent));
    assert_eq!(kept, replaced(false, Value::from("a")));
    w.cells().delete("k").unwrap();
    assert_eq!(put(w, "c", Only::Absent), replaced(true, None));
}

/// `Present` writes only a present cell.
pub fn only_present(w: &mut TestDb) {
    let none = writes_nothing(w.db(), || put(w, "a", Only::Present));
    assert_eq!(none, replaced(false, None));
    w.cells().set("k", 1).unwrap();
    assert_eq!(put(w, "b", Only::Present), replaced(true, Value::Int(1)));
}

/// A cell that holds `Null` is present.
pub fn null_is_present(w: &mut TestDb) {
    w.cells().set("k", ()).unwrap();
    assert_eq!(put(w, "a", Only::Absent), replaced(false, Value::Null));
}

/// `Equals` writes only if the value is equal; an absent cell equals nothing.
pub fn only_equal(w: &mut TestDb) {
    let equals = |value: &str| Only::Equals(Value::from(value));
    assert_eq!(writes_nothing(w.db(), || put(w, "a", equals("a"))), replaced(false, None));
    w.cells().set("k", "a").unwrap();
    let kept = writes_nothing(w.db(), || put(w, "c", equals("b")));
    assert_eq!(kept, replaced(false, Value::from("a")));
    assert_eq!(put(w, "c", equals("a")), replaced(true, Value::from("a")));
}

/// `Differs` writes only if the value differs; an absent cell differs from everything.
pub fn only_different(w: &mut TestDb) {
    let differs = |value: &str| Only::Differs(Value::from(value));
    assert_eq!(put(w, "a", differs("a")), replaced(true, None));
    let kept = writes_nothing(w.db(), || put(w, "b", differs("a")));
    assert_eq!(kept, replaced(false, Value::from("a")));
    assert_eq!(put(w, "b", differs("x")), replaced(true, Value::from("a")));
}

/// Values are compared by their text form: a number equals its digits, bytes equal the same string.
pub fn compares_texts(w: &mut TestDb) {
    w.cells().set("k", 12).unwrap();
    assert_eq!(put(w, "a", Only::Equals("12".into())), replaced(true, Value::Int(12)));
    let bytes = Only::Equals(Value::Bytes(b"a".to_vec()));
    assert_eq!(put(w, "b", bytes), replaced(true, Value::from("a")));
    w.cells().set("k", 1.0).unwrap();
    let kept = put(w, "a", Only::Equals("1".into()));
    assert_eq!(kept, replaced(false, Value::Float(1.0)));
}

/// A write removes, sets or keeps the time to live as requested; without a write it stays.
pub fn time_to_live_as_asked(w: &mut TestDb) {
    let set = |only, ttl| text(w.db(), string_set("k", "v", only, ttl)).unwrap();
    let expires = || w.cells().get_versioned("k").unwrap().unwrap().expires;
    set(Only::Always, Ttl::Millis(50));
    let first = expires();
    assert!(first.is_some());
    set(Only::Always, Ttl::Keep);
    assert_eq!(expires(), first);
    set(Only::Absent, Ttl::Clear);
    assert_eq!(expires(), first);
    set(Only::Always, Ttl::Clear);
    assert_eq!(expires(), None);
}

/// An expired cell is absent, and the write counts its expiry.
pub fn expired_is_absent(w: &mut TestDb) {
    w.cells().set_with("k", "a", Ttl::Millis(10)).unwrap();
    w.pass_ms(11);
    assert_eq!(put(w, "b", Only::Absent), replaced(true, None));
    assert_eq!(counter(&w.cells(), "k"), Some(3));
}

/// With an expiry in the past the write succeeds, and the cell is expired at once.
pub fn past_moment_is_gone_at_once(w: &mut TestDb) {
    let set = string_set("k", "v", Only::Always, Ttl::Until(1));
    assert_eq!(text(w.db(), set).unwrap(), replaced(true, None));
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// Invalid input is refused whether or not the condition holds.
pub fn bad_input_is_refused_whatever_is_there(w: &mut TestDb) {
    let deep = (0..200).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    for only in [Only::Always, Only::Present] {
        let set = string_set("k", deep.clone(), only.clone(), Ttl::Clear);
        writes_nothing(w.db(), || refused(text(w.db(), set), Code::ValueTooDeep));
        let set = string_set("k", 1, only, Ttl::Millis(0));
        writes_nothing(w.db(), || refused(text(w.db(), set), Code::InvalidTtl));
    }
}

/// Under `must`, a condition that does not hold aborts the transaction.
pub fn must_fails_where_the_condition_does(w: &mut TestDb) {
    let set = string_set("k", "v", Only::Present, Ttl::Clear);
    let transaction = mainstay::Transaction::new().step(self::set("a", 1)).must(set);
    writes_nothing(w.db(), || refused_at(w.db().execute(transaction), Code::MustFailed, 1));
}

/// The commands work on the same cells as all others, on branches too.
pub fn same_cells_on_branches(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.db().fork("dev", "main", mainstay::At::Latest).unwrap();
    let take = StringCommand::Take { name: name("k") };
    let receipt = w.db().execute(mainstay::Transaction::on("dev").step(take)).unwrap();
    assert_eq!(receipt.answers[0], replaced(true, Value::Int(1)));
    assert_eq!((w.on("dev").get("k").unwrap(), w.cells().get("k").unwrap()), (None, int(1)));
}
