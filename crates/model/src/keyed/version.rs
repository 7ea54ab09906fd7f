//! Versions of keyed state, which make writes idempotent.

use crate::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;

/// A logical timestamp of a stream: an epoch and a round within it.
///
/// It comes from the source and not from the arrival time, so that a record that is read again has the same
/// time.
///
/// ```
/// use mainstay_model::LogicalTime;
/// assert!(LogicalTime::new(1, 9) < LogicalTime::new(2, 0));
/// assert_eq!(LogicalTime::new(2, 7).to_string(), "2.7");
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct LogicalTime {
    /// The epoch number.
    pub epoch: u64,
    /// The round within the epoch.
    pub round: u64,
}

impl LogicalTime {
    /// Creates a logical timestamp.
    pub fn new(epoch: u64, round: u64) -> LogicalTime {
        LogicalTime { epoch, round }
    }
}

impl fmt::Display for LogicalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.round)
    }
}

/// The type of all versions in a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum VersionKind {
    /// Unsigned integers.
    U64,
    /// Logical timestamps.
    Time,
}

impl VersionKind {
    /// The encoded size of a version of this kind, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            VersionKind::U64 => 8,
            VersionKind::Time => 16,
        }
    }

    /// Returns the kind whose versions have this encoded size.
    pub fn of_bytes(bytes: usize) -> Option<VersionKind> {
        [VersionKind::U64, VersionKind::Time].into_iter().find(|kind| kind.bytes() == bytes)
    }
}

impl fmt::Display for VersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VersionKind::U64 => "u64",
            VersionKind::Time => "time",
        })
    }
}

impl FromStr for VersionKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<VersionKind> {
        match text.to_ascii_lowercase().as_str() {
            "u64" => Ok(VersionKind::U64),
            "time" => Ok(VersionKind::Time),
            _ => {
                let message = format!("versions are `u64` or `time`, not `{text}`");
                Err(Error::new(Code::InvalidVersion, message))
            }
        }
    }
}

/// The version of a key's state.
///
/// The encoding preserves the order, so stores can compare encoded bytes.
///
/// ```
/// use mainstay_model::{LogicalTime, Version};
/// assert_eq!("17".parse(), Ok(Version::U64(17)));
/// assert_eq!("3.17".parse(), Ok(Version::Time(LogicalTime::new(3, 17))));
/// assert!(Version::from(2).to_bytes() < Version::from(256).to_bytes());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Version {
    /// An integer, such as a position or a sequence number.
    U64(u64),
    /// A logical timestamp.
    Time(LogicalTime),
}

impl Version {
    /// The kind of the version.
    pub fn kind(&self) -> VersionKind {
        match self {
            Version::U64(_) => VersionKind::U64,
            Version::Time(_) => VersionKind::Time,
        }
    }

    /// The direct successor; `None` for the highest version.
    pub fn next(self) -> Option<Version> {
        match self {
            Version::U64(number) => number.checked_add(1).map(Version::U64),
            Version::Time(LogicalTime { epoch, round }) => match round.checked_add(1) {
                Some(round) => Some(LogicalTime { epoch, round }.into()),
                None => epoch.checked_add(1).map(|epoch| LogicalTime { epoch, round: 0 }.into()),
            },
        }
    }

    /// The direct predecessor; `None` for the lowest version.
    pub fn previous(self) -> Option<Version> {
        match self {
            Version::U64(number) => number.checked_sub(1).map(Version::U64),
            Version::Time(LogicalTime { epoch, round }) => match round.checked_sub(1) {
                Some(round) => Some(LogicalTime { epoch, round }.into()),
                None => {
                    let round = u64::MAX;
                    epoch.checked_sub(1).map(|epoch| LogicalTime { epoch, round }.into())
                }
            },
        }
    }

    /// Encodes the version. The bytes sort as versions do.
    pub fn to_bytes(self) -> SmallVec<[u8; 16]> {
        match self {
            Version::U64(number) => SmallVec::from_slice(&number.to_be_bytes()),
            Version::Time(LogicalTime { epoch, round }) => {
                let mut bytes = SmallVec::from_slice(&epoch.to_be_bytes());
                bytes.extend_from_slice(&round.to_be_bytes());
                bytes
            }
        }
    }

    /// Decodes a version; `None` if the bytes have no valid length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Version> {
        let number = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
        match VersionKind::of_bytes(bytes.len())? {
            VersionKind::U64 => Some(Version::U64(number(bytes)?)),
            VersionKind::Time => {
                let (epoch, round) = bytes.split_at(8);
                Some(Version::Time(LogicalTime::new(number(epoch)?, number(round)?)))
            }
        }
    }
}

impl From<u64> for Version {
    fn from(number: u64) -> Version {
        Version::U64(number)
    }
}

impl From<LogicalTime> for Version {
    fn from(time: LogicalTime) -> Version {
        Version::Time(time)
    }
}

impl TryFrom<Version> for u64 {
    type Error = Error;

    fn try_from(version: Version) -> Result<u64> {
        match version {
            Version::U64(number) => Ok(number),
            Version::Time(_) => Err(of_another_kind(version, VersionKind::U64)),
        }
    }
}

impl TryFrom<Version> for LogicalTime {
    type Error = Error;

    fn try_from(version: Version) -> Result<LogicalTime> {
        match version {
            Version::Time(time) => Ok(time),
            Version::U64(_) => Err(of_another_kind(version, VersionKind::Time)),
        }
    }
}

#[cold]
fn of_another_kind(version: Version, asked: VersionKind) -> Error {
    let message =
        format!("{version} is a version of kind {}, and {asked} was asked for", version.kind());
    Error::new(Code::InvalidVersion, message)
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::U64(number) => number.fmt(f),
            Version::Time(time) => time.fmt(f),
        }
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Version> {
        let number = |text: &str| {
            // Rust parses `+7` as a number, but it would be written back as a different text.
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| digits)
        };
        let version = match text.split_once('.') {
            Some((epoch, round)) => number(epoch)
                .zip(number(round))
                .map(|(epoch, round)| Version::Time(LogicalTime { epoch, round })),
            None => number(text).map(Version::U64),
        };
        version.ok_or_else(|| {
            let message = format!("`{text}` is no version: give a whole number, or epoch.round");
            Error::new(Code::InvalidVersion, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn versions() -> impl Strategy<Value = Version> {
        prop_oneof![
            any::<u64>().prop_map(Version::U64),
            (any::<u64>(), any::<u64>()).prop_map(|(e, r)| LogicalTime::new(e, r).into()),
        ]
    }

    proptest! {
        #[test]
        fn bytes_and_text_say_the_same(version in versions()) {
            prop_assert_eq!(Version::from_bytes(&version.to_bytes()), Some(version));
            prop_assert_eq!(version.to_string().parse(), Ok(version));
        }

        #[test]
        fn bytes_sort_as_versions_do(one in versions(), other in versions()) {
            prop_assume!(one.kind() == other.kind());
            prop_assert_eq!(one.to_bytes().cmp(&other.to_bytes()), one.cmp(&other));
        }
    }

    #[test]
    fn a_version_is_had_as_its_own_kind_alone() {
        let number = Version::U64(7);
        let time = Version::Time(LogicalTime::new(1, 2));
        assert_eq!(u64::try_from(number), Ok(7));
        assert_eq!(LogicalTime::try_from(time), Ok(LogicalTime::new(1, 2)));
        assert_eq!(u64::try_from(time).unwrap_err().code(), Code::InvalidVersion);
        assert_eq!(LogicalTime::try_from(number).unwrap_err().code(), Code::InvalidVersion);
    }

    #[test]
    fn nothing_stands_between_neighbours() {
        let time = |epoch, round| Version::from(LogicalTime::new(epoch, round));
        let pairs = [
            (Version::U64(7), Version::U64(8)),
            (time(1, 7), time(1, 8)),
            (time(1, u64::MAX), time(2, 0)),
        ];
        for (one, other) in pairs {
            assert_eq!((one.next(), other.previous()), (Some(other), Some(one)));
        }
        assert_eq!((time(u64::MAX, u64::MAX).next(), time(0, 0).previous()), (None, None));
        assert_eq!((Version::U64(u64::MAX).next(), Version::U64(0).previous()), (None, None));
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "-1", "+1", "1.", ".1", "1.2.3", "a", "18446744073709551616", " 1"] {
            assert_eq!(text.parse::<Version>().unwrap_err().code(), Code::InvalidVersion, "{text}");
        }
        for bytes in [0, 7, 9, 15, 17] {
            assert_eq!(Version::from_bytes(&vec![0; bytes]), None);
        }
    }
}
