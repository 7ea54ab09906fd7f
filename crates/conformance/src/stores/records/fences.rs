//! Fencing conditions: a client that lost its lease gets an error, not just a failed condition.
//!
//! Requires: Fences.

use super::{LIFE_MS, TestRecords};
use crate::assertions::{field, fields, write};
use mainstay_model::{Code, Condition, FieldValue, RecordWrite, Ttl};

fn fence(token: &str) -> Condition {
    Condition::Fence { field: field("token"), is: token.as_bytes().to_vec() }
}

fn step(token: &str) -> RecordWrite {
    write("k", &[("step", "2")]).when(fence(token))
}

/// The holder of the token can write.
pub fn holder_writes(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "token", "7".into()));
    assert!(s.ok(s.write(step("7"))).is_some());
    s.holds("k", &[("step", "2"), ("token", "7")]);
}

/// Another token fails with `Fenced` and writes nothing.
pub fn other_token_is_fenced(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "token", "8".into()));
    s.refused(s.write(step("7")), Code::Fenced);
    s.holds("k", &[("token", "8")]);
}

/// A missing record or token fails with `Fenced`, too.
pub fn gone_is_fenced(s: &TestRecords<'_>) {
    s.refused(s.write(step("7")), Code::Fenced);
    s.is_gone("k");
    s.ok(s.set_field("k", "other", "7".into()));
    s.refused(s.write(step("7")), Code::Fenced);
    s.refused(s.write(step("")), Code::Fenced);
}

/// An expired record fails with `Fenced`, too.
/// Requires: Ttl.
pub fn expired_is_fenced(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("token", "7")]), Some(Ttl::Millis(LIFE_MS))));
    assert!(s.ok(s.write(step("7"))).is_some());
    s.pass_ms(LIFE_MS + 1);
    s.refused(s.write(step("7")), Code::Fenced);
}

/// A failed fence is reported before other failed conditions.
/// Requires: SeveralConditions.
pub fn is_told_first(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("token", "8"), ("state", "done")]), None));
    let running = Condition::Field { field: field("state"), is: Some(b"running".to_vec()) };
    let write = write("k", &[("step", "2")]).when(running).when(fence("7"));
    s.refused(s.write(write), Code::Fenced);
}

/// A deletion can have a fence.
pub fn delete_can_be_fenced(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "token", "8".into()));
    s.refused(s.delete_when("k", vec![fence("7")]), Code::Fenced);
    s.holds("k", &[("token", "8")]);
    assert!(s.ok(s.delete_when("k", vec![fence("8")])));
}

/// A grant stores a new token, which fences the previous holder.
/// Requires: Revisions.
pub fn grants_end_the_ones_before(s: &TestRecords<'_>) {
    let grant = || {
        let write = RecordWrite::to("k").unwrap().set("token", FieldValue::Revision).unwrap();
        s.ok(s.write(write));
        String::from_utf8(s.ok(s.get_field("k", "token")).unwrap()).unwrap()
    };
    let first = grant();
    assert!(s.ok(s.write(step(&first))).is_some(), "own writes leave the token");
    assert!(s.ok(s.write(step(&first))).is_some());
    let second = grant();
    s.refused(s.write(step(&first)), Code::Fenced);
    assert!(s.ok(s.write(step(&second))).is_some());
}

/// The holder can extend its lease without another change. No other client can, and a missing record is
/// not created.
/// Requires: Ttl.
pub fn lease_is_extended_under_its_fence(s: &TestRecords<'_>) {
    let extend =
        |token: &str, ms| RecordWrite::to("k").unwrap().when(fence(token)).ttl(Ttl::Millis(ms));
    s.ok(s.put("k", &fields(&[("token", "7")]), Some(Ttl::Millis(LIFE_MS))));
    let counter = s.counter("k");
    s.refused(s.write(extend("8", 10 * LIFE_MS)), Code::Fenced);
    assert_eq!(s.counter("k"), counter, "nothing was written");
    assert!(s.ok(s.write(extend("7", 10 * LIFE_MS))).is_some());
    s.pass_ms(LIFE_MS + 1);
    s.holds("k", &[("token", "7")]);
    s.pass_ms(10 * LIFE_MS);
    s.refused(s.write(extend("7", LIFE_MS)), Code::Fenced);
    assert_eq!(s.ok(s.write(RecordWrite::to("k").unwrap().ttl(Ttl::Millis(LIFE_MS)))), None);
    s.is_gone("k");
}
