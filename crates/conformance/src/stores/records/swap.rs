//! `compare_and_swap` and other writes conditional on fields.
//!
//! Requires: FieldConditions.

use super::{LIFE_MS, TestRecords};
use crate::assertions::{field, fields, write};
use mainstay_model::{Condition, Ttl};

/// With the current bytes the swap succeeds and keeps the other fields.
pub fn right_bytes_win(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("state", "pending"), ("a", "1")]), None));
    assert!(s.ok(s.compare_and_swap("k", "state", b"pending", "claimed".into())));
    s.holds("k", &[("a", "1"), ("state", "claimed")]);
}

/// With other bytes the swap returns false. Values are compared as bytes, not as text or numbers.
pub fn other_bytes_lose(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("state", "pending"), ("n", "1")]), None));
    let counter = s.counter("k");
    for other in ["", "Pending", "pending ", "pendin", "pending\0"] {
        assert!(!s.ok(s.compare_and_swap("k", "state", other.as_bytes(), "x".into())), "{other}");
    }
    for other in ["1.0", "01", " 1"] {
        assert!(!s.ok(s.compare_and_swap("k", "n", other.as_bytes(), "x".into())), "{other}");
    }
    s.holds("k", &[("n", "1"), ("state", "pending")]);
    assert_eq!(s.counter("k"), counter);
}

/// A swap on a missing record or field fails and creates nothing; an empty field is not missing.
pub fn missing_loses(s: &TestRecords<'_>) {
    assert!(!s.ok(s.compare_and_swap("k", "a", b"", "1".into())));
    s.is_gone("k");
    s.ok(s.set_field("k", "a", "".into()));
    assert!(!s.ok(s.compare_and_swap("k", "b", b"", "1".into())));
    s.holds("k", &[("a", "")]);
    assert!(s.ok(s.compare_and_swap("k", "a", b"", "1".into())));
}

/// A condition that a field is absent also holds if the record is missing.
pub fn absent_is_its_own_form(s: &TestRecords<'_>) {
    let absent = || Condition::Field { field: field("owner"), is: None };
    let take = |who: &str| s.ok(s.write(write("k", &[("owner", who)]).when(absent()))).is_some();
    assert!(take("a") && !take("b"));
    s.holds("k", &[("owner", "a")]);
    s.ok(s.set_field("k", "other", "1".into()));
    s.ok(s.clear_field("k", "owner"));
    assert!(take("c"));
}

/// An expired record is missing for a swap.
/// Requires: Ttl.
pub fn expired_loses(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(LIFE_MS))));
    s.pass_ms(LIFE_MS + 1);
    assert!(!s.ok(s.compare_and_swap("k", "a", b"1", "2".into())));
    s.is_gone("k");
}

/// All conditions must hold.
/// Requires: SeveralConditions.
pub fn all_must_hold(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("a", "1"), ("b", "2")]), None));
    let both = |a: &str, b: &str| {
        let write = write("k", &[("c", "3")]).when_field("a", a).unwrap().when_field("b", b);
        s.ok(s.write(write.unwrap())).is_some()
    };
    assert!(!both("1", "x") && !both("x", "2"));
    s.holds("k", &[("a", "1"), ("b", "2")]);
    assert!(both("1", "2"));
}

/// A write can combine several conditions, fields to set, fields to clear and a time to live.
/// Requires: SeveralConditions, Ttl.
pub fn full_form_is_one_step(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("state", "pending"), ("worker", ""), ("error", "e")]), None));
    let claim = write("k", &[("state", "claimed"), ("worker", "w1")])
        .when_field("state", "pending")
        .and_then(|claim| claim.when_field("worker", ""))
        .and_then(|claim| claim.clear("error"));
    let claim = claim.unwrap().ttl(Ttl::Millis(LIFE_MS));
    assert!(s.ok(s.write(claim.clone())).is_some());
    s.holds("k", &[("state", "claimed"), ("worker", "w1")]);
    assert_eq!(s.ok(s.write(claim)), None);
    s.pass_ms(LIFE_MS + 1);
    s.is_gone("k");
}

/// Conditions are evaluated on the state before the write.
pub fn conditions_see_the_state_before(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "a", "1".into()));
    let write = write("k", &[("a", "2")]).when_field("a", "2").unwrap();
    assert_eq!(s.ok(s.write(write)), None);
    s.holds("k", &[("a", "1")]);
}

/// A deletion can be conditional on a field.
pub fn delete_on_a_field(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "a", "1".into()));
    let is =
        |text: &str| Condition::Field { field: field("a"), is: Some(text.as_bytes().to_vec()) };
    assert!(!s.ok(s.delete_when("k", vec![is("2")])));
    s.holds("k", &[("a", "1")]);
    assert!(s.ok(s.delete_when("k", vec![is("1")])));
    s.is_gone("k");
}
