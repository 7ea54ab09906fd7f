//! Redis's hashes as commands on records.
//!
//! They answer as Redis does, which counts fields rather than writes. A name that a cell has is refused
//! with `WrongType`: to Redis a name is one thing.

use super::Field;
use crate::Name;
use crate::wire::fields;
use serde::{Deserialize, Serialize};

/// What can be done with a record by those who know hashes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum HashCommand {
    /// Puts fields in; answers how many of them are new.
    Set {
        /// The record.
        key: Name,
        /// The fields; of a name given twice the last one counts.
        #[serde(with = "fields::list")]
        pairs: Vec<(Field, Vec<u8>)>,
        /// Writes only if none of them is there; answers whether it did.
        only_absent: bool,
    },
    /// Takes fields out; answers how many of them were there.
    Delete {
        /// The record.
        key: Name,
        /// The fields.
        #[serde(with = "fields::list")]
        fields: Vec<Field>,
    },
    /// Adds to a whole number; an absent field counts as 0. Answers the sum.
    Add {
        /// The record.
        key: Name,
        /// The field.
        field: Field,
        /// What to add.
        by: i64,
    },
    /// Adds to a decimal number; an absent field counts as 0. Answers the sum.
    AddFloat {
        /// The record.
        key: Name,
        /// The field.
        field: Field,
        /// What to add, as text: a float would have lost what was meant.
        by: String,
    },
    /// Reads.
    Get {
        /// The record.
        key: Name,
        /// Only these fields; nothing for all.
        #[serde(with = "fields::maybe_list")]
        fields: Option<Vec<Field>>,
    },
    /// Answers how many fields there are.
    Count {
        /// The record.
        key: Name,
    },
}

impl HashCommand {
    /// The record that it is about.
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

    /// Whether it changes nothing.
    pub fn is_read(&self) -> bool {
        matches!(self, HashCommand::Get { .. } | HashCommand::Count { .. })
    }
}
