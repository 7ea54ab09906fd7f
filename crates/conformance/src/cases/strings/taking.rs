//! `Take`: deletes a cell and returns its value.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, StringCommand, Ttl, Value};

fn take(w: &TestDb) -> Answer {
    text(w.db(), StringCommand::Take { name: name("k") }).unwrap()
}

/// `Take` returns and deletes the value, and the counter continues.
pub fn tells_and_deletes(w: &mut TestDb) {
    w.cells().set("k", "v").unwrap();
    assert_eq!(take(w), Answer::Replaced { did: true, old: Some(Value::from("v")) });
    assert_eq!(w.cells().get("k").unwrap(), None);
    assert_eq!(w.cells().set("k", 1).unwrap(), 3);
}

/// `Take` of an absent or expired cell returns nothing.
pub fn nothing_of_nothing(w: &mut TestDb) {
    let none = Answer::Replaced { did: false, old: None };
    assert_eq!(writes_nothing(w.db(), || take(w)), none);
    w.cells().set_with("k", "v", Ttl::Millis(10)).unwrap();
    w.pass_ms(11);
    assert_eq!(take(w), none);
    assert_eq!(counter(&w.cells(), "k"), None);
    assert_eq!(w.cells().set("k", 1).unwrap(), 3);
}
