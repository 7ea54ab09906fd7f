//! ISO 8601 timestamps that keep the producer's text.

use crate::{Code, Error, Result, Stamp};
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A timestamp as its producer wrote it. The text is kept unchanged, so that hashes over it stay valid. Only
/// its syntax is checked.
///
/// ```
/// use mainstay_model::Instant;
/// let emitted = Instant::parse("2026-02-11T09:30:00.250+01:00")?;
/// assert_eq!(emitted.as_str(), "2026-02-11T09:30:00.250+01:00");
/// assert_eq!(emitted.stamp_us(), 1_770_798_600_250_000);
/// assert_eq!(Instant::of_us(1_770_798_600_250_000).as_str(), "2026-02-11T08:30:00.250Z");
/// assert!(Instant::parse("yesterday").is_err());
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(String);

impl Instant {
    /// Validates a text with a date, a time and a zone or offset.
    pub fn parse(text: &str) -> Result<Instant> {
        match text.parse::<Timestamp>() {
            Ok(_) => Ok(Instant(text.to_owned())),
            Err(error) => {
                let message = format!(
                    "`{text}` is no moment in ISO 8601, such as 2026-02-11T08:30:00.250Z: {error}"
                );
                Err(Error::new(Code::InvalidValue, message))
            }
        }
    }

    /// Wraps a text that was validated when it was stored.
    pub(super) fn known(text: String) -> Instant {
        Instant(text)
    }

    /// Formats microseconds since 1970, with millisecond precision.
    pub fn of_us(stamp: Stamp) -> Instant {
        if stamp < LAST_DAY_US {
            return Instant(written(stamp / 1000));
        }
        let ms = i64::try_from(stamp / 1000).unwrap_or(i64::MAX);
        // Timestamps beyond the calendar's range become its end.
        let moment = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
        Instant(format!("{moment:.3}"))
    }

    /// The timestamp's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The timestamp in microseconds since 1970. Earlier timestamps become 0.
    pub fn stamp_us(&self) -> Stamp {
        let moment = self.0.parse::<Timestamp>().map_or(0, |moment| moment.as_microsecond());
        Stamp::try_from(moment).unwrap_or_default()
    }
}

/// The first day of the year 9999. Before it, years have four digits.
const LAST_DAY_US: Stamp = 253_370_764_800_000_000;

const DAY_MS: u64 = 86_400_000;

/// Formats a timestamp. Every event needs one, and this is ten times as fast as the general formatter.
fn written(ms: u64) -> String {
    let day = ms / DAY_MS;
    let time = ms % DAY_MS;
    let (year, month, date) = civil(day);
    let [hour, minute, second] = [time / 3_600_000, time / 60_000 % 60, time / 1000 % 60];
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |place: usize, digits: usize, mut number: u64| {
        for digit in text[place..place + digits].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(0, 4, year);
    for (place, number) in [(5, month), (8, date), (11, hour), (14, minute), (17, second)] {
        put(place, 2, number);
    }
    put(20, 3, time % 1000);
    // The text is ASCII.
    String::from_utf8_lossy(&text).into_owned()
}

/// Converts a day since 1970 to year, month and day. It counts years from March 1 of the year 0, so that the
/// leap day comes last. 400 years have 146,097 days.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let era = day / 146_097;
    let day = day % 146_097;
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, five consecutive months have 153 days.
    let shifted = (5 * day + 2) / 153;
    let date = day - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (400 * era + year + u64::from(month <= 2), month, date)
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Instant, D::Error> {
        Instant::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Both formatters give equal text.
        #[test]
        fn moments_are_written_as_the_calendar_has_them(ms in 0..LAST_DAY_US / 1000) {
            let moment = Timestamp::from_millisecond(ms as i64).unwrap();
            prop_assert_eq!(written(ms), format!("{moment:.3}"));
        }
    }

    #[test]
    fn days_that_are_easily_got_wrong() {
        for text in
            ["1970-01-01", "2000-02-29", "2000-03-01", "2024-12-31", "2100-02-28", "9998-12-31"]
        {
            let text = format!("{text}T23:59:59.999Z");
            assert_eq!(Instant::of_us(Instant::parse(&text).unwrap().stamp_us()).as_str(), text);
        }
        assert_eq!(Instant::of_us(u64::MAX).as_str(), "9999-12-30T22:00:00.999Z");
    }
}
