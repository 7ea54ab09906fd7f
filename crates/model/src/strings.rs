//! Redis string commands on cells.
//!
//! Each command reads and writes atomically. They see a value as text: a string or bytes unchanged,
//! everything else as JSON ([`Value::as_text`]). Cell commands and string commands access the same cells.

use crate::wire::fields;
use crate::{Command, Name, Ttl, Value};
use serde::{Deserialize, Serialize};

/// Redis string commands on a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StringCommand {
    /// Writes if the condition holds. Returns the old value in both cases. A record of this name counts as
    /// present, is replaced by the write, and has no text to compare.
    Set {
        /// The cell.
        name: Name,
        /// The new value.
        #[serde(with = "fields::value")]
        value: Value,
        /// The condition.
        only: Only,
        /// The new time to live.
        ttl: Ttl,
    },
    /// Writes several cells atomically and clears their times to live. For a duplicate name, the last value
    /// counts.
    SetAll {
        /// The cells and their new values.
        #[serde(with = "fields::pairs")]
        pairs: Vec<(Name, Value)>,
        /// If set, writes only if all cells are absent.
        only_absent: bool,
    },
    /// Deletes the cell. Returns its value.
    Take {
        /// The cell.
        name: Name,
    },
    /// Reads the cell and changes only its time to live. Returns the value.
    Touch {
        /// The cell.
        name: Name,
        /// The new time to live.
        ttl: Ttl,
    },
    /// Appends bytes to the text. Returns the new length in bytes. An absent cell counts as empty.
    Append {
        /// The cell.
        name: Name,
        /// The bytes to append.
        #[serde(with = "fields::bytes")]
        text: Vec<u8>,
    },
    /// Adds to an integer or to the text of one. An absent cell counts as the text `0`.
    ///
    /// A text stays a text and an integer stays an integer. The answer is the integer.
    Add {
        /// The cell.
        name: Name,
        /// The addend.
        by: i64,
    },
    /// Adds to a number or to the text of one. An absent cell counts as the text `0`.
    ///
    /// Short decimals are added exactly: 0.1 plus 0.2 is 0.3. A text stays a text with at most 17 digits
    /// after the point. A float stays a float. An integer stays an integer if the sum is whole.
    AddFloat {
        /// The cell.
        name: Name,
        /// The addend as text, because a float would lose precision.
        by: String,
    },
    /// Changes the time to live if the condition holds. Returns whether it did.
    Expire {
        /// The cell.
        name: Name,
        /// The new time to live.
        ttl: Ttl,
        /// The condition.
        only: ExpireOnly,
    },
    /// Clears the time to live. Returns whether the cell had one.
    Persist {
        /// The cell.
        name: Name,
    },
    /// Writes unconditionally and replaces a record of this name. Returns the new counter.
    Put {
        /// The cell.
        name: Name,
        /// The new value.
        #[serde(with = "fields::value")]
        value: Value,
        /// The new time to live.
        ttl: Ttl,
    },
    /// Reads the cell. A record of this name is the error `WrongType`.
    Get {
        /// The cell.
        name: Name,
    },
    /// Like `Set` for callers that use the old value: a record of this name is the error `WrongType`.
    Swap {
        /// The cell.
        name: Name,
        /// The new value.
        #[serde(with = "fields::value")]
        value: Value,
        /// The condition.
        only: Only,
        /// The new time to live.
        ttl: Ttl,
    },
}

/// The condition of a [`StringCommand::Set`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Only {
    /// No condition.
    #[default]
    Always,
    /// The cell is absent.
    Absent,
    /// The cell is present.
    Present,
    /// The cell is present and has the text of this value.
    Equals(#[serde(with = "fields::value")] Value),
    /// The cell has a different text than this value, or is absent.
    Differs(#[serde(with = "fields::value")] Value),
}

/// The condition of a [`StringCommand::Expire`]. A missing expiry counts as infinitely late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExpireOnly {
    /// No condition.
    #[default]
    Always,
    /// The cell has no expiry.
    WithoutExpiry,
    /// The cell has an expiry.
    WithExpiry,
    /// The new expiry is later than the current one.
    Later,
    /// The new expiry is earlier than the current one.
    Earlier,
    /// The cell has an expiry, and the new one is earlier.
    EarlierThanThere,
}

impl StringCommand {
    /// The cell of the command; `None` for a command that writes several.
    pub fn name(&self) -> Option<&Name> {
        match self {
            StringCommand::Set { name, .. }
            | StringCommand::Take { name }
            | StringCommand::Touch { name, .. }
            | StringCommand::Append { name, .. }
            | StringCommand::Add { name, .. }
            | StringCommand::AddFloat { name, .. }
            | StringCommand::Expire { name, .. }
            | StringCommand::Persist { name }
            | StringCommand::Put { name, .. }
            | StringCommand::Get { name }
            | StringCommand::Swap { name, .. } => Some(name),
            StringCommand::SetAll { .. } => None,
        }
    }
}

impl From<StringCommand> for Command {
    fn from(command: StringCommand) -> Command {
        Command::String(command)
    }
}
