//! `Take`: deletes, and tells what was there.

use crate::World;
use crate::check::*;
use mainstay::{Answer, StringCommand, Ttl, Value};

fn take(w: &World) -> Answer {
    text(w.db(), StringCommand::Take { name: name("k") }).unwrap()
}

/// What was there is told and gone; the counter goes on.
pub fn tells_and_deletes(w: &mut World) {
    w.cells().set("k", "v").unwrap();
    assert_eq!(take(w), Answer::Replaced { did: true, old: Some(Value::from("v")) });
    assert_eq!(w.cells().get("k").unwrap(), None);
    assert_eq!(w.cells().set("k", 1).unwrap(), 3);
}

/// Of nothing it is nothing, and nothing is written.
pub fn nothing_of_nothing(w: &mut World) {
    let none = Answer::Replaced { did: false, old: None };
    assert_eq!(writes_nothing(w.db(), || take(w)), none);
    w.cells().set_with("k", "v", Ttl::Millis(10)).unwrap();
    w.pass_ms(11);
    assert_eq!(take(w), none);
    assert_eq!(counter(&w.cells(), "k"), None);
    assert_eq!(w.cells().set("k", 1).unwrap(), 3);
}
