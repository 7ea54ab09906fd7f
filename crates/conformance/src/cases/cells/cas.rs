//! `cas` (compare-and-swap): exactly one winner, an immediate answer, no internal retry.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Ttl};

/// With the current counter the swap succeeds and returns the next counter.
pub fn right_counter_wins(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    assert_eq!(w.cells().cas("k", Some(1), 2).unwrap(), Some(2));
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// With an older counter the swap fails and writes nothing. This is an answer, not an error.
pub fn stale_counter_loses(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().set("k", 2).unwrap();
    let lost = writes_nothing(w.db(), || w.cells().cas("k", Some(1), 9).unwrap());
    assert_eq!(lost, None);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// With a counter above the current one the swap fails and writes nothing.
pub fn future_counter_loses(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    assert_eq!(writes_nothing(w.db(), || w.cells().cas("k", Some(2), 9).unwrap()), None);
    assert_eq!(counter(&w.cells(), "k"), Some(1));
}

/// A swap that expects a counter fails on an absent cell.
pub fn expected_counter_on_absent_loses(w: &mut TestDb) {
    assert_eq!(writes_nothing(w.db(), || w.cells().cas("k", Some(1), 9).unwrap()), None);
    assert_eq!(w.cells().cas("k", Some(0), 9).unwrap(), None);
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// A swap that expects absence succeeds on an absent cell.
pub fn none_on_absent_wins(w: &mut TestDb) {
    assert_eq!(w.cells().cas("k", None, 1).unwrap(), Some(1));
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// A swap that expects absence fails on a present cell.
pub fn none_on_present_loses(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    assert_eq!(writes_nothing(w.db(), || w.cells().cas("k", None, 2).unwrap()), None);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
}

/// A swap that expects absence succeeds after a deletion and continues the counter.
pub fn none_after_deletion_continues_the_counter(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    assert_eq!(w.cells().cas("k", None, 2).unwrap(), Some(3));
}

/// A counter from before a deletion never matches again.
pub fn stale_counter_loses_across_deletion(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    w.cells().delete("k").unwrap();
    assert_eq!(w.cells().cas("k", Some(1), 9).unwrap(), None);
    assert_eq!(w.cells().cas("k", Some(2), 9).unwrap(), None, "2 was the deletion");
    w.cells().set("k", 2).unwrap();
    assert_eq!(w.cells().cas("k", Some(1), 9).unwrap(), None);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
}

/// A cell that holds `Null` is present.
pub fn null_is_not_absence(w: &mut TestDb) {
    w.cells().set("k", ()).unwrap();
    assert_eq!(w.cells().cas("k", None, 1).unwrap(), None);
    assert_eq!(w.cells().cas("k", Some(1), 1).unwrap(), Some(2));
}

/// A swap keeps the time to live.
pub fn keeps_the_time_to_live(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(10)).unwrap();
    assert_eq!(w.cells().cas("k", Some(1), 2).unwrap(), Some(2));
    w.pass_ms(9);
    assert_eq!(w.cells().get("k").unwrap(), int(2));
    w.pass_ms(2);
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// An invalid name is an error even if the swap would fail anyway.
pub fn bad_name_is_an_error_not_an_answer(w: &mut TestDb) {
    writes_nothing(w.db(), || refused(w.cells().cas("", Some(4), 1), Code::InvalidName));
}

/// Of five swaps that expect the same counter, exactly one succeeds.
pub fn same_counter_wins_once(w: &mut TestDb) {
    w.cells().set("k", 0).unwrap();
    let won = (0..5).filter(|n| w.cells().cas("k", Some(1), *n).unwrap().is_some()).count();
    assert_eq!(won, 1);
    assert_eq!(w.cells().get("k").unwrap(), int(0));
}
