//! JSON forms of commands on cells.

use super::{Raw, given, said, value};
use mainstay::limits::{PAGE_DEFAULT, PAGE_LIMIT};
use mainstay::{
    CellCommand, Code, Contract, Error, KeyCommand, Name, Number, RecordCommand, Result,
    StringCommand, Ttl, Value,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InitForm {
    /// The cell.
    name: String,
    /// Its first value.
    #[schema(value_type = serde_json::Value)]
    value: Raw,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetForm {
    /// The cell.
    name: String,
    /// Its new value.
    #[schema(value_type = serde_json::Value)]
    value: Raw,
    /// What becomes of its time to live; without it, it ends.
    #[serde(default)]
    ttl: TtlForm,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CasForm {
    /// The cell.
    name: String,
    /// The counter it must have, null for absent.
    #[serde(deserialize_with = "said")]
    #[schema(required = true)]
    expected: Option<u64>,
    /// Its new value.
    #[schema(value_type = serde_json::Value)]
    value: Raw,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteForm {
    /// The cell.
    name: String,
    /// The counter it must have, if that matters.
    counter: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IncrForm {
    /// The cell.
    name: String,
    /// What to add; 1 without it.
    #[schema(value_type = Option<f64>)]
    by: Option<Raw>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpireForm {
    /// The cell.
    name: String,
    /// Its new time to live.
    ttl: TtlForm,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreForm {
    /// The cell.
    name: String,
    /// The value; left out for a deletion.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    value: Option<Raw>,
    /// The counter the version had.
    counter: u64,
    /// When it expires, in microseconds.
    expires: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetForm {
    /// The cell.
    name: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListForm {
    /// Only names that begin with this.
    #[serde(default)]
    prefix: String,
    /// Only names behind this one.
    after: Option<String>,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionsForm {
    /// The cell or the record.
    name: String,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
    /// Only counters below this one.
    before: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountNamesForm {}

/// What a write does to a time to live.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TtlForm {
    /// It lives until it is deleted.
    #[default]
    Clear,
    /// The expiry stays as it is.
    Keep,
    /// It lives for this many milliseconds.
    Ms(u64),
    /// It lives until this stamp, in microseconds.
    UntilUs(u64),
}

impl From<TtlForm> for Ttl {
    fn from(form: TtlForm) -> Ttl {
        match form {
            TtlForm::Clear => Ttl::Clear,
            TtlForm::Keep => Ttl::Keep,
            TtlForm::Ms(ttl_ms) => Ttl::Millis(ttl_ms),
            TtlForm::UntilUs(stamp_us) => Ttl::Until(stamp_us),
        }
    }
}

/// The number to add, 1 by default.
pub(crate) fn number(by: Option<&RawValue>) -> Result<Number> {
    match by.map(value).transpose()? {
        None => Ok(Number::Int(1)),
        Some(Value::Int(n)) => Ok(Number::Int(n)),
        Some(Value::Float(n)) => Ok(Number::Float(n)),
        Some(_) => Err(Error::new(Code::InvalidArgument, "by: give a number to add")),
    }
}

impl InitForm {
    pub fn command(self) -> Result<CellCommand> {
        Ok(CellCommand::Init { name: Name::new(&self.name)?, value: value(&self.value)? })
    }
}

impl SetForm {
    pub fn command(self) -> Result<CellCommand> {
        let name = Name::new(&self.name)?;
        let value = value(&self.value)?;
        Ok(CellCommand::Set { name, value, ttl: self.ttl.into() })
    }

    /// The write as Redis means it: it replaces a record of the same name.
    pub fn text(self) -> Result<StringCommand> {
        let name = Name::new(&self.name)?;
        let value = value(&self.value)?;
        Ok(StringCommand::Put { name, value, ttl: self.ttl.into() })
    }
}

impl CasForm {
    pub fn command(self) -> Result<CellCommand> {
        let name = Name::new(&self.name)?;
        let value = value(&self.value)?;
        Ok(CellCommand::Cas { name, expected: self.expected, value })
    }
}

impl DeleteForm {
    pub fn command(self) -> Result<CellCommand> {
        Ok(CellCommand::Delete { name: Name::new(&self.name)?, counter: self.counter })
    }
}

impl IncrForm {
    pub fn command(self) -> Result<CellCommand> {
        Ok(CellCommand::Incr { name: Name::new(&self.name)?, by: number(self.by.as_deref())? })
    }
}

impl ExpireForm {
    pub fn command(self) -> Result<CellCommand> {
        Ok(CellCommand::Expire { name: Name::new(&self.name)?, ttl: self.ttl.into() })
    }
}

impl RestoreForm {
    pub fn command(self) -> Result<CellCommand> {
        let RestoreForm { name, value: raw, counter, expires } = self;
        let value = raw.map(|raw| value(&raw)).transpose()?;
        Ok(CellCommand::Restore { name: Name::new(&name)?, value, counter, expires })
    }
}

impl GetForm {
    pub fn named(self) -> Result<Name> {
        Name::new(&self.name)
    }

    pub fn command(self) -> Result<CellCommand> {
        Ok(CellCommand::Get { name: self.named()? })
    }
}

impl ListForm {
    pub fn command(self) -> Result<CellCommand> {
        let ListForm { prefix, after, limit } = self;
        Ok(CellCommand::List { prefix, after, limit: limit.unwrap_or(PAGE_DEFAULT) })
    }

    /// Lists the names of cells and records.
    pub fn names(self) -> KeyCommand {
        let ListForm { prefix, after, limit } = self;
        let kinds = vec![Contract::Cells, Contract::Records];
        let limit = limit.unwrap_or(PAGE_DEFAULT);
        let hidden = Vec::new();
        KeyCommand::Names { kinds, prefix, after, limit, hidden }
    }
}

impl CountNamesForm {
    pub fn command(self) -> KeyCommand {
        let kinds = vec![Contract::Cells, Contract::Records];
        KeyCommand::Count { kinds, limit: PAGE_LIMIT, hidden: Vec::new() }
    }
}

impl VersionsForm {
    pub fn of_cell(self) -> Result<CellCommand> {
        let limit = self.limit.unwrap_or(PAGE_DEFAULT);
        Ok(CellCommand::History { name: Name::new(&self.name)?, limit, before: self.before })
    }

    pub fn of_record(self) -> Result<RecordCommand> {
        let limit = self.limit.unwrap_or(PAGE_DEFAULT);
        Ok(RecordCommand::History { key: Name::new(&self.name)?, limit, before: self.before })
    }
}
