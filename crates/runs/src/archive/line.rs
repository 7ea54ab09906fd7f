//! The lines of an archive file.

use mainstay::{CONTRACT_VERSION, CanonicalEvent, Result, RunInfo, RunStatus, Value};
use mainstay::{Code, Error, from_value, to_value};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The version of the form of these files.
const ARCHIVE_VERSION: u32 = 1;

type Fields = BTreeMap<String, Box<RawValue>>;

/// The first line: what is known of the run.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head {
    pub archive_version: u32,
    pub contract_version: String,
    pub run_id: String,
    pub branch: String,
    pub status: RunStatus,
    pub last_event_seq: u64,
    pub inconsistent: bool,
    pub created_us: u64,
    /// Nothing where the run was made without; `null` is something.
    #[serde(default, deserialize_with = "there", skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
}

fn there<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// The last line: what those before it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Foot {
    pub count: u64,
    pub sha256: String,
    pub snapshot_hash: String,
}

impl Head {
    pub fn of(branch: &str, info: &RunInfo) -> Result<Head> {
        let metadata = info.metadata.as_ref().map(|value| raw(value.to_json())).transpose()?;
        Ok(Head {
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

    /// What the run was made with.
    pub fn metadata(&self) -> Result<Option<Value>> {
        self.metadata.as_ref().map(|text| Value::from_json(text.get())).transpose()
    }

    /// Refuses files of a later form.
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

/// A line of what is written as it is.
pub(super) fn plain(what: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(what).map_err(|error| invalid(&error))?;
    Ok(text + "\n")
}

/// The line of an event. Its values are written so that nothing of them is lost, each for itself: they may be as deep
/// as values can be.
pub(super) fn event(mut event: CanonicalEvent) -> Result<String> {
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
    let text = |(name, value): (String, Value)| Ok((name, raw(value.to_json())?));
    let fields: Fields = values.into_iter().map(text).collect::<Result<_>>()?;
    plain(&fields)
}

/// The event of a line.
pub(super) fn read_event(line: &str) -> Result<CanonicalEvent> {
    let fields: Fields = read(line)?;
    let value =
        |(name, text): (String, Box<RawValue>)| Ok((name, Value::from_json_exact(text.get())?));
    let fields = fields.into_iter().map(value).collect::<Result<_>>()?;
    let event: CanonicalEvent = from_value(Value::Object(fields))?;
    event.check_version()?;
    Ok(event)
}

/// What a line says.
pub(super) fn read<'l, T: Deserialize<'l>>(line: &'l str) -> Result<T> {
    serde_json::from_str(line).map_err(|error| invalid(&error))
}

fn raw(text: String) -> Result<Box<RawValue>> {
    RawValue::from_string(text).map_err(|error| invalid(&error))
}

#[cold]
fn invalid(error: &serde_json::Error) -> Error {
    Error::new(Code::InvalidValue, format!("a line of an archive: {error}"))
}
