//! JSON forms of commands on cells as Redis strings.

use super::cell::TtlForm;
use super::{Raw, value};
use mainstay::{ExpireOnly, Name, Only, Result, StringCommand, Ttl, Value};
use serde::Deserialize;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwapForm {
    /// The cell.
    name: String,
    /// Its new value.
    #[schema(value_type = serde_json::Value)]
    value: Raw,
    /// What must hold; nothing without it.
    #[serde(default)]
    only: OnlyForm,
    /// What becomes of its time to live; without it, it ends.
    #[serde(default)]
    ttl: TtlForm,
}

/// What must hold for a value to be written.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnlyForm {
    /// Nothing.
    #[default]
    Always,
    /// The cell is absent.
    Absent,
    /// The cell is there.
    Present,
    /// The cell is there and has the text of this value.
    #[schema(value_type = serde_json::Value)]
    Equals(Raw),
    /// The cell has another text than this value, or is absent.
    #[schema(value_type = serde_json::Value)]
    Differs(Raw),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetAllForm {
    /// The cells and their new values; a name given twice gets the last one.
    pairs: Vec<PairForm>,
    /// Writes only if all of them are absent.
    #[serde(default)]
    only_absent: bool,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PairForm {
    /// The cell.
    name: String,
    /// Its new value.
    #[schema(value_type = serde_json::Value)]
    value: Raw,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TouchForm {
    /// The cell.
    name: String,
    /// Its new time to live.
    ttl: TtlForm,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppendForm {
    /// The cell.
    name: String,
    /// What to put behind: a string, or bytes.
    #[schema(value_type = serde_json::Value)]
    text: Raw,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddForm {
    /// The cell.
    name: String,
    /// What to add.
    by: i64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddFloatForm {
    /// The cell.
    name: String,
    /// What to add, as text: a float would have lost what was meant.
    by: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpireIfForm {
    /// The cell.
    name: String,
    /// Its new time to live.
    ttl: TtlForm,
    /// What must hold.
    only: ExpireOnlyForm,
}

/// What must hold for a time to live to change. No expiry counts as one that never comes.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExpireOnlyForm {
    /// The cell has no expiry.
    WithoutExpiry,
    /// The cell has an expiry.
    WithExpiry,
    /// The new expiry is later than the present one.
    Later,
    /// The new expiry is earlier than the present one.
    Earlier,
}

impl SwapForm {
    pub fn command(self) -> Result<StringCommand> {
        let (name, value, only, ttl) = self.parts()?;
        Ok(StringCommand::Set { name, value, only, ttl })
    }

    /// Like `command`, but also answers the old value; a record of this name is refused.
    pub fn text(self) -> Result<StringCommand> {
        let (name, value, only, ttl) = self.parts()?;
        Ok(StringCommand::Swap { name, value, only, ttl })
    }

    fn parts(self) -> Result<(Name, Value, Only, Ttl)> {
        let only = match self.only {
            OnlyForm::Always => Only::Always,
            OnlyForm::Absent => Only::Absent,
            OnlyForm::Present => Only::Present,
            OnlyForm::Equals(raw) => Only::Equals(value(&raw)?),
            OnlyForm::Differs(raw) => Only::Differs(value(&raw)?),
        };
        let name = Name::new(&self.name)?;
        let value = value(&self.value)?;
        Ok((name, value, only, self.ttl.into()))
    }
}

impl SetAllForm {
    pub fn command(self) -> Result<StringCommand> {
        let pairs = self
            .pairs
            .into_iter()
            .map(|pair| Ok((Name::new(&pair.name)?, value(&pair.value)?)))
            .collect::<Result<_>>()?;
        Ok(StringCommand::SetAll { pairs, only_absent: self.only_absent })
    }
}

impl TouchForm {
    pub fn command(self) -> Result<StringCommand> {
        Ok(StringCommand::Touch { name: Name::new(&self.name)?, ttl: self.ttl.into() })
    }
}

impl AppendForm {
    pub fn command(self) -> Result<StringCommand> {
        let text = value(&self.text)?.as_text().into_owned();
        Ok(StringCommand::Append { name: Name::new(&self.name)?, text })
    }
}

impl AddForm {
    pub fn command(self) -> Result<StringCommand> {
        Ok(StringCommand::Add { name: Name::new(&self.name)?, by: self.by })
    }
}

impl AddFloatForm {
    pub fn command(self) -> Result<StringCommand> {
        Ok(StringCommand::AddFloat { name: Name::new(&self.name)?, by: self.by })
    }
}

impl ExpireIfForm {
    pub fn command(self) -> Result<StringCommand> {
        let name = Name::new(&self.name)?;
        let only = only(self.only);
        Ok(StringCommand::Expire { name, ttl: self.ttl.into(), only })
    }
}

/// Converts the condition on an expiry.
pub(super) fn only(form: ExpireOnlyForm) -> ExpireOnly {
    match form {
        ExpireOnlyForm::WithoutExpiry => ExpireOnly::WithoutExpiry,
        ExpireOnlyForm::WithExpiry => ExpireOnly::WithExpiry,
        ExpireOnlyForm::Later => ExpireOnly::Later,
        ExpireOnlyForm::Earlier => ExpireOnly::Earlier,
    }
}
