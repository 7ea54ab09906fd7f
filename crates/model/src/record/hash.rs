//! Redis hash commands on records.
//!
//! They return the same results as Redis, which counts fields and not writes. A name that a cell has is
//! refused with `WrongType`, because in Redis a name has only one type.

use super::Field;
use crate::Name;
use crate::wire::fields;
use serde::{Deserialize, Serialize};

/// Redis hash commands on a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum HashCommand {
    /// Sets fields. Returns the number of new fields.
    Set {
        /// The record.
        key: Name,
        /// The fields with their values. For a duplicate name, the last value counts.
        #[serde(with = "fields::list")]
        pairs: Vec<(Field, Vec<u8>)>,
        /// If set, writes only if none of the fields exists, and returns whether it did.
        only_absent: bool,
    },
    /// Removes fields. Returns the number of removed fields.
    Delete {
        /// The record.
        key: Name,
        /// The fields.
        #[serde(with = "fields::list")]
        fields: Vec<Field>,
    },
    /// Adds to an integer. A missing field counts as 0. Returns the sum.
    Add {
        /// The record.
        key: Name,
        /// The field.
        field: Field,
        /// The addend.
        by: i64,
    },
    /// Adds to a decimal number. A missing field counts as 0. Returns the sum.
    AddFloat {
        /// The record.
        key: Name,
        /// The field.
        field: Field,
        /// The addend as text, because a float would lose precision.
        by: String,
    },
    /// Reads fields.
    Get {
        /// The record.
        key: Name,
        /// Only these fields; `None` for all.
        #[serde(with = "fields::maybe_list")]
        fields: Option<Vec<Field>>,
    },
    /// Returns the number of fields.
    Count {
        /// The record.
        key: Name,
    },
}

impl HashCommand {
    /// The record of the command.
    pub fn key(&self) -> &Name {
        match self {
            HashCommand::Set { key, .. }
            | HashCommand::Delete { key, .. }
            | HashCommand::Add { key, .. }
            | HashCommand::AddFloat { key, .. }
            | HashCommand::Get { key, .. }
            | HashCommand::Count { key } => key,
        }
    }

    /// Returns whether the command is read-only.
    pub fn is_read(&self) -> bool {
        matches!(self, HashCommand::Get { .. } | HashCommand::Count { .. })
    }
}
