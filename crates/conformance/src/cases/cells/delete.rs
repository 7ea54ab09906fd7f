//! `delete` and `delete_if`: the counter survives a deletion.

use crate::TestDb;
use crate::assertions::*;

/// Deleting a present cell returns true, and the cell is then absent.
pub fn present_answers_true(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    assert!(writes_once(w.db(), || w.cells().delete("k").unwrap()));
    assert_eq!(w.cells().get("k").unwrap(), None);
    assert_eq!(w.cells().get_versioned("k").unwrap(), None);
}

/// Deleting a cell that was never written returns false and writes nothing.
pub fn absent_answers_false_and_writes_nothing(w: &mut TestDb) {
    assert!(!writes_nothing(w.db(), || w.cells().delete("k").unwrap()));
    assert!(w.cells().history("k", 10, None).unwrap().is_empty());
}

/// A second deletion writes nothing and does not raise the counter.
pub fn twice_writes_once(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    assert!(w.cells().delete("k").unwrap());
    assert!(!writes_nothing(w.db(), || w.cells().delete("k").unwrap()));
    assert_eq!(w.cells().set("k", 2).unwrap(), 3);
}

/// Each deletion is a write and raises the counter.
pub fn counts_as_a_write(w: &mut TestDb) {
    for round in 0..4 {
        assert_eq!(w.cells().set("k", 1).unwrap(), 2 * round + 1);
        assert!(w.cells().delete("k").unwrap());
    }
}

/// A conditional deletion with the current counter succeeds.
pub fn conditional_with_the_right_counter(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().set("k", 2).unwrap();
    assert!(w.cells().delete_if("k", 2).unwrap());
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// A conditional deletion with another counter returns false and writes nothing.
pub fn conditional_with_a_wrong_counter(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    for wrong in [0, 2, u64::MAX] {
        assert!(!writes_nothing(w.db(), || w.cells().delete_if("k", wrong).unwrap()));
    }
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// A conditional deletion of an absent cell returns false for every counter.
pub fn conditional_on_absent(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    for counter in [0, 1, 2, 3] {
        assert!(!writes_nothing(w.db(), || w.cells().delete_if("k", counter).unwrap()));
    }
}

/// Lists do not contain deleted cells.
pub fn disappears_from_lists(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.cells().set("b", 1).unwrap();
    w.cells().delete("a").unwrap();
    assert_eq!(names(&w.cells(), ""), ["b"]);
}

/// A cell written again after a deletion does not inherit the old time to live.
pub fn forgets_the_time_to_live(w: &mut TestDb) {
    w.cells().set_with("k", 1, mainstay::Ttl::Millis(10)).unwrap();
    w.cells().delete("k").unwrap();
    w.cells().cas("k", None, 2).unwrap();
    w.pass_ms(50);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}
