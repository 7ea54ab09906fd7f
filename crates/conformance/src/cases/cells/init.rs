//! `init(name, value)`: writes an absent cell and returns the counter in both cases.

use crate::TestDb;
use crate::assertions::*;

/// An absent cell is written and gets counter 1.
pub fn absent_writes_counter_one(w: &mut TestDb) {
    let first = writes_once(w.db(), || w.cells().init("k", "v").unwrap());
    assert_eq!(first, 1);
    assert_eq!(w.cells().get("k").unwrap(), Some("v".into()));
}

/// `init` of a present cell returns its counter and writes nothing.
pub fn present_answers_its_counter_and_writes_nothing(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().set("k", 2).unwrap();
    let again = writes_nothing(w.db(), || w.cells().init("k", 9).unwrap());
    assert_eq!(again, 2);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// A second `init` returns the same counter.
pub fn twice_is_once(w: &mut TestDb) {
    assert_eq!(w.cells().init("k", 1).unwrap(), 1);
    assert_eq!(w.cells().init("k", 2).unwrap(), 1);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// After a deletion the counter continues, because the deletion was a write.
pub fn after_deletion_continues_the_counter(w: &mut TestDb) {
    w.cells().init("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    assert_eq!(w.cells().init("k", 2).unwrap(), 3);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// A cell that holds `Null` is present.
pub fn null_counts_as_present(w: &mut TestDb) {
    w.cells().init("k", ()).unwrap();
    assert_eq!(w.cells().init("k", 1).unwrap(), 1);
    assert_eq!(w.cells().get("k").unwrap(), Some(().into()));
}

/// A cell written by `init` has no time to live.
pub fn leaves_no_time_to_live(w: &mut TestDb) {
    w.cells().init("k", 1).unwrap();
    assert_eq!(w.cells().get_versioned("k").unwrap().unwrap().expires, None);
}
