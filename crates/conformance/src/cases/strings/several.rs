//! `SetAll`: sets several cells, all or nothing.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, StringCommand, Transaction, Ttl, Value};

fn all(pairs: &[(&str, Value)], only_absent: bool) -> StringCommand {
    let pairs = pairs.iter().map(|(cell, value)| (name(cell), value.clone())).collect();
    StringCommand::SetAll { pairs, only_absent }
}

/// All cells are written in one revision.
pub fn all_at_once(w: &mut TestDb) {
    let pairs = [("a", "1".into()), ("b", "2".into())];
    let did = writes_once(w.db(), || text(w.db(), all(&pairs, false)).unwrap());
    assert_eq!(did, Answer::Did(true));
    assert_eq!(w.cells().get("a").unwrap(), Some("1".into()));
    assert_eq!(w.cells().get("b").unwrap(), Some("2".into()));
}

/// If a name is given twice, the last value wins.
pub fn last_of_a_name_wins(w: &mut TestDb) {
    let pairs = [("a", "1".into()), ("b", "2".into()), ("a", "3".into())];
    text(w.db(), all(&pairs, true)).unwrap();
    assert_eq!(w.cells().get("a").unwrap(), Some("3".into()));
    assert_eq!(counter(&w.cells(), "a"), Some(2));
}

/// `SetAll` removes times to live.
pub fn times_to_live_end(w: &mut TestDb) {
    w.cells().set_with("a", 1, Ttl::Millis(10)).unwrap();
    text(w.db(), all(&[("a", 2.into())], false)).unwrap();
    w.pass_ms(20);
    assert_eq!(w.cells().get("a").unwrap(), int(2));
}

/// With `only_absent`, nothing is written if any of the cells is present.
pub fn only_absent_is_all_or_none(w: &mut TestDb) {
    w.cells().set("b", 1).unwrap();
    let pairs = [("a", "1".into()), ("b", "2".into())];
    let did = writes_nothing(w.db(), || text(w.db(), all(&pairs, true)).unwrap());
    assert_eq!(did, Answer::Did(false));
    assert_eq!(w.cells().get("a").unwrap(), None);
    w.cells().delete("b").unwrap();
    assert_eq!(text(w.db(), all(&pairs, true)).unwrap(), Answer::Did(true));
}

/// An expired cell is absent.
pub fn expired_is_absent(w: &mut TestDb) {
    w.cells().set_with("a", 1, Ttl::Millis(10)).unwrap();
    w.pass_ms(11);
    assert_eq!(text(w.db(), all(&[("a", 2.into())], true)).unwrap(), Answer::Did(true));
    assert_eq!(counter(&w.cells(), "a"), Some(3));
}

/// One invalid value aborts the command, and nothing is written even if the transaction continues.
pub fn one_bad_value_writes_none(w: &mut TestDb) {
    let deep = (0..200).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    let bad = || all(&[("a", 1.into()), ("b", deep.clone())], false);
    writes_nothing(w.db(), || refused(text(w.db(), bad()), Code::ValueTooDeep));
    let receipt = w.db().execute(Transaction::new().attempt(bad()).step(set("c", 1))).unwrap();
    assert!(matches!(&receipt.answers[0], Answer::Failed(e) if e.code() == Code::ValueTooDeep));
    assert_eq!(names(&w.cells(), ""), ["c"]);
}

/// A command that is too large for a transaction leaves an open one unchanged.
pub fn too_much_leaves_an_open_transaction_as_it_was(w: &mut TestDb) {
    let large = Value::from("x".repeat(15 << 20));
    let pairs: Vec<(&str, Value)> =
        ["a", "b", "c", "d", "e"].map(|cell| (cell, large.clone())).to_vec();
    let mut t = w.db().begin().unwrap();
    t.set("z", 1).unwrap();
    refused(t.run(all(&pairs, false)), Code::TransactionTooLarge);
    assert_eq!(t.list("", None, 10).unwrap().names, ["z"]);
    t.commit().unwrap();
    assert_eq!(names(&w.cells(), ""), ["z"]);
}

/// An empty list succeeds and writes nothing.
pub fn none_at_all(w: &mut TestDb) {
    let did = writes_nothing(w.db(), || text(w.db(), all(&[], true)).unwrap());
    assert_eq!(did, Answer::Did(true));
}
