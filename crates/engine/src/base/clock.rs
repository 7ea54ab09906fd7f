//! Timestamps: strictly increasing stamps from a clock that may step back or jump.

use mainstay_model::Stamp;
pub use mainstay_model::{Clock, ManualClock, SystemClock};
use std::sync::Arc;

/// A reading of the wall clock is rejected if it runs ahead of the monotonic clock by more than this.
const JUMP_LIMIT_US: u64 = 3_600_000_000;

/// Stamps and the wall clock count as equal while they differ by at most this.
const TOLERANCE_US: u64 = 60_000_000;

/// The offset is updated only when it has drifted by more than this, so that time conversions stay stable.
const DRIFT_US: u64 = 1_000_000;

/// Generates strictly increasing timestamps from a clock that may step back or jump.
///
/// ```text
///   wall behind the last stamp             -> last stamp + elapsed monotonic time
///   wall over an hour ahead of it          -> the same, and the jump is reported until confirmed
///   at open: ahead by more than a limit    -> the same
///   otherwise                              -> wall
/// ```
///
/// While stamps and the wall clock differ, wall-clock times given by callers are shifted by the offset.
pub struct Stamper {
    clock: Arc<dyn Clock>,
    last: Stamp,
    /// Maximum distance of the first reading from the last stamp: the longest time the database may have been
    /// closed.
    limit_us: Option<u64>,
    /// The newest accepted reading, and the monotonic clock at that moment.
    anchor: Option<(u64, u64)>,
    jump: Option<u64>,
    /// The offset that converts a wall-clock time to a stamp.
    wall_offset_us: i64,
}

impl Stamper {
    /// Continues after the last stamp assigned. The first reading is accepted up to `limit_us` ahead of it.
    pub fn new(clock: Arc<dyn Clock>, last: Stamp, limit_us: Option<u64>) -> Stamper {
        Stamper { clock, last, limit_us, anchor: None, jump: None, wall_offset_us: 0 }
    }

    /// Returns the current time on the stamp scale, and the monotonic clock. Assigns no stamp.
    pub fn now(&mut self) -> (Stamp, u64) {
        let wall = self.clock.wall_us();
        let monotonic = self.clock.monotonic_us();
        let (steady, limit_us) = match self.anchor {
            Some((seen, at)) => {
                (seen.saturating_add(monotonic.saturating_sub(at)), Some(JUMP_LIMIT_US))
            }
            // A new database has no stamp yet that a clock could disagree with.
            None => (self.last, self.limit_us.filter(|_| self.last > 0)),
        };
        let is_jump = limit_us.is_some_and(|limit_us| wall > steady.saturating_add(limit_us));
        self.jump = is_jump.then(|| wall - steady);
        let seen = self.anchor.map_or(self.last, |(seen, _)| seen);
        let now = if is_jump || wall < seen { steady } else { wall };
        self.anchor = Some((now, monotonic));
        self.note_offset(now, wall);
        (now, monotonic)
    }

    fn note_offset(&mut self, now: Stamp, wall: u64) {
        let offset_us = (now as i64).saturating_sub(wall as i64);
        if offset_us.unsigned_abs() <= TOLERANCE_US {
            self.wall_offset_us = 0;
        } else if offset_us.abs_diff(self.wall_offset_us) > DRIFT_US {
            self.wall_offset_us = offset_us;
        }
    }

    /// The offset that converts a wall-clock time to a stamp: zero unless the two differ by over a minute.
    pub fn wall_offset_us(&self) -> i64 {
        self.wall_offset_us
    }

    /// Assigns the next stamp, at or after `now`.
    #[inline]
    pub fn stamp(&mut self, now: Stamp) -> Stamp {
        self.last = now.max(self.last + 1);
        self.last
    }

    /// Takes back the stamps of transactions that were undone.
    pub fn rewind(&mut self, last: Stamp) {
        self.last = last;
    }

    /// The last stamp assigned.
    pub fn last(&self) -> Stamp {
        self.last
    }

    /// Microseconds by which the wall clock is ahead, while its reading is rejected.
    pub fn jump_us(&self) -> Option<u64> {
        self.jump
    }

    /// Accepts the current reading of the wall clock.
    pub fn confirm(&mut self) {
        self.anchor = None;
        self.jump = None;
        self.limit_us = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn stamper(wall: u64) -> (Arc<ManualClock>, Stamper) {
        let clock = ManualClock::new(wall);
        (clock.clone(), Stamper::new(clock, 0, None))
    }

    fn next(stamper: &mut Stamper) -> Stamp {
        let (now, _) = stamper.now();
        stamper.stamp(now)
    }

    #[test]
    fn stamps_rise_while_the_clock_stands() {
        let (_, mut stamper) = stamper(100);
        assert_eq!([next(&mut stamper), next(&mut stamper), next(&mut stamper)], [100, 101, 102]);
    }

    #[test]
    fn a_clock_that_steps_back_is_followed_by_monotonic_time() {
        let (clock, mut stamper) = stamper(1_000_000);
        assert_eq!(next(&mut stamper), 1_000_000);
        clock.set_wall(10);
        clock.advance(Duration::from_micros(500));
        assert_eq!(next(&mut stamper), 1_000_500);
        clock.set_wall(2_000_000);
        assert_eq!(next(&mut stamper), 2_000_000);
    }

    #[test]
    fn a_jump_of_two_hours_is_followed_only_when_confirmed() {
        let (clock, mut stamper) = stamper(1_000_000);
        next(&mut stamper);
        clock.set_wall(7_201_000_000);
        clock.advance(Duration::from_micros(5));
        assert_eq!(next(&mut stamper), 1_000_005);
        assert_eq!(stamper.jump_us(), Some(7_200_000_000));
        stamper.confirm();
        assert_eq!(next(&mut stamper), 7_201_000_005);
    }

    #[test]
    fn a_clock_far_ahead_at_opening_is_followed_only_when_confirmed() {
        let [day, last] = [86_400_000_000, 1_000_000_000];
        let open = |wall| {
            let clock = ManualClock::new(wall);
            (clock.clone(), Stamper::new(clock, last, Some(30 * day)))
        };
        let (_, mut stamper) = open(last + 29 * day);
        assert_eq!(next(&mut stamper), last + 29 * day, "it was closed for so long");
        let (clock, mut stamper) = open(last + 3650 * day);
        assert_eq!(next(&mut stamper), last + 1);
        assert_eq!(stamper.jump_us(), Some(3650 * day));
        assert_eq!(stamper.wall_offset_us(), -(3650 * day as i64));
        clock.advance(Duration::from_secs(7));
        assert_eq!(next(&mut stamper), last + 7_000_000, "time goes by");
        stamper.confirm();
        assert_eq!(next(&mut stamper), last + 3650 * day + 7_000_000);
        assert_eq!((stamper.jump_us(), stamper.wall_offset_us()), (None, 0));
    }

    #[test]
    fn the_distance_to_the_wall_clock_holds_still_while_it_drifts() {
        let (clock, mut stamper) = stamper(1_000_000_000_000);
        next(&mut stamper);
        clock.set_wall(1_000_000_000_000 - 50_000_000);
        next(&mut stamper);
        assert_eq!(stamper.wall_offset_us(), 0, "less than a minute is nothing");
        clock.set_wall(1_000_000_000_000 - 100_000_000);
        next(&mut stamper);
        let offset_us = stamper.wall_offset_us();
        assert_eq!(offset_us, 100_000_000);
        clock.set_wall(1_000_000_000_000 - 100_300_000);
        next(&mut stamper);
        assert_eq!(stamper.wall_offset_us(), offset_us);
    }

    #[test]
    fn a_long_pause_is_not_a_jump() {
        let (clock, mut stamper) = stamper(0);
        next(&mut stamper);
        clock.advance(Duration::from_secs(100_000));
        assert_eq!(next(&mut stamper), 100_000_000_000);
        assert_eq!(stamper.jump_us(), None);
    }
}
