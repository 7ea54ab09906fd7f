//! Guards: what must hold.

use super::field::bytes_of;
use super::{Raw, said, value};
use mainstay::{Contract, Field, Guard, Name, Result};
use serde::Deserialize;
use utoipa::ToSchema;

/// What must hold for the commands to run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GuardForm {
    /// The cell has this counter.
    Counter(CounterGuard),
    /// The cell is absent.
    Absent(AbsentGuard),
    /// The cell has this value; null is a value.
    Value(ValueGuard),
    /// The cell or record has not been written since a revision, nor has it expired.
    Unchanged(UnchangedGuard),
    /// Nothing in a range has been written since a revision.
    RangeUnchanged(RangeGuard),
    /// The record has this counter.
    Record(RecordGuard),
    /// The record is absent.
    RecordAbsent(RecordAbsentGuard),
    /// A field of a record has this value; null: there is no such field, and maybe no record.
    Field(FieldGuard),
    /// The event of a run that has this idempotency key has this sequence.
    Event(EventGuard),
    /// A run has no event with this idempotency key; maybe there is no run.
    EventAbsent(EventAbsentGuard),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CounterGuard {
    /// The cell.
    name: String,
    /// Its counter.
    is: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AbsentGuard {
    /// The cell.
    name: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValueGuard {
    /// The cell.
    name: String,
    /// Its value.
    #[schema(value_type = serde_json::Value)]
    is: Raw,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnchangedGuard {
    /// The kind of state; cells without it.
    #[serde(default)]
    contract: ContractForm,
    /// The cell, or the record's key.
    name: String,
    /// The revision it was read at.
    since: u64,
    /// Its expiry as it was read, in microseconds.
    expires: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeGuard {
    /// The kind of state; cells without it.
    #[serde(default)]
    contract: ContractForm,
    /// Only names that begin with this.
    #[serde(default)]
    prefix: String,
    /// Only names behind this one.
    after: Option<String>,
    /// Only names up to and including this one.
    upto: Option<String>,
    /// The revision it was read at.
    since: u64,
    /// The earliest expiry seen in the range, in microseconds.
    expires: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordGuard {
    /// The record.
    key: String,
    /// Its counter.
    is: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordAbsentGuard {
    /// The record.
    key: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldGuard {
    /// The record.
    key: String,
    /// The field.
    field: String,
    /// Its value, null for none.
    #[serde(deserialize_with = "said")]
    #[schema(required = true, value_type = Option<serde_json::Value>)]
    is: Option<Raw>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventGuard {
    /// The run.
    run: String,
    /// The idempotency key.
    key: String,
    /// The event's sequence.
    is: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventAbsentGuard {
    /// The run.
    run: String,
    /// The idempotency key.
    key: String,
}

/// A kind of state that can be read and written.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ContractForm {
    /// Named values.
    #[default]
    Cells,
    /// Fields with bytes under a key.
    Records,
    /// Logs of events.
    Runs,
}

impl From<ContractForm> for Contract {
    fn from(form: ContractForm) -> Contract {
        match form {
            ContractForm::Cells => Contract::Cells,
            ContractForm::Records => Contract::Records,
            ContractForm::Runs => Contract::Runs,
        }
    }
}

impl GuardForm {
    /// The guard it stands for.
    pub fn guard(self) -> Result<Guard> {
        let name = |name: String| Name::new(&name);
        Ok(match self {
            GuardForm::Counter(form) => {
                Guard::Counter { name: name(form.name)?, is: Some(form.is) }
            }
            GuardForm::Absent(form) => Guard::Counter { name: name(form.name)?, is: None },
            GuardForm::Value(form) => {
                Guard::Value { name: name(form.name)?, is: Some(value(&form.is)?) }
            }
            GuardForm::Unchanged(form) => form.guard()?,
            GuardForm::RangeUnchanged(form) => form.guard(),
            GuardForm::Record(form) => Guard::Record { key: name(form.key)?, is: Some(form.is) },
            GuardForm::RecordAbsent(form) => Guard::Record { key: name(form.key)?, is: None },
            GuardForm::Field(FieldGuard { key, field, is }) => {
                let is = is.map(|is| bytes_of(&field, &is)).transpose()?;
                Guard::Field { key: name(key)?, field: Field::from_text(&field)?, is }
            }
            GuardForm::Event(EventGuard { run, key, is }) => {
                Guard::Event { run: name(run)?, key, is: Some(is) }
            }
            GuardForm::EventAbsent(EventAbsentGuard { run, key }) => {
                Guard::Event { run: name(run)?, key, is: None }
            }
        })
    }
}

impl UnchangedGuard {
    fn guard(self) -> Result<Guard> {
        let UnchangedGuard { contract, name, since, expires } = self;
        let (contract, name) = (contract.into(), Name::new(&name)?);
        Ok(Guard::Unchanged { contract, name, since, expires })
    }
}

impl RangeGuard {
    fn guard(self) -> Guard {
        let RangeGuard { contract, prefix, after, upto, since, expires } = self;
        Guard::RangeUnchanged { contract: contract.into(), prefix, after, upto, since, expires }
    }
}
