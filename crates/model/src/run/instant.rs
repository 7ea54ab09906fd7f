//! Moments as texts: ISO 8601, as producers write them.

use crate::{Code, Error, Result, Stamp};
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A moment as its producer wrote it. The text is kept, so that a hash over it stays what it was; only its
/// meaning is checked.
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
    /// Checks and keeps a text: a date, a time and a zone or offset.
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

    /// A text that was checked when it was stored.
    pub(super) fn known(text: String) -> Instant {
        Instant(text)
    }

    /// A moment in microseconds since 1970, to the millisecond.
    pub fn of_us(stamp: Stamp) -> Instant {
        let ms = i64::try_from(stamp / 1000).unwrap_or(i64::MAX);
        // Beyond the calendar is its end.
        let moment = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
        Instant(format!("{moment:.3}"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The moment in microseconds since 1970; what lies before that is 1970.
    pub fn stamp_us(&self) -> Stamp {
        let moment = self.0.parse::<Timestamp>().map_or(0, |moment| moment.as_microsecond());
        Stamp::try_from(moment).unwrap_or_default()
    }
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
