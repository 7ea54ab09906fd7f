//! Indexes over fields of records.

use super::Field;
use crate::wire::fields;
use crate::{Command, Revision};
use serde::{Deserialize, Serialize};

/// What can be done with the indexes of the database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum IndexCommand {
    /// Declares one; answers its number. From here on writes keep it, and what was written before is filled
    /// in beside them.
    Add {
        /// Over records whose keys begin with this.
        prefix: String,
        /// Over these fields, the first one first.
        #[serde(with = "fields::list")]
        fields: Vec<Field>,
    },
    /// Removes one; answers whether there was one.
    Drop {
        /// Its number.
        id: u32,
    },
    /// On behalf of the engine: fills in records that were written before, from where it was left;
    /// answers whether there are more.
    Fill {
        /// Its number.
        id: u32,
        /// How many records are looked at.
        limit: usize,
    },
}

impl From<IndexCommand> for Command {
    fn from(command: IndexCommand) -> Command {
        Command::Index(command)
    }
}

/// An index, as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexInfo {
    /// Its number.
    pub id: u32,
    /// Over records whose keys begin with this.
    pub prefix: String,
    /// Over these fields.
    #[serde(with = "fields::list")]
    pub fields: Vec<Field>,
    /// The transaction that declared it.
    pub created: Revision,
    /// The revision from which on it serves scans; nothing while it is being filled.
    pub ready: Option<Revision>,
    /// How many records have been looked at to fill it.
    pub filled: u64,
}
