//! Expiry times in the forms of Redis: in seconds or milliseconds, from now or since 1970.

use crate::resp::reply::Reply;
use mainstay::{Stamp, Ttl};

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
}

/// The origin of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// From now.
    FromNow,
    /// From the beginning of 1970.
    Unix,
}

/// A timestamp in the past for every clock.
const LONG_AGO: Stamp = 1;

/// Converts a time to an expiry. A time in the past expires at once. Returns `None` if the time is too
/// large.
pub fn expiry(n: i64, unit: Unit, clock: Clock) -> Option<Ttl> {
    let ms = match unit {
        Unit::Seconds => n.checked_mul(1000)?,
        Unit::Millis => n,
    };
    // The sum with the current time must not overflow either.
    let us = ms.checked_mul(1000).filter(|us| *us < i64::MAX / 2)?;
    Some(match (u64::try_from(us), clock) {
        (Ok(1..), Clock::FromNow) => Ttl::Millis(ms.unsigned_abs()),
        (Ok(us @ 1..), Clock::Unix) => Ttl::Until(us),
        _ => Ttl::Until(LONG_AGO),
    })
}

/// The error of Redis for an invalid expire time.
pub fn invalid_time(command: &str) -> Reply {
    Reply::error(format!("ERR invalid expire time in '{command}' command"))
}

/// Returns the remaining time to live: -2 if the key does not exist, -1 if it never expires.
pub fn remaining(expires: Option<Option<Stamp>>, now: Stamp, unit: Unit, clock: Clock) -> i64 {
    let expires = match expires {
        None => return -2,
        Some(None) => return -1,
        Some(Some(expires)) => expires,
    };
    let us = match clock {
        Clock::FromNow => expires.saturating_sub(now),
        Clock::Unix => expires,
    };
    let ms = us.div_ceil(1000);
    let rounded = match (unit, clock) {
        (Unit::Millis, _) => ms,
        (Unit::Seconds, Clock::FromNow) => (ms + 500) / 1000,
        (Unit::Seconds, Clock::Unix) => ms / 1000,
    };
    i64::try_from(rounded).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_over_end_at_once_and_too_long_ones_are_refused() {
        let from_now = |n, unit| expiry(n, unit, Clock::FromNow);
        assert_eq!(from_now(2, Unit::Seconds), Some(Ttl::Millis(2000)));
        assert_eq!(from_now(-2, Unit::Seconds), Some(Ttl::Until(LONG_AGO)));
        assert_eq!(from_now(0, Unit::Millis), Some(Ttl::Until(LONG_AGO)));
        assert_eq!(expiry(5, Unit::Seconds, Clock::Unix), Some(Ttl::Until(5_000_000)));
        assert_eq!(from_now(i64::MAX, Unit::Seconds), None);
        assert_eq!(from_now(i64::MAX / 1500, Unit::Millis), None);
    }

    #[test]
    fn what_remains_is_rounded_as_redis_does() {
        let now = 1_000_000_000;
        let left = |us: u64, unit| remaining(Some(Some(now + us)), now, unit, Clock::FromNow);
        assert_eq!(left(1_499_000, Unit::Seconds), 1);
        assert_eq!(left(1_500_000, Unit::Seconds), 2);
        assert_eq!(left(1, Unit::Millis), 1);
        assert_eq!(remaining(Some(None), now, Unit::Seconds, Clock::FromNow), -1);
        assert_eq!(remaining(None, now, Unit::Seconds, Clock::FromNow), -2);
        assert_eq!(remaining(Some(Some(7_900_000)), now, Unit::Seconds, Clock::Unix), 7);
    }
}
