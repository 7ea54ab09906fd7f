//! Parses and formats times.

use jiff::{SignedDuration, Timestamp};
use mainstay::{Clock, SystemClock};

/// Parses a point in time: microseconds, a time such as `2026-11-15T12:00:00Z`, or `10m ago`.
pub fn stamp_us(text: &str) -> Result<u64, String> {
    if let Ok(us) = text.parse() {
        return Ok(us);
    }
    let wrong = || {
        "write microseconds since 1970, a time such as 2026-11-15T12:00:00Z, or `10m ago`"
            .to_owned()
    };
    let us = match text.parse::<Timestamp>() {
        Ok(time) => time.as_microsecond(),
        Err(_) => ago_us(text).ok_or_else(wrong)?,
    };
    u64::try_from(us).map_err(|_| wrong())
}

fn ago_us(text: &str) -> Option<i64> {
    let past = text.strip_suffix(" ago")?.parse::<SignedDuration>().ok()?;
    let now = i64::try_from(SystemClock::new().wall_us()).ok()?;
    now.checked_sub(i64::try_from(past.as_micros()).ok()?)
}

/// Parses a time span into milliseconds: a bare number, or `500ms`, `30s`, `1h 30m`.
pub fn span_ms(text: &str) -> Result<u64, String> {
    mainstay_server::config::units::span_ms(text)
        .ok_or_else(|| "write milliseconds, or a span such as 500ms, 30s or 1h30m".to_owned())
}

/// Formats a timestamp in UTC, to the microsecond.
pub fn show(stamp_us: u64) -> String {
    let time = i64::try_from(stamp_us).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
    time.map_or_else(|| stamp_us.to_string(), |time| format!("{time:.6}").replace('T', " "))
}

/// Formats a timestamp in milliseconds in UTC, to the millisecond.
pub fn show_ms(stamp_ms: u64) -> String {
    let time = i64::try_from(stamp_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| stamp_ms.to_string(), |time| format!("{time:.3}").replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_are_numbers_times_or_spans_ago() {
        assert_eq!(stamp_us("17"), Ok(17));
        assert_eq!(stamp_us("1970-01-01T00:00:01Z"), Ok(1_000_000));
        assert_eq!(stamp_us("1970-01-01 01:00:01+01"), Ok(1_000_000));
        let hour = stamp_us("1h ago").unwrap();
        let now = SystemClock::new().wall_us();
        assert!(hour < now && hour > now - 3_700_000_000);
        for wrong in ["", "yesterday", "1969-01-01T00:00:00Z", "-5", "5 parsecs ago"] {
            assert!(stamp_us(wrong).is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        /// Any input is parsed or refused, and formatted times parse back to the same value.
        #[test]
        fn any_text_is_a_time_or_none(text in "[0-9TZ:. +hmsago\\PC-]{0,24}", us in 0..253_402_200_000_000_000_u64) {
            let _ = (stamp_us(&text), span_ms(&text));
            proptest::prop_assert_eq!(stamp_us(&show(us)), Ok(us));
        }
    }

    #[test]
    fn spans_are_milliseconds_or_have_a_unit() {
        assert_eq!(span_ms("250"), Ok(250));
        assert_eq!(span_ms("30s"), Ok(30_000));
        assert_eq!(span_ms("1h 30m"), Ok(5_400_000));
        for wrong in ["", "-1", "-1s", "soon", "1.5.2s"] {
            assert!(span_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn stamps_are_shown_as_times() {
        assert_eq!(show(1_000_001), "1970-01-01 00:00:01.000001Z");
        assert_eq!(show(u64::MAX), u64::MAX.to_string());
        assert_eq!(show_ms(1_001), "1970-01-01 00:00:01.001Z");
        assert_eq!(show_ms(u64::MAX), u64::MAX.to_string());
    }
}
