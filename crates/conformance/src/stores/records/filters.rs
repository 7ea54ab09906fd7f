//! Filters of scans. A filter without an operator cannot be expressed, because its type always has one.

use super::TestRecords;
use crate::assertions::{field, fields, filter};
use mainstay_model::{Test, Where};

/// `Eq` and `Ne` compare bytes.
pub fn equality_is_of_bytes(s: &TestRecords<'_>) {
    s.fill(&[("a", "1"), ("b", "1.0"), ("c", "x"), ("d", "")]);
    assert_eq!(s.passing(Test::Eq, "1"), ["a"]);
    assert_eq!(s.passing(Test::Ne, "1"), ["b", "c", "d"]);
    assert_eq!(s.passing(Test::Eq, ""), ["d"]);
    assert_eq!(s.passing(Test::Eq, "X"), [] as [&str; 0]);
}

/// `In` matches any of several byte strings; an empty list matches nothing.
pub fn one_of_several(s: &TestRecords<'_>) {
    s.fill(&[("a", "1"), ("b", "2"), ("c", "1.0"), ("d", "x")]);
    let within = |all: &[&str]| {
        let test = Test::In(all.iter().map(|text| text.as_bytes().to_vec()).collect());
        s.found("", &[Where { field: field("f"), test }])
    };
    assert_eq!(within(&["1", "x", "other"]), ["a", "d"]);
    assert_eq!(within(&[]), [] as [&str; 0]);
}

/// Range filters compare decimals of any length by value, not by bytes.
pub fn numbers_order_numerically(s: &TestRecords<'_>) {
    let numbers = [
        ("a", "-20"),
        ("b", "-3"),
        ("c", "-0.5"),
        ("d", "0"),
        ("e", "1.5"),
        ("f", "9"),
        ("g", "10"),
        ("h", "100.25"),
        ("i", "12345678901234567890123"),
    ];
    s.fill(&numbers);
    for (at, (key, bound)) in numbers.iter().enumerate() {
        let count = |test| s.passing(test, bound).len();
        assert_eq!(count(Test::Lt), at, "before {key}");
        assert_eq!(count(Test::Le), at + 1, "up to {key}");
        assert_eq!(count(Test::Gt), numbers.len() - at - 1, "behind {key}");
        assert_eq!(count(Test::Ge), numbers.len() - at, "from {key}");
    }
}

/// Values that are no decimals are ordered by bytes.
pub fn others_order_by_bytes(s: &TestRecords<'_>) {
    s.fill(&[("a", ""), ("b", "1e3"), ("c", "Z"), ("d", "a"), ("e", "ab"), ("f", "é")]);
    assert_eq!(s.passing(Test::Lt, "a"), ["a", "b", "c"]);
    assert_eq!(s.passing(Test::Le, "a"), ["a", "b", "c", "d"]);
    assert_eq!(s.passing(Test::Gt, "a"), ["e", "f"]);
    assert_eq!(s.passing(Test::Ge, "ab"), ["e", "f"]);
}

/// A range filter matches only values of the same class as its bound, decimal or not.
pub fn ranges_keep_to_the_class_of_their_bound(s: &TestRecords<'_>) {
    s.fill(&[("a", "5"), ("b", "50"), ("c", "x"), ("d", ""), ("e", "5 "), ("f", "+5")]);
    assert_eq!(s.passing(Test::Ge, "0"), ["a", "b"]);
    assert_eq!(s.passing(Test::Lt, "1000"), ["a", "b"]);
    assert_eq!(s.passing(Test::Ge, "!"), ["c", "e", "f"]);
    assert_eq!(s.passing(Test::Lt, "~"), ["c", "d", "e", "f"]);
}

/// A record without the field never matches a filter on it.
pub fn without_the_field_nothing_matches(s: &TestRecords<'_>) {
    s.ok(s.set_field("k", "other", "1".into()));
    for test in [Test::Eq, Test::Ne, Test::Lt, Test::Le, Test::Gt, Test::Ge] {
        for bound in ["", "1", "x"] {
            assert_eq!(s.passing(test, bound), [] as [&str; 0]);
        }
    }
}

/// All filters must match, on one field or on several.
pub fn filters_are_anded(s: &TestRecords<'_>) {
    for n in 0..10 {
        let number = n.to_string();
        let odd = (n % 2).to_string();
        s.ok(s.put(&format!("k{n}"), &fields(&[("n", &number), ("odd", &odd)]), None));
    }
    let between =
        [filter("n", Test::Gt, "2"), filter("n", Test::Le, "8"), filter("odd", Test::Eq, "1")];
    assert_eq!(s.found("k", &between), ["k3", "k5", "k7"]);
    assert_eq!(s.ok(s.count("k", &between)), 3);
}

/// Filters reflect every write immediately.
pub fn follows_every_write(s: &TestRecords<'_>) {
    let count = || s.passing(Test::Eq, "pending").len();
    s.ok(s.put("k", &fields(&[("f", "pending"), ("a", "1")]), None));
    assert_eq!(count(), 1);
    s.ok(s.set_field("k", "f", "done".into()));
    assert_eq!(count(), 0);
    s.ok(s.set_field("k", "f", "pending".into()));
    assert_eq!(count(), 1);
    s.ok(s.clear_field("k", "f"));
    assert_eq!(count(), 0);
    s.ok(s.set_field("k", "f", "pending".into()));
    s.ok(s.replace("k", &fields(&[("a", "1")]), None));
    assert_eq!(count(), 0);
    s.ok(s.set_field("k", "f", "pending".into()));
    s.ok(s.delete("k"));
    assert_eq!(count(), 0);
}
