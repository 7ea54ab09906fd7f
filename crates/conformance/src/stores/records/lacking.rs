//! Missing capabilities: the store refuses with `Unsupported` and names the capability.
//!
//! It must not do something weaker instead.

use super::TestRecords;
use crate::assertions::{field, fields, write};
use mainstay_model::{Condition, FieldValue, RecordPick, RecordWrite, Ttl};

fn unchanged(s: &TestRecords<'_>, asked: impl FnOnce()) {
    s.ok(s.put("k", &fields(&[("a", "1")]), None));
    let counter = s.counter("k");
    asked();
    s.holds("k", &[("a", "1")]);
    assert_eq!(s.counter("k"), counter, "something was written");
}

fn refuses_write(s: &TestRecords<'_>, write: RecordWrite, capability: &str) {
    unchanged(s, || s.unsupported(s.write(write), capability));
}

/// A time to live per record.
/// Lacks: Ttl.
pub fn ttl(s: &TestRecords<'_>) {
    unchanged(s, || {
        for ttl in [Ttl::Millis(5), Ttl::Until(u64::MAX >> 20)] {
            s.unsupported(s.put("k", &fields(&[("a", "2")]), Some(ttl)), "lifetimes");
            s.unsupported(s.expire("k", ttl), "lifetimes");
        }
    });
}

/// Conditions on the counter or on existence.
/// Lacks: CounterConditions.
pub fn counter_conditions(s: &TestRecords<'_>) {
    for condition in [Condition::Counter { is: None }, Condition::Exists] {
        refuses_write(s, write("k", &[("a", "2")]).when(condition.clone()), "conditions");
        unchanged(s, || s.unsupported(s.delete_when("k", vec![condition]), "conditions"));
    }
}

/// Conditions on fields.
/// Lacks: FieldConditions.
pub fn field_conditions(s: &TestRecords<'_>) {
    refuses_write(s, write("k", &[("a", "2")]).when_field("a", "1").unwrap(), "conditions");
    unchanged(s, || {
        s.unsupported(s.compare_and_swap("k", "a", b"1", "2".into()), "conditions");
        let is = Condition::Field { field: field("a"), is: None };
        s.unsupported(s.delete_when("k", vec![is]), "conditions");
    });
}

/// Several conditions in one write.
/// Requires: CounterConditions.
/// Lacks: SeveralConditions.
pub fn several_conditions(s: &TestRecords<'_>) {
    let two = write("k", &[("a", "2")]).when(Condition::Exists).when(Condition::Exists);
    refuses_write(s, two, "several_conditions");
    let two = vec![Condition::Exists, Condition::Exists];
    unchanged(s, || s.unsupported(s.delete_when("k", two), "several_conditions"));
}

/// Fencing conditions.
/// Lacks: Fences.
pub fn fences(s: &TestRecords<'_>) {
    let fence = Condition::Fence { field: field("a"), is: b"1".to_vec() };
    refuses_write(s, write("k", &[("a", "2")]).when(fence), "fences");
}

/// Fields set to an increasing revision.
/// Lacks: Revisions.
pub fn revisions(s: &TestRecords<'_>) {
    let write = write("k", &[("a", "2")]).set("token", FieldValue::Revision).unwrap();
    refuses_write(s, write, "revisions");
}

/// Fields set to the store's time.
/// Lacks: Times.
pub fn times(s: &TestRecords<'_>) {
    let write = write("k", &[("a", "2")]).set("at", FieldValue::Millis { plus: 0 }).unwrap();
    refuses_write(s, write, "times");
}

/// Fields that are incremented.
/// Lacks: Sums.
pub fn sums(s: &TestRecords<'_>) {
    let write = write("k", &[("b", "2")]).set("a", FieldValue::Sum { by: 1 }).unwrap();
    refuses_write(s, write, "sums");
}

/// Old versions of records.
/// Lacks: History.
pub fn history(s: &TestRecords<'_>) {
    unchanged(s, || s.unsupported(s.history("k", 10, None), "history"));
}

/// Scan and write in one step.
/// Lacks: Picks.
pub fn picks(s: &TestRecords<'_>) {
    let pick = RecordPick::under("", vec![]).set("a", "2").unwrap();
    unchanged(s, || s.unsupported(s.pick(pick), "picks"));
}

/// Declared indexes.
/// Lacks: Indexes.
pub fn indexes(s: &TestRecords<'_>) {
    s.unsupported(s.add_index("t.", &[field("state")]), "indexes");
    s.unsupported(s.drop_index(1), "indexes");
    s.unsupported(s.indexes(), "indexes");
}
