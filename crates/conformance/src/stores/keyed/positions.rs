//! Positions: the consumed offsets of sources, stored with the states derived from them.

use super::TestSpace;
use mainstay_model::{Code, StateWrite, Wrote};

/// A position only rises.
pub fn only_rise(s: &TestSpace<'_>) {
    assert_eq!(s.advance("orders", 7), Wrote::Applied);
    for position in [0, 6, 7] {
        assert_eq!(s.unchanged(|| s.advance("orders", position)), Wrote::Stale);
    }
    assert_eq!(s.advance("orders", 8), Wrote::Applied);
    assert_eq!(s.positions()["orders"], 8);
}

/// Zero and the greatest number are valid positions.
pub fn zero_is_one(s: &TestSpace<'_>) {
    assert_eq!(s.advance("orders", 0), Wrote::Applied);
    assert_eq!(s.advance("orders", 0), Wrote::Stale);
    assert_eq!(s.advance("orders", u64::MAX), Wrote::Applied);
    assert_eq!(s.positions()["orders"], u64::MAX);
}

/// Sources have independent positions and are listed by name.
pub fn sources_are_independent(s: &TestSpace<'_>) {
    for (source, position) in [("b", 2), ("a", 9), ("a/1", 4), ("é", 1)] {
        s.advance(source, position);
    }
    let all: Vec<(String, u64)> = s.positions().into_iter().collect();
    let expected = [("a", 9), ("a/1", 4), ("b", 2), ("é", 1)];
    assert_eq!(all, expected.map(|(source, position)| (source.to_owned(), position)));
}

/// A source name follows the same rules as all names.
pub fn names_are_checked(s: &TestSpace<'_>) {
    let long = "s".repeat(1_025);
    for name in ["", "a\0b", "_mainstay/x", &long] {
        s.refuses(vec![StateWrite::advance(name, 1)], Code::InvalidName);
    }
    assert_eq!(s.advance(&"s".repeat(1_024), 1), Wrote::Applied);
}

/// A source and a key with the same name are independent.
pub fn are_no_states(s: &TestSpace<'_>) {
    s.advance("k", 3);
    s.is_absent("k");
    assert_eq!(s.put("k", "v", 1), Wrote::Applied);
    assert_eq!(s.positions()["k"], 3);
    assert_eq!(s.states().len(), 1);
}
