//! `write`: a batch of writes, all or nothing.

use super::{TestSpace, time};
use mainstay_model::{Code, StateWrite, Version, Wrote};

fn put(key: &str, value: &str, version: impl Into<Version>) -> StateWrite {
    StateWrite::put(key, value, version)
}

/// Each write has its own result.
/// Requires: Atomic.
pub fn answers_per_position(s: &TestSpace<'_>) {
    s.put("b", "v", 5);
    let wrote = s.write(vec![
        put("a", "v", 1),
        put("b", "late", 4),
        StateWrite::delete("b", 6),
        StateWrite::advance("source", 3),
        StateWrite::advance("source", 3),
    ]);
    use Wrote::{Applied, Stale};
    assert_eq!(wrote, [Applied, Stale, Applied, Applied, Stale]);
    s.holds("a", "v", 1);
    s.is_deleted("b", 6);
}

/// A write sees the effects of earlier writes of the batch.
/// Requires: Atomic.
pub fn sees_what_is_before(s: &TestSpace<'_>) {
    let writes = vec![
        put("k", "one", 1),
        put("k", "three", 3),
        put("k", "two", 2),
        StateWrite::delete("k", 3),
        StateWrite::delete("k", 4),
        put("k", "five", 5),
    ];
    use Wrote::{Applied, Stale};
    assert_eq!(s.write(writes), [Applied, Applied, Stale, Stale, Applied, Applied]);
    s.holds("k", "five", 5);
}

/// An invalid write aborts the whole batch, at any position.
/// Requires: Atomic.
pub fn bad_write_writes_nothing(s: &TestSpace<'_>) {
    s.put("k", "v", 1);
    let good = || put("k", "w", 2);
    let place = || StateWrite::advance("source", 9);
    s.refuses(vec![good(), place(), put("", "v", 3)], Code::InvalidName);
    s.refuses(vec![put("", "v", 3), good(), place()], Code::InvalidName);
    s.refuses(vec![place(), good(), StateWrite::advance("", 3)], Code::InvalidName);
    s.holds("k", "v", 1);
}

/// A version of another kind than the space's aborts the whole batch.
/// Requires: Atomic.
pub fn other_kind_writes_nothing(s: &TestSpace<'_>) {
    s.put("k", "v", 1);
    s.refuses(vec![put("k", "w", 2), put("a", "v", time(1, 1))], Code::InvalidVersion);
    s.holds("k", "v", 1);
    s.is_absent("a");
}

/// A batch with two version kinds creates no space and fixes no kind.
/// Requires: Atomic.
pub fn two_kinds_make_nothing(s: &TestSpace<'_>) {
    s.refuses(vec![put("a", "v", 1), put("b", "v", time(1, 1))], Code::InvalidVersion);
    s.is_undeclared();
    assert_eq!(s.put("b", "v", time(1, 1)), Wrote::Applied);
}

/// States and the position they belong to are written together.
/// Requires: Atomic.
pub fn positions_go_with_states(s: &TestSpace<'_>) {
    s.write(vec![put("k", "v", 1), StateWrite::advance("orders", 17)]);
    s.refuses(vec![StateWrite::advance("orders", 18), put("", "v", 2)], Code::InvalidName);
    assert_eq!(s.positions()["orders"], 17);
}

/// An empty batch succeeds and creates no space.
pub fn of_nothing_is_nothing(s: &TestSpace<'_>) {
    assert_eq!(s.write(vec![]), []);
    s.is_undeclared();
}

/// A batch of only stale writes changes nothing.
/// Requires: Atomic.
pub fn told_again_changes_nothing(s: &TestSpace<'_>) {
    let writes =
        || vec![put("a", "v", 1), StateWrite::delete("b", 2), StateWrite::advance("source", 3)];
    assert!(s.write(writes()).into_iter().all(Wrote::took_effect));
    let again = s.unchanged(|| s.write(writes()));
    assert!(again.iter().all(|wrote| *wrote == Wrote::Stale), "{again:?}");
}

/// A batch can have many writes, to one key and to many.
/// Requires: Atomic.
pub fn of_many(s: &TestSpace<'_>) {
    let keys = |n: u64| format!("k{}", n % 500);
    let writes = (0..2_000).map(|n| put(&keys(n), &n.to_string(), n)).collect();
    assert!(s.write(writes).into_iter().all(|wrote| wrote == Wrote::Applied));
    for n in 1_500..2_000 {
        s.holds(&keys(n), &n.to_string(), n);
    }
    assert_eq!(s.states().len(), 500);
}
