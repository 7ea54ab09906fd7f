//! Commands on secondary indexes of records.

use super::Field;
use crate::wire::fields;
use crate::{Command, Revision};
use serde::{Deserialize, Serialize};

/// Commands on the secondary indexes of the database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum IndexCommand {
    /// Declares an index. Returns its number. From then on writes maintain it, and a background task adds the
    /// existing records.
    Add {
        /// Indexes records whose keys have this prefix.
        prefix: String,
        /// The indexed fields, the most significant first.
        #[serde(with = "fields::list")]
        fields: Vec<Field>,
    },
    /// Removes an index. Returns whether it existed.
    Drop {
        /// The number of the index.
        id: u32,
    },
    /// Internal command of the engine: continues to add existing records to the index. Returns whether more
    /// remain.
    Fill {
        /// The number of the index.
        id: u32,
        /// The number of records to process.
        limit: usize,
    },
}

impl From<IndexCommand> for Command {
    fn from(command: IndexCommand) -> Command {
        Command::Index(command)
    }
}

/// The state of a secondary index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexInfo {
    /// The number of the index.
    pub id: u32,
    /// The prefix of the indexed keys.
    pub prefix: String,
    /// The indexed fields.
    #[serde(with = "fields::list")]
    pub fields: Vec<Field>,
    /// The revision of the transaction that declared it.
    pub created: Revision,
    /// The revision from which on it serves scans; `None` while it is being built.
    pub ready: Option<Revision>,
    /// The number of existing records processed so far.
    pub filled: u64,
}
