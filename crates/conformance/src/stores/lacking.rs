//! Missing capabilities: the store refuses with `Unsupported` and names the capability.
//!
//! It must not do something weaker instead.

use crate::check::{field, fields, write};
use crate::stand::Stand;
use mainstay_model::{Condition, FieldValue, RecordPick, RecordWrite, Ttl};

fn unchanged(s: &Stand<'_>, asked: impl FnOnce()) {
    s.ok(s.put("k", &fields(&[("a", "1")]), None));
    let counter = s.counter("k");
    asked();
    s.holds("k", &[("a", "1")]);
    assert_eq!(s.counter("k"), counter, "something was written");
}

fn refuses_write(s: &Stand<'_>, write: RecordWrite, capability: &str) {
    unchanged(s, || s.unsupported(s.write(write), capability));
}

/// A time to live per record.
pub fn ttl(s: &Stand<'_>) {
    unchanged(s, || {
        for ttl in [Ttl::Millis(5), Ttl::Until(u64::MAX >> 20)] {
            s.unsupported(s.put("k", &fields(&[("a", "2")]), Some(ttl)), "lifetimes");
            s.unsupported(s.expire("k", ttl), "lifetimes");
        }
    });
}

/// Conditions on the counter or on existence.
pub fn counter_conditions(s: &Stand<'_>) {
    for condition in [Condition::Counter { is: None }, Condition::Exists] {
        refuses_write(s, write("k", &[("a", "2")]).when(condition.clone()), "conditions");
        unchanged(s, || s.unsupported(s.delete_when("k", vec![condition]), "conditions"));
    }
}

/// Conditions on fields.
pub fn field_conditions(s: &Stand<'_>) {
    refuses_write(s, write("k", &[("a", "2")]).when_field("a", "1").unwrap(), "conditions");
    unchanged(s, || {
        s.unsupported(s.compare_and_swap("k", "a", b"1", "2".into()), "conditions");
        let is = Condition::Field { field: field("a"), is: None };
        s.unsupported(s.delete_when("k", vec![is]), "conditions");
    });
}

/// Several conditions in one write.
pub fn several_conditions(s: &Stand<'_>) {
    let two = write("k", &[("a", "2")]).when(Condition::Exists).when(Condition::Exists);
    refuses_write(s, two, "several_conditions");
    let two = vec![Condition::Exists, Condition::Exists];
    unchanged(s, || s.unsupported(s.delete_when("k", two), "several_conditions"));
}

/// Fencing conditions.
pub fn fences(s: &Stand<'_>) {
    let fence = Condition::Fence { field: field("a"), is: b"1".to_vec() };
    refuses_write(s, write("k", &[("a", "2")]).when(fence), "fences");
}

/// Fields set to an increasing revision.
pub fn revisions(s: &Stand<'_>) {
    let write = write("k", &[("a", "2")]).set("token", FieldValue::Revision).unwrap();
    refuses_write(s, write, "revisions");
}

/// Fields set to the store's time.
pub fn times(s: &Stand<'_>) {
    let write = write("k", &[("a", "2")]).set("at", FieldValue::Millis { plus: 0 }).unwrap();
    refuses_write(s, write, "times");
}

/// Fields that are incremented.
pub fn sums(s: &Stand<'_>) {
    let write = write("k", &[("b", "2")]).set("a", FieldValue::Sum { by: 1 }).unwrap();
    refuses_write(s, write, "sums");
}

/// Old versions of records.
pub fn history(s: &Stand<'_>) {
    unchanged(s, || s.unsupported(s.history("k", 10, None), "history"));
}

/// Scan and write in one step.
pub fn picks(s: &Stand<'_>) {
    let pick = RecordPick::under("", vec![]).set("a", "2").unwrap();
    unchanged(s, || s.unsupported(s.pick(pick), "picks"));
}

/// Declared indexes.
pub fn indexes(s: &Stand<'_>) {
    s.unsupported(s.add_index("t.", &[field("state")]), "indexes");
    s.unsupported(s.drop_index(1), "indexes");
    s.unsupported(s.indexes(), "indexes");
}
