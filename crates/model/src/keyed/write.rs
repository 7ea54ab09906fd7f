//! What is written to a space, what became of it, and what a space holds.

use super::Version;
use crate::limits::VALUE_LIMIT_BYTES;
use crate::wire::fields;
use crate::{Code, Error, Result, check_name};
use serde::{Deserialize, Serialize};

/// The longest key of a space, and the longest id of an item, in bytes.
pub const STATE_KEY_LIMIT_BYTES: usize = 1_024;

/// One write to a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StateWrite {
    /// Writes a key's state if the version is newer than the key's.
    Put {
        /// The key: any bytes.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// Its state from there on.
        #[serde(with = "fields::bytes")]
        value: Vec<u8>,
        /// When that is.
        version: Version,
    },
    /// Deletes a key's state if the version is newer than the key's; the version is remembered.
    Delete {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// When that is.
        version: Version,
    },
    /// Adds an item to a key's log, unless the log has one of this id.
    Append {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// What tells it from others; a log is read in the order of its ids.
        #[serde(with = "fields::bytes")]
        id: Vec<u8>,
        /// The item.
        #[serde(with = "fields::bytes")]
        item: Vec<u8>,
    },
    /// Says how far a source was read, or a sink written: the position stands with the states that belong to it.
    /// One that is not further is a no-op.
    Advance {
        /// The source.
        source: String,
        /// How far it was read.
        position: u64,
    },
    /// Writes what a merge function made of a key's state, if the key still has the version that it was made of.
    Merge {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// What it made; nothing for a deletion.
        #[serde(with = "fields::maybe_bytes")]
        value: Option<Vec<u8>>,
        /// The newest version that is in it. Where that is the one that was read, the state stays as it is, and what
        /// is settled was overtaken.
        version: Version,
        /// The key's version that was merged with; `None`: the key had none.
        read: Option<Version>,
        /// What waited and is in it, by version.
        #[serde(with = "fields::list")]
        settles: Vec<Version>,
    },
    /// Refuses all writes beside it, as a `Conflict`, if something waits below a version that none of them settles: what
    /// a function has not seen must not be overtaken by what it made. It changes nothing.
    AllSettled {
        /// The lowest version that does not matter.
        below: Version,
    },
}

impl StateWrite {
    /// Writes a key's state.
    ///
    /// ```
    /// use mainstay_model::StateWrite;
    /// let put = StateWrite::put("user-7", "3", 17);
    /// assert!(put.check().is_ok());
    /// assert!(StateWrite::put("", "3", 17).check().is_err());
    /// ```
    pub fn put(
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        version: impl Into<Version>,
    ) -> StateWrite {
        StateWrite::Put { key: key.into(), value: value.into(), version: version.into() }
    }

    /// Deletes a key's state.
    pub fn delete(key: impl Into<Vec<u8>>, version: impl Into<Version>) -> StateWrite {
        StateWrite::Delete { key: key.into(), version: version.into() }
    }

    /// Adds an item to a key's log.
    pub fn append(
        key: impl Into<Vec<u8>>,
        id: impl Into<Vec<u8>>,
        item: impl Into<Vec<u8>>,
    ) -> StateWrite {
        StateWrite::Append { key: key.into(), id: id.into(), item: item.into() }
    }

    /// Says how far a source was read.
    pub fn advance(source: &str, position: u64) -> StateWrite {
        StateWrite::Advance { source: source.to_owned(), position }
    }

    /// The writes that wait and are settled by it: their key, and their versions.
    pub fn settles(&self) -> Option<(&[u8], &[Version])> {
        match self {
            StateWrite::Merge { key, settles, .. } => Some((key, settles)),
            _ => None,
        }
    }

    /// The key that it is about; a position is about none.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            StateWrite::Put { key, .. }
            | StateWrite::Delete { key, .. }
            | StateWrite::Append { key, .. }
            | StateWrite::Merge { key, .. } => Some(key),
            StateWrite::Advance { .. } | StateWrite::AllSettled { .. } => None,
        }
    }

    /// The version that it brings, or asks about.
    pub fn version(&self) -> Option<Version> {
        match self {
            StateWrite::Put { version, .. }
            | StateWrite::Delete { version, .. }
            | StateWrite::Merge { version, .. }
            | StateWrite::AllSettled { below: version } => Some(*version),
            StateWrite::Append { .. } | StateWrite::Advance { .. } => None,
        }
    }

    /// Refuses what makes no sense whatever the space holds.
    pub fn check(&self) -> Result<()> {
        if let Some(key) = self.key() {
            check_key("a key", key)?;
        }
        match self {
            StateWrite::Put { value, .. } => check_value(value),
            StateWrite::Append { id, item, .. } => {
                check_key("the id of an item", id)?;
                check_value(item)
            }
            StateWrite::Advance { source, .. } => check_name(source),
            StateWrite::Merge { value, version, read, settles, .. } => {
                value.as_deref().map_or(Ok(()), check_value)?;
                let of_one_kind = read.iter().chain(settles).all(|v| v.kind() == version.kind());
                let is_newest = read.iter().chain(settles).all(|v| v <= version);
                // All that waited may have been overtaken: then it goes, and the key keeps its state and version.
                let brings_something = *read != Some(*version) || !settles.is_empty();
                if of_one_kind && is_newest && brings_something {
                    return Ok(());
                }
                let message = format!(
                    "what was merged up to version {version} is made of newer versions, or of another kind of them"
                );
                Err(Error::new(Code::InvalidVersion, message))
            }
            StateWrite::Delete { .. } | StateWrite::AllSettled { .. } => Ok(()),
        }
    }
}

fn check_key(what: &str, key: &[u8]) -> Result<()> {
    if (1..=STATE_KEY_LIMIT_BYTES).contains(&key.len()) {
        return Ok(());
    }
    let length = key.len();
    let message = format!("{what} has 1 to {STATE_KEY_LIMIT_BYTES} bytes, this one {length}");
    Err(Error::new(Code::InvalidName, message))
}

fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= VALUE_LIMIT_BYTES {
        return Ok(());
    }
    let message =
        format!("a state or item of {} bytes: {VALUE_LIMIT_BYTES} are the most", value.len());
    Err(Error::new(Code::ValueTooLarge, message))
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Wrote {
    /// It was newer: it is there.
    Applied,
    /// It was not newer, or there already: nothing happened.
    Stale,
    /// It waits until its version is sealed.
    Waiting,
    /// The key has another version than the one that was merged with: nothing happened; look again.
    Moved,
}

impl Wrote {
    /// Whether something happened.
    pub fn took_effect(self) -> bool {
        matches!(self, Wrote::Applied | Wrote::Waiting)
    }
}

/// A key's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The state.
    #[serde(with = "fields::bytes")]
    pub value: Vec<u8>,
    /// Its version.
    pub version: Version,
}

/// What is known of a key, also of one that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The version of the last write that was applied.
    pub version: Version,
    /// The state; nothing where that write deleted it.
    #[serde(with = "fields::maybe_bytes")]
    pub value: Option<Vec<u8>>,
}

impl Kept {
    /// The state, unless it was deleted.
    pub fn into_state(self) -> Option<State> {
        let Kept { version, value } = self;
        value.map(|value| State { value, version })
    }
}

/// A page of keys with their states, and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePage {
    /// Keys in byte order; deleted ones are not among them.
    pub states: Vec<(Vec<u8>, State)>,
    /// Pass this as `after` for the next page; `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// An item of a key's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// What tells it from others.
    #[serde(with = "fields::bytes")]
    pub id: Vec<u8>,
    /// The item.
    #[serde(with = "fields::bytes")]
    pub item: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogicalTime;

    #[test]
    fn what_is_merged_is_newer_than_what_it_is_made_of_or_settles_what_was_overtaken() {
        let merge = |version: Version, read: Option<u64>, settles: &[u64]| StateWrite::Merge {
            key: b"k".to_vec(),
            value: None,
            version,
            read: read.map(Version::U64),
            settles: settles.iter().copied().map(Version::U64).collect(),
        };
        for good in [merge(3.into(), None, &[]), merge(3.into(), Some(3), &[2])] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
        let time = LogicalTime::new(9, 9).into();
        for bad in [
            merge(3.into(), Some(3), &[]),
            merge(3.into(), Some(4), &[]),
            merge(3.into(), None, &[4]),
            merge(time, Some(3), &[]),
        ] {
            assert_eq!(bad.check().unwrap_err().code(), Code::InvalidVersion, "{bad:?}");
        }
    }
}
