//! Lines of an archive file: head, events and foot.

use mainstay::{CONTRACT_VERSION, CanonicalEvent, Result, RunInfo, RunStatus, Value};
use mainstay::{Code, Error, from_value, to_value};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The version of the file format.
const ARCHIVE_VERSION: u32 = 1;

type Fields = BTreeMap<String, Box<RawValue>>;

/// The first line: the run's metadata.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    pub archive_version: u32,
    pub contract_version: String,
    pub run_id: String,
    pub branch: String,
    pub status: RunStatus,
    pub last_event_seq: u64,
    pub inconsistent: bool,
    pub created_us: u64,
    /// `None` if the run was created without metadata; `null` is metadata.
    #[serde(
        default,
        deserialize_with = "deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    pub metadata: Option<Box<RawValue>>,
}

fn deserialize_present<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// The last line: the count and the hashes of the lines before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Footer {
    pub count: u64,
    pub sha256: String,
    pub snapshot_hash: String,
}

impl Header {
    pub fn of(branch: &str, info: &RunInfo) -> Result<Header> {
        let metadata = info.metadata.as_ref().map(|value| raw_json(value.to_json())).transpose()?;
        Ok(Header {
            archive_version: ARCHIVE_VERSION,
            contract_version: CONTRACT_VERSION.to_owned(),
            run_id: info.run_id.clone(),
            branch: branch.to_owned(),
            status: info.status,
            last_event_seq: info.last_event_seq,
            inconsistent: info.inconsistent,
            created_us: info.created,
            metadata,
        })
    }

    /// The metadata given at the run's creation.
    pub fn metadata(&self) -> Result<Option<Value>> {
        self.metadata.as_ref().map(|text| Value::from_json(text.get())).transpose()
    }

    /// Rejects files of a newer format.
    pub fn check(&self) -> Result<()> {
        if self.archive_version == 0 {
            let message = format!("the archive of run `{}` has no version", self.run_id);
            return Err(Error::new(Code::CorruptData, message));
        }
        if self.archive_version <= ARCHIVE_VERSION {
            return Ok(());
        }
        let message = format!(
            "the archive of run `{}` has version {}, this program knows {ARCHIVE_VERSION}: take a newer one",
            self.run_id, self.archive_version
        );
        Err(Error::new(Code::NewerFormat, message))
    }
}

/// Serializes a line.
pub(super) fn encode_line(line: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(line).map_err(|error| line_error(&error))?;
    Ok(text + "\n")
}

/// Serializes an event's line. Each value is encoded separately without loss, because values may have the
/// maximal depth.
pub(super) fn encode_event(mut event: CanonicalEvent) -> Result<String> {
    let mut values = std::mem::take(&mut event.more);
    values.insert("eventData".to_owned(), std::mem::take(&mut event.event_data));
    if let Some(reference) = event.engine_run_ref.take() {
        values.insert("engineRunRef".to_owned(), reference);
    }
    if let Value::Object(fields) = to_value(&event)? {
        for (name, value) in fields {
            values.entry(name).or_insert(value);
        }
    }
    let fields: Fields = values
        .into_iter()
        .map(|(name, value)| Ok((name, raw_json(value.to_json())?)))
        .collect::<Result<_>>()?;
    encode_line(&fields)
}

/// Parses an event's line.
pub(super) fn decode_event(line: &str) -> Result<CanonicalEvent> {
    let fields: Fields = decode(line)?;
    let fields = fields
        .into_iter()
        .map(|(name, text)| Ok((name, Value::from_json_exact(text.get())?)))
        .collect::<Result<_>>()?;
    let event: CanonicalEvent = from_value(Value::Object(fields))?;
    event.check_version()?;
    Ok(event)
}

/// Parses a line.
pub(super) fn decode<'l, T: Deserialize<'l>>(line: &'l str) -> Result<T> {
    serde_json::from_str(line).map_err(|error| line_error(&error))
}

fn raw_json(text: String) -> Result<Box<RawValue>> {
    RawValue::from_string(text).map_err(|error| line_error(&error))
}

#[cold]
fn line_error(error: &serde_json::Error) -> Error {
    Error::new(Code::InvalidValue, format!("a line of an archive: {error}"))
}
