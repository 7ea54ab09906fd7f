//! The clock: timestamps strictly increase, whatever the wall clock does.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Transaction, Ttl};
use std::time::Duration;

const SECOND_US: u64 = 1_000_000;
const HOUR_US: u64 = 3_600 * SECOND_US;

fn stamp(w: &TestDb) -> u64 {
    w.db().execute(Transaction::new().step(incr("tick", 1))).unwrap().stamp
}

/// Normally, timestamps equal the wall clock.
pub fn stamps_follow_the_clock(w: &mut TestDb) {
    for _ in 0..3 {
        w.pass_ms(7);
        assert_eq!(stamp(w), w.wall_us());
    }
}

/// A wall clock that steps back is not followed.
pub fn stepping_back_is_not_followed(w: &mut TestDb) {
    let before = stamp(w);
    w.clock().set_wall(w.wall_us() - 10 * SECOND_US);
    let after = stamp(w);
    assert!(after > before);
    assert!(after < before + SECOND_US);
}

/// While the wall clock is behind, timestamps follow the monotonic clock.
pub fn behind_follows_the_monotonic_clock(w: &mut TestDb) {
    let before = stamp(w);
    w.clock().set_wall(w.wall_us() - HOUR_US);
    let stepped = stamp(w);
    w.pass(Duration::from_secs(60));
    let later = stamp(w);
    assert!(later - stepped >= 59 * SECOND_US, "{}", later - stepped);
    assert!(later - before <= 61 * SECOND_US, "{}", later - before);
}

/// Times to live elapse while the wall clock is behind.
pub fn times_to_live_run_while_behind(w: &mut TestDb) {
    stamp(w);
    w.clock().set_wall(w.wall_us() - HOUR_US);
    w.cells().set_with("k", 1, Ttl::Millis(5_000)).unwrap();
    w.pass(Duration::from_secs(4));
    assert_eq!(w.cells().get("k").unwrap(), int(1));
    w.pass(Duration::from_secs(2));
    stamp(w);
    assert_eq!(w.cells().get("k").unwrap(), None);
}

/// Once the wall clock has caught up, timestamps follow it again.
pub fn caught_up_is_followed_again(w: &mut TestDb) {
    stamp(w);
    w.clock().set_wall(w.wall_us() - 5 * SECOND_US);
    stamp(w);
    w.clock().set_wall(w.wall_us() + 60 * SECOND_US);
    assert_eq!(stamp(w), w.wall_us());
}

/// A jump ahead of half an hour is followed.
pub fn small_jump_ahead_is_followed(w: &mut TestDb) {
    stamp(w);
    w.clock().set_wall(w.wall_us() + HOUR_US / 2);
    assert_eq!(stamp(w), w.wall_us());
}

/// A jump ahead of two hours is not followed.
pub fn large_jump_ahead_is_not_followed(w: &mut TestDb) {
    let before = stamp(w);
    w.clock().set_wall(w.wall_us() + 2 * HOUR_US);
    let after = stamp(w);
    assert!(after > before && after < before + SECOND_US, "{}", after - before);
    w.pass(Duration::from_secs(60));
    let later = stamp(w);
    assert!(later < before + 62 * SECOND_US, "time goes on from where it was");
    assert!(later >= before + 59 * SECOND_US, "time goes on from where it was");
}

/// A jump that is not followed expires nothing.
pub fn large_jump_expires_nothing(w: &mut TestDb) {
    w.cells().set_with("k", 1, Ttl::Millis(60_000)).unwrap();
    w.clock().set_wall(w.wall_us() + 2 * HOUR_US);
    stamp(w);
    assert_eq!(w.cells().get("k").unwrap(), int(1));
    assert_eq!(w.db().sweep().unwrap(), 0);
}

/// Two hours that really elapse are not a jump.
pub fn hours_that_go_by_are_no_jump(w: &mut TestDb) {
    stamp(w);
    w.pass(Duration::from_secs(7_200));
    assert_eq!(stamp(w), w.wall_us());
}

/// (Disk.) After a reopen, a jump ahead is followed.
/// Requires: Disk.
pub fn large_jump_is_followed_after_reopen(w: &mut TestDb) {
    stamp(w);
    w.clock().set_wall(w.wall_us() + 2 * HOUR_US);
    let held = stamp(w);
    assert!(held < w.wall_us() - HOUR_US);
    w.reopen();
    assert_eq!(stamp(w), w.wall_us());
}

/// (Disk.) After a reopen with the clock set back, timestamps still increase.
/// Requires: Disk.
pub fn stamps_increase_over_a_reopen(w: &mut TestDb) {
    let before = stamp(w);
    w.clock().set_wall(w.wall_us() - 24 * HOUR_US);
    w.reopen();
    let after = stamp(w);
    assert!(after > before && after < before + SECOND_US);
}
