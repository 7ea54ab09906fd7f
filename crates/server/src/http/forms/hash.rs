//! JSON forms of commands on records as Redis hashes.

use super::Raw;
use super::field::pairs;
use super::record::{GetRecordForm, fields_of};
use mainstay::{Field, HashCommand, Name, Result};
use serde::Deserialize;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HashSetForm {
    /// The record.
    key: String,
    /// The fields that are put in.
    #[schema(value_type = Object)]
    fields: Raw,
    /// Writes only if none of them is there.
    #[serde(default)]
    only_absent: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HashDeleteForm {
    /// The record.
    key: String,
    /// The fields that are taken out.
    fields: Vec<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HashAddForm {
    /// The record.
    key: String,
    /// The field.
    field: String,
    /// What to add.
    by: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HashAddFloatForm {
    /// The record.
    key: String,
    /// The field.
    field: String,
    /// What to add, as text: a float would have lost what was meant.
    by: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HashCountForm {
    /// The record.
    key: String,
}

impl HashSetForm {
    pub fn command(self) -> Result<HashCommand> {
        let key = Name::new(&self.key)?;
        let pairs = pairs(&self.fields)?;
        Ok(HashCommand::Set { key, pairs, only_absent: self.only_absent })
    }
}

impl HashDeleteForm {
    pub fn command(self) -> Result<HashCommand> {
        Ok(HashCommand::Delete { key: Name::new(&self.key)?, fields: fields_of(self.fields)? })
    }
}

impl HashAddForm {
    pub fn command(self) -> Result<HashCommand> {
        let key = Name::new(&self.key)?;
        let field = Field::from_text(&self.field)?;
        Ok(HashCommand::Add { key, field, by: self.by })
    }
}

impl HashAddFloatForm {
    pub fn command(self) -> Result<HashCommand> {
        let key = Name::new(&self.key)?;
        let field = Field::from_text(&self.field)?;
        Ok(HashCommand::AddFloat { key, field, by: self.by })
    }
}

impl HashCountForm {
    pub fn command(self) -> Result<HashCommand> {
        Ok(HashCommand::Count { key: Name::new(&self.key)? })
    }
}

impl GetRecordForm {
    /// The same read as a Redis hash: a cell of this name is refused.
    pub fn hash(self) -> Result<HashCommand> {
        let fields = self.fields.map(fields_of).transpose()?;
        Ok(HashCommand::Get { key: Name::new(&self.key)?, fields })
    }
}
