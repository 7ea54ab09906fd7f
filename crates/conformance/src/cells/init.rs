//! `init(name, value)`: writes when absent, answers the counter either way.

use crate::World;
use crate::check::*;

/// An absent cell is written and gets counter 1.
pub fn absent_writes_counter_one(w: &mut World) {
    let first = writes_once(w.db(), || w.cells().init("k", "v").unwrap());
    assert_eq!(first, 1);
    assert_eq!(w.cells().get("k").unwrap(), Some("v".into()));
}

/// A present cell answers its counter, and nothing is written.
pub fn present_answers_its_counter_and_writes_nothing(w: &mut World) {
    w.cells().set("k", 1).unwrap();
    w.cells().set("k", 2).unwrap();
    let again = writes_nothing(w.db(), || w.cells().init("k", 9).unwrap());
    assert_eq!(again, 2);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// Initialising twice gives the same counter twice.
pub fn twice_is_once(w: &mut World) {
    assert_eq!(w.cells().init("k", 1).unwrap(), 1);
    assert_eq!(w.cells().init("k", 2).unwrap(), 1);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// After a deletion the counter goes on: the deletion itself was a write.
pub fn after_deletion_continues_the_counter(w: &mut World) {
    w.cells().init("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    assert_eq!(w.cells().init("k", 2).unwrap(), 3);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// Null is a value: a cell that holds it is present.
pub fn null_counts_as_present(w: &mut World) {
    w.cells().init("k", ()).unwrap();
    assert_eq!(w.cells().init("k", 1).unwrap(), 1);
    assert_eq!(w.cells().get("k").unwrap(), Some(().into()));
}

/// What `init` writes has no time to live.
pub fn leaves_no_time_to_live(w: &mut World) {
    w.cells().init("k", 1).unwrap();
    assert_eq!(w.cells().get_versioned("k").unwrap().unwrap().expires, None);
}
