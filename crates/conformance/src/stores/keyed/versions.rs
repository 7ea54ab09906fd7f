//! Versioned writes: a newer version is applied; any other is a no-op that returns `Stale`.

use super::{TestSpace, time};
use crate::assertions::refused;
use mainstay_model::{Code, Kept, State, VersionKind, Wrote};

/// The first version of a key and each newer one are applied.
pub fn newer_is_applied(s: &TestSpace<'_>) {
    s.in_both_kinds(|s, at| {
        for number in [3, 4, 5, 19, 20] {
            assert_eq!(s.put("k", &format!("v{number}"), at(number)), Wrote::Applied);
            s.holds("k", &format!("v{number}"), at(number));
        }
    });
}

/// A repeated write changes nothing, for example a retry after a crash.
pub fn told_again_is_stale(s: &TestSpace<'_>) {
    s.in_both_kinds(|s, at| {
        s.put("k", "v", at(7));
        assert_eq!(s.unchanged(|| s.put("k", "v", at(7))), Wrote::Stale);
    });
}

/// The first value of a version is kept; another value with the same version is stale.
pub fn equal_with_another_value_is_stale(s: &TestSpace<'_>) {
    s.in_both_kinds(|s, at| {
        s.put("k", "first", at(7));
        assert_eq!(s.unchanged(|| s.put("k", "second", at(7))), Wrote::Stale);
        s.holds("k", "first", at(7));
    });
}

/// An older version is stale.
pub fn older_is_stale(s: &TestSpace<'_>) {
    s.in_both_kinds(|s, at| {
        s.put("k", "v", at(12));
        for number in [0, 4, 11] {
            assert_eq!(s.unchanged(|| s.put("k", "late", at(number))), Wrote::Stale);
        }
    });
}

/// Keys have independent versions.
pub fn keys_are_independent(s: &TestSpace<'_>) {
    s.put("a", "new", 9);
    assert_eq!(s.put("b", "old", 1), Wrote::Applied);
    assert_eq!(s.put("ab", "older", 0), Wrote::Applied);
    s.holds("a", "new", 9);
    s.holds("b", "old", 1);
    s.holds("ab", "older", 0);
}

/// Zero and the greatest number are valid versions.
pub fn lowest_and_highest(s: &TestSpace<'_>) {
    assert_eq!(s.put("k", "v", 0), Wrote::Applied);
    assert_eq!(s.put("k", "w", 0), Wrote::Stale);
    for number in [1 << 31, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX] {
        assert_eq!(s.put("k", "v", number), Wrote::Applied, "{number}");
    }
    assert_eq!(s.put("k", "w", u64::MAX), Wrote::Stale);
    assert_eq!(s.put("k", "w", 255), Wrote::Stale);
}

/// Epochs are compared before rounds.
pub fn epochs_come_before_rounds(s: &TestSpace<'_>) {
    assert_eq!(s.put("k", "a", time(1, 900)), Wrote::Applied);
    assert_eq!(s.put("k", "b", time(2, 0)), Wrote::Applied);
    assert_eq!(s.put("k", "c", time(1, 901)), Wrote::Stale);
    assert_eq!(s.put("k", "d", time(2, 256)), Wrote::Applied);
    assert_eq!(s.put("k", "e", time(2, 255)), Wrote::Stale);
    s.holds("k", "d", time(2, 256));
}

/// The first version fixes the version kind of the space.
pub fn first_one_fixes_the_kind(s: &TestSpace<'_>) {
    s.put("k", "v", 5);
    assert_eq!(s.info().options.versions, Some(VersionKind::U64));
    s.unchanged(|| {
        refused(s.store().put(b"other", b"v", time(9, 9)), Code::InvalidVersion);
        refused(s.store().delete(b"k", time(9, 9)), Code::InvalidVersion);
        refused(s.store().seal(time(9, 9)), Code::InvalidVersion);
        refused(s.store().waiting(Some(time(9, 9)), 10), Code::InvalidVersion);
    });
    let times = s.other("times");
    times.delete("k", time(1, 2));
    assert_eq!(times.info().options.versions, Some(VersionKind::Time));
    times.unchanged(|| refused(times.store().put(b"k", b"v", 9.into()), Code::InvalidVersion));
}

/// An empty value is a state.
pub fn empty_state_is_one(s: &TestSpace<'_>) {
    assert_eq!(s.put("k", "", 1), Wrote::Applied);
    s.holds("k", "", 1);
    assert_eq!(s.states(), [("k".to_owned(), String::new())]);
}

/// Keys and values can be any bytes.
pub fn any_bytes_survive(s: &TestSpace<'_>) {
    let all: Vec<u8> = (0..=255).collect();
    let keys: [&[u8]; 7] = [&[0], &[0, 0], &[0, 0xff], &[0xff], &[0xff, 0xff], b"\0key", &all];
    for key in keys {
        s.store().put(key, &[key, &all].concat(), 1.into()).unwrap();
    }
    for key in keys {
        let state = State { value: [key, &all].concat(), version: 1.into() };
        assert_eq!(s.store().get(key), Ok(Some(state)), "{key:?}");
    }
}

/// `look` returns one result per requested key, in the requested order, even for a repeated key.
pub fn look_answers_as_asked(s: &TestSpace<'_>) {
    s.put("a", "1", 1);
    s.delete("b", 2);
    let found = s.store().look(&[b"b", b"none", b"a", b"b"]).unwrap();
    let a = Kept { version: 1.into(), value: Some(b"1".to_vec()) };
    let b = Kept { version: 2.into(), value: None };
    assert_eq!(found, [Some(b.clone()), None, Some(a), Some(b)]);
    assert_eq!(s.store().look(&[]), Ok(vec![]));
}

/// An undeclared space is empty, and reading does not create it.
pub fn nothing_is_read_of_nothing(s: &TestSpace<'_>) {
    assert_eq!(s.store().get(b"k"), Ok(None));
    assert_eq!(s.states(), []);
    assert_eq!(s.waiting(), []);
    assert_eq!(s.positions().len(), 0);
    s.snapshot();
    s.is_undeclared();
}
