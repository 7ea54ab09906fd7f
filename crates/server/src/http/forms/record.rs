//! JSON forms of commands on records and of their answers.

use super::cell::TtlForm;
use super::field::{bytes_of, changes, filters, pairs, shown};
use super::text::{ExpireOnlyForm, only};
use super::{Raw, given, said};
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{
    Code, Condition, Error, ExpireOnly, Field, Name, Record, RecordCommand, RecordPage,
    RecordWrite, Result, Ttl, Where,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A write to a record: one step, whatever it looks at and changes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteRecordForm {
    /// The record; left out where the path names it.
    key: Option<String>,
    /// What must hold; else nothing is written.
    #[serde(default)]
    when: Vec<ConditionForm>,
    /// The fields that are put in; null takes one out. {"revision": true}, {"millis": plus} and {"sum": by}
    /// become the transaction's revision, its time, and what is there and more.
    #[schema(value_type = Option<Object>)]
    set: Option<Raw>,
    /// The fields that are taken out.
    #[serde(default)]
    clear: Vec<String>,
    /// Whether the fields that are not set here go.
    #[serde(default)]
    replace: bool,
    /// What becomes of its time to live; without it, it stays.
    #[serde(default = "kept")]
    ttl: TtlForm,
}

fn kept() -> TtlForm {
    TtlForm::Keep
}

/// What must hold for a record to be written.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConditionForm {
    /// The record has this counter; null: it is absent.
    Counter(Option<u64>),
    /// The record is there.
    Exists,
    /// A field has this value, byte for byte.
    Field(FieldCondition),
    /// A field has this value, byte for byte; else the write is refused with `Fenced`.
    Fence(FieldCondition),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldCondition {
    /// The field.
    name: String,
    /// Its value; null for no such field, which no fence takes.
    #[serde(deserialize_with = "said")]
    #[schema(required = true, value_type = Option<serde_json::Value>)]
    is: Option<Raw>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteRecordForm {
    /// The record.
    key: String,
    /// What must hold.
    #[serde(default)]
    when: Vec<ConditionForm>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpireRecordForm {
    /// The record.
    key: String,
    /// Its new time to live.
    ttl: TtlForm,
    /// What must hold; nothing without it.
    only: Option<ExpireOnlyForm>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreRecordForm {
    /// The record.
    key: String,
    /// Its fields; left out for a deletion.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Object>)]
    fields: Option<Raw>,
    /// The counter the version had.
    counter: u64,
    /// When it expires, in microseconds.
    expires: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetRecordForm {
    /// The record.
    pub(super) key: String,
    /// Only these fields; all without it.
    pub(super) fields: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScanForm {
    /// Only keys that begin with this.
    #[serde(default)]
    prefix: String,
    /// Only records whose fields pass: a value, or tests by name (eq, ne, lt, le, gt, ge, in).
    #[serde(rename = "where")]
    #[schema(value_type = Option<Object>)]
    tests: Option<Raw>,
    /// Only keys behind this one.
    after: Option<String>,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountForm {
    /// Only keys that begin with this.
    #[serde(default)]
    prefix: String,
    /// Only records whose fields pass: a value, or tests by name (eq, ne, lt, le, gt, ge, in).
    #[serde(rename = "where")]
    #[schema(value_type = Option<Object>)]
    tests: Option<Raw>,
}

/// A record's fields and everything known about it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordForm {
    /// Its fields: text, or {"$bytes": base64}.
    #[schema(value_type = Object)]
    fields: Raw,
    /// How often the record has been written, deletions included.
    counter: u64,
    /// When it was written, in microseconds.
    stamp: u64,
    /// The transaction that wrote it; zero inside the transaction itself.
    revision: u64,
    /// When it expires, in microseconds.
    expires: Option<u64>,
}

/// A page of records.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordPageForm {
    /// The records, in byte order of their keys.
    records: Vec<KeyedRecordForm>,
    /// Pass this as `after` for the next page; null at the end.
    next: Option<String>,
}

/// A record and its key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyedRecordForm {
    /// Its key.
    key: String,
    #[serde(flatten)]
    record: RecordForm,
}

impl From<&Record> for RecordForm {
    fn from(record: &Record) -> RecordForm {
        let &Record { ref fields, counter, stamp, revision, expires } = record;
        RecordForm { fields: shown(fields), counter, stamp, revision, expires }
    }
}

impl From<RecordPage> for RecordPageForm {
    fn from(page: RecordPage) -> RecordPageForm {
        RecordPageForm {
            records: page
                .records
                .into_iter()
                .map(|(key, record)| KeyedRecordForm { key, record: (&record).into() })
                .collect(),
            next: page.next,
        }
    }
}

/// Parses optional filters.
pub(crate) fn filters_of(tests: Option<&Raw>) -> Result<Vec<Where>> {
    tests.map_or(Ok(Vec::new()), |tests| filters(tests))
}

/// Checks that `after` is within the scanned prefix. The cursor of another scan would silently skip records.
pub(crate) fn check_place(prefix: &str, after: Option<&str>) -> Result<()> {
    match after {
        Some(after) if !after.starts_with(prefix) => {
            let message = format!(
                "{after:?} is no place in a scan of {prefix:?}: after takes the next of the page before"
            );
            Err(Error::new(Code::InvalidArgument, message))
        }
        _ => Ok(()),
    }
}

/// Parses field names.
pub(crate) fn fields_of(names: Vec<String>) -> Result<Vec<Field>> {
    names.iter().map(|name| Field::from_text(name)).collect()
}

fn conditions(forms: Vec<ConditionForm>) -> Result<Vec<Condition>> {
    forms.into_iter().map(ConditionForm::condition).collect()
}

impl ConditionForm {
    fn condition(self) -> Result<Condition> {
        Ok(match self {
            ConditionForm::Counter(is) => Condition::Counter { is },
            ConditionForm::Exists => Condition::Exists,
            ConditionForm::Field(FieldCondition { name, is }) => {
                let is = is.map(|is| bytes_of(&name, &is)).transpose()?;
                Condition::Field { field: Field::from_text(&name)?, is }
            }
            ConditionForm::Fence(FieldCondition { name, is: Some(is) }) => {
                Condition::Fence { field: Field::from_text(&name)?, is: bytes_of(&name, &is)? }
            }
            ConditionForm::Fence(FieldCondition { name, is: None }) => {
                let message = format!("fence: the field {name:?} has no value to hold it by");
                return Err(Error::new(Code::InvalidField, message));
            }
        })
    }
}

impl WriteRecordForm {
    /// The write to the record that the form names.
    pub fn command(mut self) -> Result<RecordWrite> {
        let Some(key) = self.key.take() else {
            let message = "write_record: give the key of the record";
            return Err(Error::new(Code::InvalidArgument, message));
        };
        self.to(Name::new(&key)?)
    }

    /// The write to a record that is named elsewhere, such as in the path.
    pub fn to(self, key: Name) -> Result<RecordWrite> {
        if self.key.is_some() {
            let message = "the path names the record: leave the key out of the body";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let (set, mut clear) = self.set.map_or(Ok(Default::default()), |set| changes(&set))?;
        clear.extend(fields_of(self.clear)?);
        let when = conditions(self.when)?;
        let ttl = self.ttl.into();
        Ok(RecordWrite { key, when, replace: self.replace, set, clear, ttl })
    }
}

impl DeleteRecordForm {
    pub fn command(self) -> Result<RecordCommand> {
        Ok(RecordCommand::Delete { key: Name::new(&self.key)?, when: conditions(self.when)? })
    }
}

impl ExpireRecordForm {
    pub fn command(self) -> Result<RecordCommand> {
        let only = self.only.map_or(ExpireOnly::Always, only);
        let key = Name::new(&self.key)?;
        let ttl: Ttl = self.ttl.into();
        Ok(RecordCommand::Expire { key, ttl, only })
    }
}

impl RestoreRecordForm {
    pub fn command(self) -> Result<RecordCommand> {
        let RestoreRecordForm { key, fields, counter, expires } = self;
        let fields = fields.map(|fields| pairs(&fields)).transpose()?;
        let fields = fields.map(|pairs| pairs.into_iter().collect());
        Ok(RecordCommand::Restore { key: Name::new(&key)?, fields, counter, expires })
    }
}

impl GetRecordForm {
    pub fn command(self) -> Result<RecordCommand> {
        let fields = self.fields.map(fields_of).transpose()?;
        Ok(RecordCommand::Get { key: Name::new(&self.key)?, fields })
    }
}

impl ScanForm {
    pub fn command(self) -> Result<RecordCommand> {
        let ScanForm { prefix, tests, after, limit } = self;
        check_place(&prefix, after.as_deref())?;
        let filters = filters_of(tests.as_ref())?;
        let limit = limit.unwrap_or(PAGE_DEFAULT);
        Ok(RecordCommand::Scan { prefix, filters, after, limit })
    }
}

impl CountForm {
    pub fn command(self) -> Result<RecordCommand> {
        let filters = filters_of(self.tests.as_ref())?;
        Ok(RecordCommand::Count { prefix: self.prefix, filters })
    }
}
