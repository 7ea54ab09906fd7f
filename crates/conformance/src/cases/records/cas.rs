//! `compare_and_swap` on a field: compares bytes and never creates a record or field.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Condition, RecordWrite, Ttl};
use std::sync::atomic::{AtomicU64, Ordering};

/// With the current bytes the swap succeeds.
pub fn right_bytes_win(w: &mut TestDb) {
    w.records().put("k", &fields(&[("state", "pending"), ("a", "1")]), None).unwrap();
    assert!(w.records().compare_and_swap("k", "state", "pending", "claimed").unwrap());
    holds(&w.records(), "k", &[("a", "1"), ("state", "claimed")]);
    assert_eq!(record_counter(&w.records(), "k"), Some(2));
}

/// With other bytes the swap returns false and writes nothing.
pub fn other_bytes_lose(w: &mut TestDb) {
    w.records().set_field("k", "state", "pending").unwrap();
    for other in ["", "Pending", "pending ", "pendin"] {
        let cas = || w.records().compare_and_swap("k", "state", other, "x").unwrap();
        assert!(!writes_nothing(w.db(), cas), "{other}");
    }
    holds(&w.records(), "k", &[("state", "pending")]);
}

/// Values are compared as bytes, not as numbers.
pub fn compares_bytes(w: &mut TestDb) {
    w.records().set_field("k", "n", "1").unwrap();
    assert!(!w.records().compare_and_swap("k", "n", "1.0", "2").unwrap());
    assert!(!w.records().compare_and_swap("k", "n", "01", "2").unwrap());
    assert!(w.records().compare_and_swap("k", "n", [b'1'], "2").unwrap());
}

/// A swap on a missing key fails and does not create it.
pub fn missing_key_loses(w: &mut TestDb) {
    assert!(!writes_nothing(w.db(), || w.records().compare_and_swap("k", "a", "", "1").unwrap()));
    is_gone(&w.records(), "k");
}

/// A swap on a missing field fails and does not create it; an empty field is not missing.
pub fn missing_field_loses(w: &mut TestDb) {
    w.records().set_field("k", "a", "").unwrap();
    assert!(!writes_nothing(w.db(), || w.records().compare_and_swap("k", "b", "", "1").unwrap()));
    assert!(w.records().compare_and_swap("k", "a", "", "1").unwrap());
    holds(&w.records(), "k", &[("a", "1")]);
}

/// A swap on an expired record fails.
pub fn expired_loses(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.pass_ms(6);
    assert!(!writes_nothing(w.db(), || w.records().compare_and_swap("k", "a", "1", "2").unwrap()));
}

/// A swap keeps the expiry.
pub fn keeps_the_expiry(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    assert!(w.records().compare_and_swap("k", "a", "1", "2").unwrap());
    w.pass_ms(6);
    is_gone(&w.records(), "k");
}

/// A condition that a field is absent also holds if the record is missing.
pub fn absent_is_its_own_form(w: &mut TestDb) {
    let absent = || Condition::Field { field: field("owner"), is: None };
    let take = |who: &str| write("k", &[("owner", who)]).when(absent());
    assert_eq!(w.records().write(take("a")).unwrap(), Some(1));
    assert_eq!(writes_nothing(w.db(), || w.records().write(take("b")).unwrap()), None);
    w.records().put("l", &fields(&[("other", "")]), None).unwrap();
    let take = write("l", &[("owner", "a")]).when(absent());
    assert_eq!(w.records().write(take).unwrap(), Some(2), "the record may be there");
}

/// A write can combine conditions, fields to set, fields to clear and a time to live in one step.
pub fn full_form_is_one_step(w: &mut TestDb) {
    w.records()
        .put("k", &fields(&[("state", "pending"), ("error", "x"), ("n", "1")]), None)
        .unwrap();
    let claim = |n: &str| {
        let claim = RecordWrite::to("k").unwrap().when_field("state", "pending").unwrap();
        let claim = claim.when_field("n", n).unwrap().set("state", "claimed").unwrap();
        claim.set("worker", "w1").unwrap().clear("error").unwrap().ttl(Ttl::Millis(9))
    };
    assert_eq!(writes_nothing(w.db(), || w.records().write(claim("2")).unwrap()), None);
    assert_eq!(writes_once(w.db(), || w.records().write(claim("1")).unwrap()), Some(2));
    holds(&w.records(), "k", &[("n", "1"), ("state", "claimed"), ("worker", "w1")]);
    w.pass_ms(10);
    is_gone(&w.records(), "k");
}

/// Of any number of concurrent callers exactly one wins.
pub fn one_of_many_wins(w: &mut TestDb) {
    w.records().set_field("k", "state", "pending").unwrap();
    let won = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let records = w.records();
            let won = &won;
            scope.spawn(move || {
                let new = format!("claimed by {n}");
                if records.compare_and_swap("k", "state", "pending", new).unwrap() {
                    won.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!((won.into_inner(), record_counter(&w.records(), "k")), (1, Some(2)));
}
