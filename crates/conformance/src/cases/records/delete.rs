//! `delete`: the counter survives.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Condition, Transaction, Ttl};

/// Deleting an existing record returns true.
pub fn present_answers_true(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    assert!(w.records().delete("k").unwrap());
    is_gone(&w.records(), "k");
    assert_eq!(found(&w.records(), "", &[]), [] as [&str; 0]);
}

/// Deleting a missing record returns false and writes nothing.
pub fn absent_answers_false_and_writes_nothing(w: &mut TestDb) {
    assert!(!writes_nothing(w.db(), || w.records().delete("k").unwrap()));
    w.records().set_field("k", "a", "1").unwrap();
    w.records().delete("k").unwrap();
    assert!(!writes_nothing(w.db(), || w.records().delete("k").unwrap()));
}

/// A deletion counts as a write.
pub fn counts_as_a_write(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    w.records().delete("k").unwrap();
    assert_eq!(w.records().set_field("k", "a", "1").unwrap(), 3);
}

/// With a counter condition, only the current counter deletes.
pub fn conditional_on_the_counter(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    let delete = |is| w.records().delete_when("k", vec![Condition::Counter { is }]).unwrap();
    assert!(!writes_nothing(w.db(), || delete(Some(2))));
    assert!(!writes_nothing(w.db(), || delete(None)));
    assert!(delete(Some(1)));
}

/// With field conditions, all of them must hold.
pub fn conditional_on_fields(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("b", "2")]), None).unwrap();
    let is = |name: &str, value: &str| Condition::Field {
        field: field(name),
        is: Some(value.as_bytes().to_vec()),
    };
    let both = |a, b| w.records().delete_when("k", vec![is("a", a), is("b", b)]).unwrap();
    assert!(!writes_nothing(w.db(), || both("1", "1")));
    assert!(both("1", "2"));
}

/// A deletion of a missing record returns false even if its condition holds.
pub fn absent_field_of_nothing(w: &mut TestDb) {
    let absent = vec![Condition::Field { field: field("a"), is: None }];
    assert!(!writes_nothing(w.db(), || w.records().delete_when("k", absent).unwrap()));
}

/// A cell with the same name is not deleted.
pub fn leaves_the_cell_of_its_name(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    w.cells().set("k", 1).unwrap();
    w.records().delete("k").unwrap();
    assert_eq!(w.cells().get("k").unwrap(), int(1));
    w.records().set_field("k", "a", "1").unwrap();
    w.cells().delete("k").unwrap();
    holds(&w.records(), "k", &[("a", "1")]);
}

/// A deletion removes the expiry.
pub fn forgets_the_expiry(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.records().delete("k").unwrap();
    w.records().set_field("k", "a", "1").unwrap();
    w.pass_ms(6);
    holds(&w.records(), "k", &[("a", "1")]);
    assert_eq!(w.db().sweep().unwrap(), 0);
}

/// A deletion and a new write in one transaction produce one version.
pub fn within_a_transaction(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("b", "1")]), None).unwrap();
    let again = Transaction::new().must(delete_record("k")).step(write("k", &[("c", "1")]));
    w.db().execute(again).unwrap();
    holds(&w.records(), "k", &[("c", "1")]);
    let history = w.records().history("k", 9, None).unwrap();
    assert_eq!((history.len(), history[0].counter, history[0].writes), (2, 3, 2));
}
