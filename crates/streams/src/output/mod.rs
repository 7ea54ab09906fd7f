//! Outputs with deterministic ids.
//!
//! ```text
//!   blake3( "mainstay/output/1" | operator's length u32 LE | operator | key's length u32 LE | key
//!           | 0 an item's, 1 a window's | epoch u64 BE | round u64 BE | ordinal u32 LE )   first 16 bytes = id
//! ```

mod dedup;

pub use dedup::{Deduplicator, OutputIdSet};

use mainstay_model::{Code, Error, LogicalTime, Result, Version};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

const DOMAIN: &[u8] = b"mainstay/output/1";

/// The unique id of an output, derived from operator, key, version and ordinal. An output that is produced
/// again has the same id.
///
/// ```
/// use mainstay_model::LogicalTime;
/// use mainstay_streams::{Cause, OutputId};
/// let id = OutputId::of("totals", b"user-7", Cause::Item(LogicalTime::new(0, 17)), 0);
/// assert_eq!(id, OutputId::of("totals", b"user-7", Cause::Item(LogicalTime::new(0, 17)), 0));
/// assert_eq!(id.to_string().parse(), Ok(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId([u8; 16]);

/// The cause of an output. Its time is the output's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// An item with this time.
    Item(LogicalTime),
    /// A completed window: its end is the epoch and its start the round.
    Window(LogicalTime),
}

impl Cause {
    /// The version of the outputs.
    pub fn version(self) -> LogicalTime {
        match self {
            Cause::Item(time) | Cause::Window(time) => time,
        }
    }
}

impl OutputId {
    /// Computes the id of an output.
    pub fn of(operator: &str, key: &[u8], cause: Cause, ordinal: u32) -> OutputId {
        let LogicalTime { epoch, round } = cause.version();
        let mut hasher = blake3::Hasher::new();
        hasher.update(DOMAIN);
        for part in [operator.as_bytes(), key] {
            hasher.update(&(part.len() as u32).to_le_bytes()).update(part);
        }
        hasher.update(&[u8::from(matches!(cause, Cause::Window(_)))]);
        hasher.update(&epoch.to_be_bytes()).update(&round.to_be_bytes());
        hasher.update(&ordinal.to_le_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        OutputId(id)
    }

    /// The id as bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for OutputId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for OutputId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for OutputId {
    type Err = Error;

    fn from_str(text: &str) -> Result<OutputId> {
        let bytes = from_hex(text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(OutputId).ok_or_else(|| {
            let message = format!("`{text}` is no id of an output: it has 32 hexadecimal digits");
            Error::new(Code::InvalidValue, message)
        })
    }
}

impl Serialize for OutputId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OutputId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<OutputId, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// An output of an operator.
///
/// In JSON it is an object with `id`, `key` (or `key_hex` if the key is not UTF-8), `version`, `ordinal` and
/// `value`.
///
/// ```
/// use mainstay_model::LogicalTime;
/// use mainstay_streams::{Cause, Output};
/// let output = Output::new("totals", b"user-7", Cause::Item(LogicalTime::new(0, 17)), 0, 3);
/// let text = serde_json::to_string(&output).unwrap();
/// assert!(text.ends_with(r#""key":"user-7","version":"0.17","ordinal":0,"value":3}"#));
/// assert_eq!(serde_json::from_str::<Output<u32>>(&text).unwrap(), output);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output<O> {
    /// The unique id.
    pub id: OutputId,
    /// The key of the state that produced it.
    pub key: Vec<u8>,
    /// The version of its cause, which increases with each key's outputs.
    pub version: LogicalTime,
    /// The index among the outputs of the same cause.
    pub ordinal: u32,
    /// The operator's value.
    pub value: O,
}

impl<O> Output<O> {
    /// Creates an output.
    pub fn new(operator: &str, key: &[u8], cause: Cause, ordinal: u32, value: O) -> Output<O> {
        let id = OutputId::of(operator, key, cause, ordinal);
        Output { id, key: key.to_vec(), version: cause.version(), ordinal, value }
    }
}

/// The JSON form of an output.
#[derive(Serialize, Deserialize)]
struct OutputJson<O> {
    id: OutputId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    version: String,
    ordinal: u32,
    value: O,
}

impl<O: Serialize> Serialize for Output<O> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(&self.key).ok().map(str::to_owned);
        let key_hex = text.is_none().then(|| to_hex(&self.key));
        let version = self.version.to_string();
        let value = &self.value;
        let json =
            OutputJson { id: self.id, key: text, key_hex, version, ordinal: self.ordinal, value };
        json.serialize(serializer)
    }
}

impl<'de, O: Deserialize<'de>> Deserialize<'de> for Output<O> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Output<O>, D::Error> {
        let OutputJson { id, key, key_hex, version, ordinal, value } =
            OutputJson::deserialize(from)?;
        let key = key.map(String::into_bytes).or_else(|| from_hex(&key_hex?));
        let key = key.ok_or_else(|| D::Error::custom("an output has a `key` or a `key_hex`"))?;
        let version = version.parse().and_then(|version: Version| version.try_into());
        let version = version.map_err(D::Error::custom)?;
        Ok(Output { id, key, version, ordinal, value })
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(round: u64) -> Cause {
        Cause::Item(LogicalTime::new(3, round))
    }

    /// These values must never change, because stored ids identify outputs.
    #[test]
    fn ids_never_change() {
        // Computed with another implementation of the hash.
        let id = OutputId::of("totals", b"user-7", time(17), 0);
        assert_eq!(id.to_string(), "0f7fc68b68ab879004e996bc595cb25f");
        let window = Cause::Window(LogicalTime::new(3, 17));
        let id = OutputId::of("totals", b"user-7", window, 1);
        assert_eq!(id.to_string(), "7d704c80686e8a85071bdef31d0325b7");
    }

    #[test]
    fn all_that_an_id_is_made_of_tells_outputs_apart() {
        let ids = [
            OutputId::of("a", b"bc", time(1), 0),
            OutputId::of("ab", b"c", time(1), 0),
            OutputId::of("a", b"bc", time(2), 0),
            OutputId::of("a", b"bc", time(1), 1),
            OutputId::of("a", b"bc", Cause::Window(LogicalTime::new(3, 1)), 0),
        ];
        let distinct: std::collections::BTreeSet<_> = ids.into_iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }

    #[test]
    fn a_key_of_any_bytes_comes_back() {
        for key in [&b"text"[..], b"\xff\x00\x7f"] {
            let output = Output::new("o", key, time(1), 2, "v".to_owned());
            let text = serde_json::to_string(&output).unwrap();
            assert_eq!(serde_json::from_str::<Output<String>>(&text).unwrap(), output, "{text}");
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "00", "zz", &"0".repeat(33), &"é".repeat(16)] {
            assert_eq!(text.parse::<OutputId>().unwrap_err().code(), Code::InvalidValue, "{text}");
        }
    }
}
