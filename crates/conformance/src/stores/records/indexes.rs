//! Declared indexes: they change the cost of a scan, never its result.
//!
//! Requires: Indexes.

use super::TestRecords;
use crate::assertions::{field, fields, filter};
use mainstay_model::{Code, Test};

/// Scans give equal results with and without an index, for records written before and after its
/// declaration.
pub fn change_no_answer(s: &TestRecords<'_>) {
    let put = |n: usize, state: &str| {
        let pairs = [("state", state.to_owned()), ("n", n.to_string())];
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_str()));
        s.ok(s.put(&format!("t.{n}"), &fields(&pairs.collect::<Vec<_>>()), None));
    };
    (0..10).for_each(|n| put(n, if n % 3 == 0 { "stuck" } else { "done" }));
    let stuck = [filter("state", Test::Eq, "stuck"), filter("n", Test::Lt, "8")];
    assert_eq!(s.found("t.", &stuck), ["t.0", "t.3", "t.6"]);
    s.ok(s.add_index("t.", &[field("state"), field("n")]));
    assert_eq!(s.found("t.", &stuck), ["t.0", "t.3", "t.6"]);
    put(5, "stuck");
    put(3, "done");
    s.ok(s.delete("t.0"));
    assert_eq!(s.found("t.", &stuck), ["t.5", "t.6"]);
    assert_eq!(s.ok(s.count("t.", &stuck)), 2);
}

/// An index is listed until it is dropped.
pub fn listed_until_dropped(s: &TestRecords<'_>) {
    let id = s.ok(s.add_index("t.", &[field("state")]));
    let listed = s.ok(s.indexes());
    assert_eq!((listed.len(), listed[0].id, listed[0].prefix.as_str()), (1, id, "t."));
    assert_eq!(listed[0].fields, [field("state")]);
    s.refused(s.add_index("t.", &[field("state")]), Code::IndexExists);
    assert!(s.ok(s.drop_index(id)));
    assert_eq!(s.ok(s.indexes()), []);
}

/// An index without fields is refused.
pub fn of_nothing_is_refused(s: &TestRecords<'_>) {
    assert!(s.wait(s.add_index("t.", &[])).is_err());
    assert_eq!(s.ok(s.indexes()), []);
}
