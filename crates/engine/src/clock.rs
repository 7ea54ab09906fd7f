//! Clocks and stamps: the one file that asks what time it is.

use mainstay_model::Stamp;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the database gets its time from.
pub trait Clock: Send + Sync {
    /// Microseconds since the Unix epoch, as the wall clock has it: it may jump.
    fn wall_us(&self) -> u64;
    /// Microseconds since some fixed moment: never goes back.
    fn monotonic_us(&self) -> u64;
}

/// The machine's own clocks.
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// The machine's own clocks.
    #[allow(clippy::disallowed_methods, reason = "this is the one file that asks the machine")]
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one file that asks the machine")]
    fn wall_us(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// A clock that stands still until it is moved; for tests and simulations.
pub struct ManualClock {
    now: Mutex<(u64, u64)>,
}

impl ManualClock {
    /// A clock whose wall shows `wall_us`.
    pub fn new(wall_us: u64) -> Arc<ManualClock> {
        Arc::new(ManualClock { now: Mutex::new((wall_us, 0)) })
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let mut now = self.now.lock();
        *now = (now.0.saturating_add(by), now.1.saturating_add(by));
    }

    /// Sets the wall clock, as an operator or a time server would.
    pub fn set_wall(&self, wall_us: u64) {
        self.now.lock().0 = wall_us;
    }
}

impl Clock for ManualClock {
    fn wall_us(&self) -> u64 {
        self.now.lock().0
    }

    fn monotonic_us(&self) -> u64 {
        self.now.lock().1
    }
}

/// A wall clock that runs ahead of the monotonic one by more than this is not believed.
const JUMP_LIMIT_US: u64 = 3_600_000_000;

/// Makes strictly increasing stamps out of a clock that may step back or jump.
///
/// ```text
///   wall behind the last stamp     -> last stamp + monotonic time passed since
///   wall over an hour ahead of it  -> the same, and the jump is reported, until confirmed
///   else                           -> wall
/// ```
pub(crate) struct Stamper {
    clock: Arc<dyn Clock>,
    last: Stamp,
    /// The newest reading that was believed, and the monotonic clock at that moment.
    anchor: Option<(u64, u64)>,
    jump: Option<u64>,
}

impl Stamper {
    /// Continues behind the last stamp given. The first reading is believed: opening confirms it.
    pub fn new(clock: Arc<dyn Clock>, last: Stamp) -> Stamper {
        Stamper { clock, last, anchor: None, jump: None }
    }

    /// The time now, as stamps see it, and the monotonic clock; gives no stamp.
    pub fn now(&mut self) -> (Stamp, u64) {
        let wall = self.clock.wall_us();
        let monotonic = self.clock.monotonic_us();
        let Some((seen, at)) = self.anchor else {
            let now = wall.max(self.last);
            self.anchor = Some((now, monotonic));
            return (now, monotonic);
        };
        let steady = seen.saturating_add(monotonic.saturating_sub(at));
        let now = if wall > steady.saturating_add(JUMP_LIMIT_US) {
            self.jump = Some(wall - steady);
            steady
        } else {
            self.jump = None;
            wall.max(seen).max(if wall < seen { steady } else { 0 })
        };
        self.anchor = Some((now, monotonic));
        (now, monotonic)
    }

    /// The next stamp, given the time now.
    #[inline]
    pub fn stamp(&mut self, now: Stamp) -> Stamp {
        self.last = now.max(self.last + 1);
        self.last
    }

    /// Takes back stamps whose transactions never happened.
    pub fn rewind(&mut self, last: Stamp) {
        self.last = last;
    }

    /// The last stamp given.
    pub fn last(&self) -> Stamp {
        self.last
    }

    /// By how much the wall clock is ahead, when it is not believed.
    pub fn jump_us(&self) -> Option<u64> {
        self.jump
    }

    /// Believes the wall clock as it stands.
    pub fn confirm(&mut self) {
        self.anchor = None;
        self.jump = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamper(wall: u64) -> (Arc<ManualClock>, Stamper) {
        let clock = ManualClock::new(wall);
        (clock.clone(), Stamper::new(clock, 0))
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
    fn a_long_pause_is_not_a_jump() {
        let (clock, mut stamper) = stamper(0);
        next(&mut stamper);
        clock.advance(Duration::from_secs(100_000));
        assert_eq!(next(&mut stamper), 100_000_000_000);
        assert_eq!(stamper.jump_us(), None);
    }
}
