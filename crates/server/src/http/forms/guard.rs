//! JSON forms of guards: conditions that must hold for a transaction to commit.

use super::field::bytes_of;
use super::keyed::{VersionForm, key_of};
use super::{Raw, said, value};
use mainstay::{Code, Contract, EntryKind, Error, Field, Guard, Name, Result, StatePlace};
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
    /// A key of a space has this version, also one of a deletion.
    StateVersion(StateVersionGuard),
    /// Nothing was written to a key of a space; maybe there is no space.
    StateAbsent(StateAbsentGuard),
    /// What is named of a space has not been written since a revision: a key, an item of its log, a position, all keys
    /// with a prefix; else how the space is declared.
    StateUnchanged(StateUnchangedGuard),
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

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateVersionGuard {
    /// The space.
    space: String,
    /// The key.
    key: String,
    /// Its version.
    is: VersionForm,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateAbsentGuard {
    /// The space.
    space: String,
    /// The key.
    key: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateUnchangedGuard {
    /// The space.
    space: String,
    /// This key.
    key: Option<String>,
    /// With a key: the item of its log that has this id.
    id: Option<String>,
    /// The position of this source.
    source: Option<String>,
    /// All keys that begin with this.
    prefix: Option<String>,
    /// The revision it was read at.
    since: u64,
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
    /// Spaces of keyed state, by how they are declared.
    Keyed,
}

impl From<ContractForm> for Contract {
    fn from(form: ContractForm) -> Contract {
        match form {
            ContractForm::Cells => Contract::Cells,
            ContractForm::Records => Contract::Records,
            ContractForm::Runs => Contract::Runs,
            ContractForm::Keyed => Contract::Keyed,
        }
    }
}

impl GuardForm {
    /// Converts the form to a guard.
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
            GuardForm::StateVersion(StateVersionGuard { space, key, is }) => {
                let space = name(space)?;
                let key = key_of(&key)?;
                Guard::StateVersion { space, key, is: Some(is.version()?) }
            }
            GuardForm::StateAbsent(StateAbsentGuard { space, key }) => {
                Guard::StateVersion { space: name(space)?, key: key_of(&key)?, is: None }
            }
            GuardForm::StateUnchanged(form) => form.guard()?,
        })
    }
}

impl StateUnchangedGuard {
    fn guard(self) -> Result<Guard> {
        let space = Name::new(&self.space)?;
        let since = self.since;
        let place = match (self.key, self.id, self.source, self.prefix) {
            (None, None, None, None) => StatePlace::Space,
            (Some(key), None, None, None) => StatePlace::Key(key_of(&key)?),
            (Some(key), Some(id), None, None) => {
                StatePlace::Item { key: key_of(&key)?, id: key_of(&id)? }
            }
            (None, None, Some(source), None) => StatePlace::Position(source),
            (None, None, None, Some(prefix)) => {
                let prefix = EntryKind::state(&key_of(&prefix)?).to_vec();
                StatePlace::Range { prefix, after: None, upto: None }
            }
            _ => {
                let message = "state_unchanged is about a key, a key and the id of an item, a source, a prefix, or the space";
                return Err(Error::new(Code::InvalidArgument, message));
            }
        };
        Ok(Guard::StateUnchanged { space, place, since })
    }
}

impl UnchangedGuard {
    fn guard(self) -> Result<Guard> {
        let UnchangedGuard { contract, name, since, expires } = self;
        let contract = contract.into();
        let name = Name::new(&name)?;
        Ok(Guard::Unchanged { contract, name, since, expires })
    }
}

impl RangeGuard {
    fn guard(self) -> Guard {
        let RangeGuard { contract, prefix, after, upto, since, expires } = self;
        Guard::RangeUnchanged { contract: contract.into(), prefix, after, upto, since, expires }
    }
}
