//! Redis's strings as commands on cells.
//!
//! They read and write in one step, and they know a value by its text: a string or bytes as they are,
//! everything else as JSON ([`Value::as_text`]). Two ways to a cell, one cell: what these write the
//! cell commands read, and the other way round.

use crate::wire::fields;
use crate::{Command, Name, Ttl, Value};
use serde::{Deserialize, Serialize};

/// What can be done with a cell by those who know only text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StringCommand {
    /// Writes if the condition holds; answers what was there before, written or not. A record of this name
    /// counts as being there, goes when it is written over, and has no text to be compared.
    Set {
        /// The cell.
        name: Name,
        /// Its new value.
        #[serde(with = "fields::value")]
        value: Value,
        /// What must hold.
        only: Only,
        /// What becomes of its time to live.
        ttl: Ttl,
    },
    /// Writes several cells, or none; their times to live end. A name given twice gets the last value.
    SetAll {
        /// The cells and their new values.
        #[serde(with = "fields::pairs")]
        pairs: Vec<(Name, Value)>,
        /// Writes only if all of them are absent.
        only_absent: bool,
    },
    /// Deletes; answers what was there.
    Take {
        /// The cell.
        name: Name,
    },
    /// Reads, and changes the time to live and nothing else; answers what is there.
    Touch {
        /// The cell.
        name: Name,
        /// What becomes of its time to live.
        ttl: Ttl,
    },
    /// Puts bytes behind the text; answers its length in bytes. An absent cell counts as empty.
    Append {
        /// The cell.
        name: Name,
        /// What to put behind.
        #[serde(with = "fields::bytes")]
        text: Vec<u8>,
    },
    /// Adds to a whole number or to the text of one; an absent cell counts as the text `0`.
    ///
    /// A text stays a text and an integer an integer; the answer is the integer.
    Add {
        /// The cell.
        name: Name,
        /// What to add.
        by: i64,
    },
    /// Adds to a number or to the text of one; an absent cell counts as the text `0`.
    ///
    /// Short decimals are added exactly: 0.1 and 0.2 are 0.3. A text stays a text, with at most 17
    /// digits behind its point; a float stays a float; an integer stays one where the sum is whole.
    AddFloat {
        /// The cell.
        name: Name,
        /// What to add, as text: a float would have lost what was meant.
        by: String,
    },
    /// Changes the time to live if the condition holds; answers whether it did.
    Expire {
        /// The cell.
        name: Name,
        /// Its new time to live.
        ttl: Ttl,
        /// What must hold.
        only: ExpireOnly,
    },
    /// Ends the time to live; answers whether there was one.
    Persist {
        /// The cell.
        name: Name,
    },
    /// Writes, whatever was there: a record of this name goes. Answers the new counter.
    Put {
        /// The cell.
        name: Name,
        /// Its new value.
        #[serde(with = "fields::value")]
        value: Value,
        /// What becomes of its time to live.
        ttl: Ttl,
    },
    /// Reads; a record of this name is the error `WrongType`.
    Get {
        /// The cell.
        name: Name,
    },
    /// As `Set`, for those who want to know what was there: a record of this name is the error
    /// `WrongType`.
    Swap {
        /// The cell.
        name: Name,
        /// Its new value.
        #[serde(with = "fields::value")]
        value: Value,
        /// What must hold.
        only: Only,
        /// What becomes of its time to live.
        ttl: Ttl,
    },
}

/// What must hold for a [`StringCommand::Set`] to write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Only {
    /// Nothing.
    #[default]
    Always,
    /// The cell is absent.
    Absent,
    /// The cell is there.
    Present,
    /// The cell is there and has the text of this value.
    Equals(#[serde(with = "fields::value")] Value),
    /// The cell has another text than this value, or is absent.
    Differs(#[serde(with = "fields::value")] Value),
}

/// What must hold for a [`StringCommand::Expire`] to take effect. No expiry counts as one that never
/// comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExpireOnly {
    /// Nothing.
    #[default]
    Always,
    /// The cell has no expiry.
    WithoutExpiry,
    /// The cell has an expiry.
    WithExpiry,
    /// The new expiry is later than the present one.
    Later,
    /// The new expiry is earlier than the present one.
    Earlier,
    /// The cell has an expiry, and the new one is earlier.
    EarlierThanThere,
}

impl StringCommand {
    /// The cell that it is about; one that writes several is about none in particular.
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
