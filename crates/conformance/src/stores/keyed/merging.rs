//! Merge functions: a result is written only if the state that the function read is still current.
//!
//! Requires: Merged.

use super::{TestSpace, merge, time};
use crate::assertions::refused;
use mainstay_model::{Code, Error, Merging, SpaceOptions, StateWrite, VersionKind, Wrote};

fn merged<'w>(s: &TestSpace<'w>) -> TestSpace<'w> {
    s.declared("merged", SpaceOptions::default().merged())
}

fn merged_in_order<'w>(s: &TestSpace<'w>) -> TestSpace<'w> {
    s.declared("merged in order", SpaceOptions::default().merged().ordered())
}

/// A merge function that appends the new text to the old one. The result shows the order and any loss or
/// duplicate.
fn joining(s: &TestSpace<'_>) -> Merging {
    Merging::new(s.store().clone(), |_, old, new| Ok([old.unwrap_or_default(), new].concat()))
}

/// A plain put or delete in a merged space is refused, and the error mentions the missing function.
pub fn plain_put_is_refused(s: &TestSpace<'_>) {
    let s = merged(s);
    s.refuses(vec![StateWrite::put("k", "v", 1)], Code::InvalidArgument);
    s.refuses(vec![StateWrite::delete("k", 1)], Code::InvalidArgument);
    let error = s.store().put(b"k", b"v", 1.into()).unwrap_err();
    assert!(error.message().contains("function"), "{error}");
}

/// A put is merged with the current state; a repeated or older put is stale.
pub fn what_is_put_is_merged(s: &TestSpace<'_>) {
    let s = merged(s);
    let joined = joining(&s);
    for (value, version, wrote) in [
        ("a", 1, Wrote::Applied),
        ("b", 3, Wrote::Applied),
        ("b", 3, Wrote::Stale),
        ("c", 2, Wrote::Stale),
        ("d", 4, Wrote::Applied),
    ] {
        assert_eq!(joined.put(b"k", value.as_bytes(), version.into()), Ok(wrote), "{value}");
    }
    s.holds("k", "abd", 4);
}

/// A deletion leaves a tombstone, and the next put starts without an old value.
pub fn deletion_begins_anew(s: &TestSpace<'_>) {
    let s = merged(s);
    let joined = joining(&s);
    joined.put(b"k", b"a", 1.into()).unwrap();
    assert_eq!(joined.delete(b"k", 3.into()), Ok(Wrote::Applied));
    s.is_deleted("k", 3);
    assert_eq!(joined.put(b"k", b"late", 2.into()), Ok(Wrote::Stale));
    assert_eq!(joined.put(b"k", b"b", 4.into()), Ok(Wrote::Applied));
    s.holds("k", "b", 4);
}

/// If the function fails, nothing is written and its error is returned.
pub fn failing_function_changes_nothing(s: &TestSpace<'_>) {
    let s = merged(s);
    joining(&s).put(b"k", b"a", 1.into()).unwrap();
    let failing = Merging::new(s.store().clone(), |_, _, _| {
        Err(Error::new(Code::InvalidValue, "cannot be merged"))
    });
    s.unchanged(|| refused(failing.put(b"k", b"b", 2.into()), Code::InvalidValue));
}

/// A merge that read another version than the current one fails with `Moved`.
pub fn moved_changes_nothing(s: &TestSpace<'_>) {
    let s = merged(s);
    assert_eq!(s.write(vec![merge("k", Some("a"), 3, None, &[])]), [Wrote::Applied]);
    for read in [None, Some(2), Some(4)] {
        let write = merge("k", Some("b"), 5, read, &[]);
        assert_eq!(s.unchanged(|| s.write(vec![write])), [Wrote::Moved], "{read:?}");
    }
    assert_eq!(s.write(vec![merge("k", Some("ab"), 5, Some(3), &[])]), [Wrote::Applied]);
    s.holds("k", "ab", 5);
}

/// A merge that fails with `Moved` does not create the space.
pub fn moved_makes_no_space(s: &TestSpace<'_>) {
    assert_eq!(s.write(vec![merge("k", Some("a"), 3, Some(2), &[])]), [Wrote::Moved]);
    s.is_undeclared();
    assert_eq!(s.put("k", "v", time(1, 1)), Wrote::Applied);
}

/// A merge after a deletion must have read the tombstone's version.
pub fn deletions_are_read(s: &TestSpace<'_>) {
    let s = merged(s);
    s.write(vec![merge("k", None, 3, None, &[])]);
    s.is_deleted("k", 3);
    assert_eq!(s.write(vec![merge("k", Some("b"), 5, None, &[])]), [Wrote::Moved]);
    assert_eq!(s.write(vec![merge("k", Some("b"), 5, Some(3), &[])]), [Wrote::Applied]);
    s.holds("k", "b", 5);
}

/// A merge write also works in a space that is not declared as merged.
pub fn works_where_newest_wins(s: &TestSpace<'_>) {
    s.put("k", "a", 3);
    assert_eq!(s.write(vec![merge("k", Some("ab"), 5, Some(3), &[])]), [Wrote::Applied]);
    assert_eq!(s.put("k", "late", 4), Wrote::Stale);
    s.holds("k", "ab", 5);
}

/// The first merged version fixes the version kind.
pub fn kind_is_checked(s: &TestSpace<'_>) {
    s.write(vec![merge("k", Some("a"), 3, None, &[])]);
    assert_eq!(s.info().options.versions, Some(VersionKind::U64));
    let of_time = StateWrite::Merge {
        key: b"k".to_vec(),
        value: None,
        version: time(9, 9),
        read: None,
        settles: vec![],
    };
    s.refuses(vec![of_time], Code::InvalidVersion);
}

/// A merge is refused if its version is not newer than its inputs, or if its versions have two kinds.
pub fn nonsense_is_refused(s: &TestSpace<'_>) {
    let s = merged(s);
    s.write(vec![merge("k", Some("a"), 3, None, &[])]);
    let two_kinds = StateWrite::Merge {
        key: b"k".to_vec(),
        value: None,
        version: 9.into(),
        read: Some(time(1, 1)),
        settles: vec![],
    };
    s.refuses(vec![two_kinds], Code::InvalidVersion);
    s.refuses(vec![merge("k", None, 2, Some(3), &[])], Code::InvalidVersion);
    s.refuses(vec![merge("k", None, 3, Some(3), &[])], Code::InvalidVersion);
    s.refuses(vec![merge("k", None, 4, Some(3), &[5])], Code::InvalidVersion);
}

/// A merge below the frontier is stale.
pub fn closed_is_stale(s: &TestSpace<'_>) {
    let s = merged(s);
    let joined = joining(&s);
    joined.put(b"k", b"a", 1.into()).unwrap();
    assert_eq!(s.seal(5), 0);
    assert_eq!(s.unchanged(|| joined.put(b"k", b"late", 4.into())), Ok(Wrote::Stale));
    assert_eq!(s.unchanged(|| joined.put(b"new", b"late", 4.into())), Ok(Wrote::Stale));
    assert_eq!(joined.put(b"k", b"b", 5.into()), Ok(Wrote::Applied));
    s.holds("k", "ab", 5);
}

/// In an ordered space, puts wait without the function, but sealing them needs it.
/// Requires: Ordered.
pub fn unsettled_is_a_conflict(s: &TestSpace<'_>) {
    let s = merged_in_order(s);
    assert_eq!(s.put("k", "b", 2), Wrote::Waiting);
    assert_eq!(s.delete("k", 5), Wrote::Waiting);
    s.unchanged(|| refused(s.store().seal(3.into()), Code::Conflict));
    assert_eq!(s.seal(2), 0);
    assert_eq!(s.info().frontier, Some(2.into()));
    assert_eq!(s.unchanged(|| s.seal(2)), 0);
}

/// In an ordered space, waiting writes are merged in version order, regardless of arrival.
/// Requires: Ordered.
pub fn sealed_in_order(s: &TestSpace<'_>) {
    let s = merged_in_order(s);
    let joined = joining(&s);
    for (value, version) in [("c", 3), ("a", 1), ("e", 6), ("b", 2)] {
        assert_eq!(joined.put(b"k", value.as_bytes(), version.into()), Ok(Wrote::Waiting));
    }
    joined.put(b"other", b"x", 2.into()).unwrap();
    assert_eq!(joined.put(b"k", b"other", 3.into()), Ok(Wrote::Stale));
    assert_eq!(joined.seal(4.into()), Ok(4));
    s.holds("k", "abc", 3);
    s.holds("other", "x", 2);
    assert_eq!(joined.put(b"k", b"late", 3.into()), Ok(Wrote::Stale));
    joined.delete(b"k", 5.into()).unwrap();
    assert_eq!(joined.seal(9.into()), Ok(2));
    s.holds("k", "e", 6);
    assert_eq!(s.waiting(), []);
}

/// A merge removes the waiting writes that it settles. Settling a version that does not wait fails with
/// `Moved`.
/// Requires: Ordered.
pub fn settles_what_waits(s: &TestSpace<'_>) {
    let s = merged_in_order(s);
    s.put("k", "a", 1);
    s.put("k", "b", 2);
    s.put("other", "x", 1);
    let of_another = merge("k", Some("ab"), 3, None, &[1, 3]);
    assert_eq!(s.unchanged(|| s.write(vec![of_another])), [Wrote::Moved]);
    assert_eq!(s.write(vec![merge("k", Some("ab"), 2, None, &[1, 2])]), [Wrote::Applied]);
    assert_eq!(s.waits(), [("other".to_owned(), 1.into())]);
    s.holds("k", "ab", 2);
    let again = merge("k", Some("abab"), 3, Some(2), &[2]);
    assert_eq!(s.unchanged(|| s.write(vec![again])), [Wrote::Moved]);
}

/// `AllSettled` fails the whole batch if a waiting write below the version was not an input to a merge
/// of the batch.
/// Requires: Ordered, Atomic.
pub fn unseen_is_a_conflict(s: &TestSpace<'_>) {
    let s = merged_in_order(s);
    for version in [1, 2, 3] {
        s.put("k", "v", version);
    }
    s.put("other", "v", 2);
    let all_settled = |below: u64| StateWrite::AllSettled { below: below.into() };
    let k = |settles: &[u64]| merge("k", Some("made"), 3, None, settles);
    let other = || merge("other", Some("made"), 2, None, &[2]);
    s.refuses(vec![k(&[1, 2, 3]), all_settled(3)], Code::Conflict);
    s.refuses(vec![all_settled(3), k(&[2, 3]), other()], Code::Conflict);
    s.refuses(vec![all_settled(2)], Code::Conflict);
    s.unchanged(|| assert_eq!(s.write(vec![all_settled(1)]), [Wrote::Applied]));
    let wrote = s.write(vec![k(&[1, 2, 3]), other(), all_settled(3)]);
    assert_eq!(wrote, [Wrote::Applied; 3]);
    assert_eq!(s.waiting(), []);
    s.holds("k", "made", 3);
}

/// A waiting write that is older than the state can still be settled, and the state stays the same.
/// Requires: Ordered.
pub fn overtaken_is_settled(s: &TestSpace<'_>) {
    let s = merged_in_order(s);
    s.put("k", "late", 3);
    s.put("k", "late", 4);
    s.write(vec![merge("k", Some("newer"), 7, None, &[])]);
    let settles = || merge("k", Some("nonsense"), 7, Some(7), &[3]);
    assert_eq!(s.write(vec![settles()]), [Wrote::Applied]);
    s.holds("k", "newer", 7);
    assert_eq!(s.waits(), [("k".to_owned(), 4.into())]);
    assert_eq!(s.unchanged(|| s.write(vec![settles()])), [Wrote::Moved]);
}

/// `Merging::seal` also settles waiting writes that are older than the state.
/// Requires: Ordered.
pub fn overtaken_is_sealed(s: &TestSpace<'_>) {
    let s = merged_in_order(s);
    s.put("k", "late", 3);
    s.put("other", "x", 1);
    s.write(vec![merge("k", Some("newer"), 7, None, &[])]);
    assert_eq!(joining(&s).seal(5.into()), Ok(2));
    s.holds("k", "newer", 7);
    s.holds("other", "x", 1);
    assert_eq!(s.waiting(), []);
}

/// The results for many keys can exceed the size of one command, so sealing settles them in several
/// batches.
/// Requires: Ordered.
pub fn large_states_are_settled_in_pieces(s: &TestSpace<'_>) {
    const KEYS: usize = 12;
    const STATE_BYTES: usize = 11 << 20;
    let s = merged_in_order(s);
    let blown_up = Merging::new(s.store().clone(), |_, old, new| {
        let mut state = old.map_or_else(|| vec![0; STATE_BYTES], <[u8]>::to_vec);
        state[0] += new[0];
        Ok(state)
    });
    for version in [1, 12] {
        for key in 0..KEYS {
            blown_up.put(format!("k{key}").as_bytes(), &[1], version.into()).unwrap();
        }
    }
    for (frontier, sum) in [(10, 1), (20, 2)] {
        assert_eq!(blown_up.seal(frontier.into()), Ok(KEYS as u64));
        assert_eq!(s.waits().len(), (2 - sum) * KEYS);
        for key in 0..KEYS {
            let state = s.store().get(format!("k{key}").as_bytes()).unwrap().unwrap();
            assert_eq!((state.value.len(), usize::from(state.value[0])), (STATE_BYTES, sum));
        }
    }
}
