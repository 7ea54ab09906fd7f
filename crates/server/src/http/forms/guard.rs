//! Guards: what must hold.

use super::{Raw, value};
use mainstay::{Contract, Guard, Name, Result};
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
    /// The cell has not been written since a revision, nor has it expired.
    Unchanged(UnchangedGuard),
    /// No cell of a range has been written since a revision.
    RangeUnchanged(RangeGuard),
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
    /// The cell.
    name: String,
    /// The revision it was read at.
    since: u64,
    /// Its expiry as it was read, in microseconds.
    expires: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeGuard {
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
            GuardForm::Unchanged(UnchangedGuard { name: cell, since, expires }) => {
                Guard::Unchanged { contract: Contract::Cells, name: name(cell)?, since, expires }
            }
            GuardForm::RangeUnchanged(RangeGuard { prefix, after, upto, since, expires }) => {
                Guard::RangeUnchanged {
                    contract: Contract::Cells,
                    prefix,
                    after,
                    upto,
                    since,
                    expires,
                }
            }
        })
    }
}
