//! Writes to a space of keyed state, their results, and the stored values.

use super::Version;
use crate::limits::VALUE_LIMIT_BYTES;
use crate::wire::fields;
use crate::{Code, Error, Result, check_name};
use serde::{Deserialize, Serialize};

/// The longest key of a space and the longest id of an item, in bytes.
pub const STATE_KEY_LIMIT_BYTES: usize = 1_024;

/// One write to a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StateWrite {
    /// Writes a key's state if the version is newer than the key's.
    Put {
        /// The key, which may be any bytes.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// The new state.
        #[serde(with = "fields::bytes")]
        value: Vec<u8>,
        /// The version of the write.
        version: Version,
    },
    /// Deletes a key's state if the version is newer than the key's. A tombstone keeps the version.
    Delete {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// The version of the deletion.
        version: Version,
    },
    /// Adds an item to a key's log, unless the log has an item with this id.
    Append {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// The item's id. A log is read in the order of its ids.
        #[serde(with = "fields::bytes")]
        id: Vec<u8>,
        /// The item.
        #[serde(with = "fields::bytes")]
        item: Vec<u8>,
    },
    /// Advances the position of a source or sink, atomically with the states that depend on it. A position
    /// that is not higher is a no-op.
    Advance {
        /// The name of the source or sink.
        source: String,
        /// The new position.
        position: u64,
    },
    /// Writes the result of a merge function if the key still has the version that the function read.
    Merge {
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// The result; `None` for a deletion.
        #[serde(with = "fields::maybe_bytes")]
        value: Option<Vec<u8>>,
        /// The newest version merged into the result. If it equals `read`, the state does not change, and the
        /// settled writes were overtaken.
        version: Version,
        /// The key's version that the merge read; `None` if the key had none.
        read: Option<Version>,
        /// The versions of the waiting writes that this merge includes.
        #[serde(with = "fields::list")]
        settles: Vec<Version>,
    },
    /// Rejects the whole batch with `Conflict` if a write that the batch does not settle waits with a version
    /// below `below`. Otherwise a merge result could overtake a write that its function has not seen. It
    /// writes nothing itself.
    AllSettled {
        /// The exclusive upper bound of the checked versions.
        below: Version,
    },
}

impl StateWrite {
    /// Creates a [`StateWrite::Put`].
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

    /// Creates a [`StateWrite::Delete`].
    pub fn delete(key: impl Into<Vec<u8>>, version: impl Into<Version>) -> StateWrite {
        StateWrite::Delete { key: key.into(), version: version.into() }
    }

    /// Creates a [`StateWrite::Append`].
    pub fn append(
        key: impl Into<Vec<u8>>,
        id: impl Into<Vec<u8>>,
        item: impl Into<Vec<u8>>,
    ) -> StateWrite {
        StateWrite::Append { key: key.into(), id: id.into(), item: item.into() }
    }

    /// Creates a [`StateWrite::Advance`].
    pub fn advance(source: &str, position: u64) -> StateWrite {
        StateWrite::Advance { source: source.to_owned(), position }
    }

    /// The waiting writes that this merge settles: their key and their versions.
    pub fn settles(&self) -> Option<(&[u8], &[Version])> {
        match self {
            StateWrite::Merge { key, settles, .. } => Some((key, settles)),
            _ => None,
        }
    }

    /// The key of the write; `None` for a position.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            StateWrite::Put { key, .. }
            | StateWrite::Delete { key, .. }
            | StateWrite::Append { key, .. }
            | StateWrite::Merge { key, .. } => Some(key),
            StateWrite::Advance { .. } | StateWrite::AllSettled { .. } => None,
        }
    }

    /// The version that the write brings or checks.
    pub fn version(&self) -> Option<Version> {
        match self {
            StateWrite::Put { version, .. }
            | StateWrite::Delete { version, .. }
            | StateWrite::Merge { version, .. }
            | StateWrite::AllSettled { below: version } => Some(*version),
            StateWrite::Append { .. } | StateWrite::Advance { .. } => None,
        }
    }

    /// Rejects writes that are invalid whatever the space holds.
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
                // If all waiting writes were overtaken, they are dropped, and the key keeps its state and
                // version.
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

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Wrote {
    /// The write was newer and is applied.
    Applied,
    /// The write was not newer, or a duplicate. Nothing changed.
    Stale,
    /// The write waits until its version is sealed.
    Waiting,
    /// The key's version has changed since the merge read it. Nothing changed; read again and retry.
    Moved,
}

impl Wrote {
    /// Returns whether the write took effect.
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

/// The last write of a key, which may be a tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The version of the last applied write.
    pub version: Version,
    /// The state; `None` for a tombstone.
    #[serde(with = "fields::maybe_bytes")]
    pub value: Option<Vec<u8>>,
}

impl Kept {
    /// Returns the state, or `None` for a tombstone.
    pub fn into_state(self) -> Option<State> {
        let Kept { version, value } = self;
        value.map(|value| State { value, version })
    }
}

/// A page of keys with their states and the cursor of the next page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePage {
    /// Keys in byte order, without tombstones.
    pub states: Vec<(Vec<u8>, State)>,
    /// The cursor: pass it as `after` for the next page. `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// An item of a key's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The item's id.
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
