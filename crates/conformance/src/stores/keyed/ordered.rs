//! Ordered spaces: a write waits until its version is sealed.
//!
//! Requires: Ordered.

use super::{TestSpace, merge, text, time};
use crate::assertions::refused;
use mainstay_model::{Code, SpaceOptions, StateWrite, VersionKind, WaitingEntry, Wrote};

fn ordered<'w>(s: &TestSpace<'w>) -> TestSpace<'w> {
    s.declared("ordered", SpaceOptions::default().ordered())
}

/// A put waits and is not visible as a state.
pub fn put_waits(s: &TestSpace<'_>) {
    let s = ordered(s);
    assert_eq!(s.put("k", "v", 5), Wrote::Waiting);
    s.is_absent("k");
    assert_eq!(s.states(), []);
    let waiting =
        WaitingEntry { key: b"k".to_vec(), version: 5.into(), value: Some(b"v".to_vec()) };
    assert_eq!(s.waiting(), [waiting]);
    assert_eq!(s.info().options.versions, Some(VersionKind::U64));
}

/// A write at the greatest version is refused, because no frontier could ever seal it.
pub fn last_version_of_all_is_refused(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.put("k", "v", u64::MAX - 1);
    s.unchanged(|| refused(s.store().put(b"k", b"v", u64::MAX.into()), Code::InvalidVersion));
    s.seal(u64::MAX);
    s.holds("k", "v", u64::MAX - 1);
    let times = SpaceOptions::default().ordered().versions(VersionKind::Time);
    let s = s.declared("times", times);
    refused(s.store().put(b"k", b"v", time(u64::MAX, u64::MAX)), Code::InvalidVersion);
    assert_eq!(s.put("k", "v", time(u64::MAX, u64::MAX - 1)), Wrote::Waiting);
}

/// A deletion waits like a put.
pub fn deletion_waits(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.put("k", "v", 1);
    s.seal(2);
    assert_eq!(s.delete("k", 4), Wrote::Waiting);
    s.holds("k", "v", 1);
    assert_eq!(s.waiting(), [WaitingEntry { key: b"k".to_vec(), version: 4.into(), value: None }]);
}

/// Several versions of a key can wait, sorted by version and then by key.
pub fn wait_in_order_of_versions_then_keys(s: &TestSpace<'_>) {
    let s = ordered(s);
    for (key, version) in [("b", 300), ("a", 300), ("z", 2), ("b", 1), ("ab", 300)] {
        assert_eq!(s.put(key, "v", version), Wrote::Waiting);
    }
    let expected = [("b", 1), ("z", 2), ("a", 300), ("ab", 300), ("b", 300)];
    assert_eq!(s.waits(), expected.map(|(key, version)| (key.to_owned(), version.into())));
}

/// A second write of the same key and version is stale, and the first one is kept.
pub fn told_twice_waits_once(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.put("k", "first", 5);
    assert_eq!(s.unchanged(|| s.put("k", "first", 5)), Wrote::Stale);
    assert_eq!(s.unchanged(|| s.put("k", "second", 5)), Wrote::Stale);
    assert_eq!(s.unchanged(|| s.delete("k", 5)), Wrote::Stale);
    s.seal(6);
    s.holds("k", "first", 5);
}

/// A write below the frontier is stale; a write at the frontier is accepted.
pub fn below_the_frontier_is_stale(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.seal(5);
    assert_eq!(s.unchanged(|| s.put("k", "late", 4)), Wrote::Stale);
    assert_eq!(s.unchanged(|| s.delete("k", 4)), Wrote::Stale);
    assert_eq!(s.put("k", "v", 5), Wrote::Waiting);
}

/// A sealed write that is repeated is stale.
pub fn sealed_and_told_again_is_stale(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.put("k", "v", 5);
    s.seal(9);
    assert_eq!(s.unchanged(|| s.put("k", "v", 5)), Wrote::Stale);
    assert_eq!(s.waiting(), []);
}

/// A write that is not newer than the applied state is stale, even if its version is not sealed.
/// Requires: Merged.
pub fn not_newer_than_applied_is_stale(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.write(vec![merge("k", Some("v"), 7, None, &[])]);
    assert_eq!(s.put("k", "late", 6), Wrote::Stale);
    assert_eq!(s.put("k", "late", 7), Wrote::Stale);
    assert_eq!(s.put("k", "w", 8), Wrote::Waiting);
}

/// A write in a batch sees earlier waiting writes of the batch.
/// Requires: Atomic.
pub fn batch_sees_what_waits(s: &TestSpace<'_>) {
    let s = ordered(s);
    let put = |value: &str| StateWrite::put("k", value, 5);
    assert_eq!(s.write(vec![put("first"), put("second")]), [Wrote::Waiting, Wrote::Stale]);
    s.refuses(vec![StateWrite::put("k", "v", 6), StateWrite::put("", "v", 6)], Code::InvalidName);
    s.seal(6);
    s.holds("k", "first", 5);
}

/// Waiting writes can be listed below a version, with a limit.
pub fn waiting_is_told_in_pieces(s: &TestSpace<'_>) {
    let s = ordered(s);
    for version in [1, 2, 3, 4] {
        s.put("k", "v", version);
    }
    let told = |below: Option<u64>, limit| {
        let entries = s.store().waiting(below.map(Into::into), limit).unwrap();
        entries.into_iter().map(|entry| entry.version).collect::<Vec<_>>()
    };
    assert_eq!(told(None, 2), [1.into(), 2.into()]);
    assert_eq!(told(Some(3), 10), [1.into(), 2.into()]);
    assert_eq!(told(Some(1), 10), []);
    assert_eq!(told(Some(9), 10).len(), 4);
    for limit in [0, 100_001] {
        refused(s.store().waiting(None, limit), Code::InvalidLimit);
    }
}

/// Waiting writes have the version kind of the space.
pub fn kind_is_checked(s: &TestSpace<'_>) {
    let s = ordered(s);
    s.put("k", "v", 5);
    s.unchanged(|| {
        refused(s.store().put(b"k", b"v", time(5, 0)), Code::InvalidVersion);
        refused(s.store().delete(b"k", time(5, 0)), Code::InvalidVersion);
    });
}

/// Keys of any bytes can wait and are applied unchanged.
pub fn keys_of_any_bytes_wait(s: &TestSpace<'_>) {
    let s = ordered(s);
    let keys: [&[u8]; 5] = [&[0], &[0, 0], &[0, 0xff], &[1], &[0xff]];
    for key in keys.into_iter().rev() {
        s.store().put(key, key, 3.into()).unwrap();
    }
    let waiting: Vec<Vec<u8>> = s.waiting().into_iter().map(|entry| entry.key).collect();
    assert_eq!(waiting, keys);
    assert_eq!(s.seal(4), 5);
    assert_eq!(s.states(), keys.map(|key| (text(key), text(key))));
}
