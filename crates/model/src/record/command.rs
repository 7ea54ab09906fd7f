//! Commands on records: conditional writes, picks, scans and history.

use super::{Field, Fields, HashCommand, Where};
use crate::limits::{check_conditions, check_filters};
use crate::wire::fields;
use crate::{Code, Command, Error, ExpireOnly, Name, Ttl};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Commands on a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RecordCommand {
    /// Writes fields if all conditions hold. Returns the new counter, or `None` if a condition does not hold.
    Write(Box<RecordWrite>),
    /// Deletes the record if all conditions hold. Returns whether it did.
    Delete {
        /// The record.
        key: Name,
        /// The conditions.
        #[serde(with = "fields::list")]
        when: Vec<Condition>,
    },
    /// Changes the time to live if the condition holds. Returns whether it did.
    Expire {
        /// The record.
        key: Name,
        /// The new time to live.
        ttl: Ttl,
        /// The condition.
        only: ExpireOnly,
    },
    /// Writes an exported version. The counter never decreases.
    Restore {
        /// The record.
        key: Name,
        /// The fields; `None` for a deletion.
        fields: Option<Fields>,
        /// The counter of the exported version.
        counter: u64,
        /// The expiry, in microseconds since the epoch.
        expires: Option<u64>,
    },
    /// Reads the record as the transaction sees it.
    Get {
        /// The record.
        key: Name,
        /// Only these fields; `None` for all.
        #[serde(with = "fields::maybe_list")]
        fields: Option<Vec<Field>>,
    },
    /// Scans records in byte order of their keys, as the transaction sees them.
    Scan {
        /// Returns only keys with this prefix.
        prefix: String,
        /// Returns only records that match all filters.
        #[serde(with = "fields::list")]
        filters: Vec<Where>,
        /// The cursor: returns only keys after this one.
        after: Option<String>,
        /// The page size.
        limit: usize,
    },
    /// Counts records, as the transaction sees them.
    Count {
        /// Counts only keys with this prefix.
        prefix: String,
        /// Counts only records that match all filters.
        #[serde(with = "fields::list")]
        filters: Vec<Where>,
    },
    /// Finds the first matching record and writes to it. Returns its key and its new content, or `None`.
    Pick(Box<RecordPick>),
    /// Reads the versions of a record, newest first, as the transaction sees them.
    History {
        /// The record.
        key: Name,
        /// The page size.
        limit: usize,
        /// Returns only versions with a smaller counter.
        before: Option<u64>,
    },
}

/// A write to a record. It checks its conditions and applies its changes in one atomic step.
///
/// ```
/// use mainstay_model::RecordWrite;
/// // A worker claims an unclaimed job.
/// let claim = RecordWrite::to("tasks.email.17")?
///     .when_field("state", "pending")?
///     .set("state", "claimed")?
///     .set("worker", "w1")?
///     .clear("error")?;
/// assert_eq!((claim.when.len(), claim.set.len(), claim.clear.len()), (1, 2, 1));
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordWrite {
    /// The record.
    pub key: Name,
    /// The conditions. If one does not hold, nothing is written.
    #[serde(with = "fields::list")]
    pub when: Vec<Condition>,
    /// True if the write drops the fields that it does not set.
    pub replace: bool,
    /// The fields to set.
    #[serde(with = "fields::list")]
    pub set: Vec<(Field, FieldValue)>,
    /// The fields to remove.
    #[serde(with = "fields::list")]
    pub clear: Vec<Field>,
    /// The new time to live.
    pub ttl: Ttl,
}

impl RecordWrite {
    /// A write without changes that keeps the expiry.
    pub fn to(key: &str) -> crate::Result<RecordWrite> {
        Ok(RecordWrite {
            key: Name::new(key)?,
            when: Vec::new(),
            replace: false,
            set: Vec::new(),
            clear: Vec::new(),
            ttl: Ttl::Keep,
        })
    }

    /// A write that sets at least one field. It sets the time to live if one is given; otherwise the expiry
    /// stays.
    pub fn of(key: &str, fields: &Fields, ttl: Option<Ttl>) -> crate::Result<RecordWrite> {
        if fields.is_empty() {
            return Err(Error::new(Code::InvalidField, NO_FIELDS));
        }
        let mut write = RecordWrite::to(key)?.ttl(ttl.unwrap_or(Ttl::Keep));
        write.set =
            fields.iter().map(|(field, value)| (field.clone(), FieldValue::from(value))).collect();
        Ok(write)
    }

    /// Unwraps the counter of a write without conditions that sets a field: such a write always takes effect.
    pub fn done(counter: Option<u64>) -> crate::Result<u64> {
        let message = "a write without conditions did nothing";
        counter.ok_or_else(|| Error::new(Code::Unsupported, message))
    }

    /// Adds a condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> RecordWrite {
        self.when.push(condition);
        self
    }

    /// Adds the condition that a field has this value.
    pub fn when_field(self, field: &str, is: impl AsRef<[u8]>) -> crate::Result<RecordWrite> {
        let is = Some(is.as_ref().to_vec());
        Ok(self.when(Condition::Field { field: Field::new(field)?, is }))
    }

    /// Adds the condition that the field, or the whole record, does not exist.
    pub fn when_absent(self, field: &str) -> crate::Result<RecordWrite> {
        Ok(self.when(Condition::Field { field: Field::new(field)?, is: None }))
    }

    /// Adds the condition that the record has this counter (`None`: that it does not exist).
    #[must_use]
    pub fn when_counter(self, is: Option<u64>) -> RecordWrite {
        self.when(Condition::Counter { is })
    }

    /// Sets a field.
    pub fn set(mut self, field: &str, value: impl Into<FieldValue>) -> crate::Result<RecordWrite> {
        self.set.push((Field::new(field)?, value.into()));
        Ok(self)
    }

    /// Removes a field.
    pub fn clear(mut self, field: &str) -> crate::Result<RecordWrite> {
        self.clear.push(Field::new(field)?);
        Ok(self)
    }

    /// Drops the fields that are not set.
    #[must_use]
    pub fn replace(mut self) -> RecordWrite {
        self.replace = true;
        self
    }

    /// Changes the time to live. A write to an existing record may change nothing else.
    #[must_use]
    pub fn ttl(mut self, ttl: Ttl) -> RecordWrite {
        self.ttl = ttl;
        self
    }

    /// Rejects writes that are invalid whatever is stored: no fields, a field that is listed twice, or too
    /// many conditions.
    pub fn check(&self) -> crate::Result<()> {
        check_conditions(self.when.len())?;
        check_changes(&self.set, &self.clear, self.replace, self.ttl)
    }

    /// Returns whether the write is blind: it reads nothing, merges into any existing record, and returns
    /// only the counter.
    pub fn is_blind(&self) -> bool {
        let looks = |(_, value): &(Field, FieldValue)| {
            matches!(value, FieldValue::Sum { .. } | FieldValue::Copy { .. })
        };
        self.when.is_empty() && !self.set.is_empty() && !self.set.iter().any(looks)
    }
}

/// Finds the first matching record and writes to it in one atomic step, so that two concurrent callers never
/// get the same record.
///
/// ```
/// use mainstay_model::{Field, RecordPick, Test, Where};
/// let pending = Where { field: Field::new("state")?, test: Test::Eq(b"pending".to_vec()) };
/// let next = RecordPick::under("tasks.", vec![pending]).by("rank")?.set("state", "claimed")?;
/// assert_eq!((next.filters.len(), next.set.len()), (1, 1));
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordPick {
    /// Considers only records whose keys have this prefix.
    pub prefix: String,
    /// Considers only records that match all filters.
    #[serde(with = "fields::list")]
    pub filters: Vec<Where>,
    /// Picks the record with the lowest value of this field, in the order of scans. Only the first 48 bytes
    /// of a text and 32 digits of a number are compared. Records without the field come first. Among equal
    /// records, and without `by`, the lowest key wins.
    pub by: Option<Field>,
    /// If set, considers only records that were written on this branch itself since its fork.
    pub own: bool,
    /// The fields to set.
    #[serde(with = "fields::list")]
    pub set: Vec<(Field, FieldValue)>,
    /// The fields to remove.
    #[serde(with = "fields::list")]
    pub clear: Vec<Field>,
    /// The new time to live.
    pub ttl: Ttl,
}

impl RecordPick {
    /// Picks the first matching record under a prefix. Changes are added by the other methods.
    pub fn under(prefix: &str, filters: Vec<Where>) -> RecordPick {
        let prefix = prefix.to_owned();
        let set = Vec::new();
        let clear = Vec::new();
        RecordPick { prefix, filters, by: None, own: false, set, clear, ttl: Ttl::Keep }
    }

    /// Picks the record with the lowest value of this field.
    pub fn by(mut self, field: &str) -> crate::Result<RecordPick> {
        self.by = Some(Field::new(field)?);
        Ok(self)
    }

    /// Considers only records that were written on the branch itself.
    #[must_use]
    pub fn own(mut self) -> RecordPick {
        self.own = true;
        self
    }

    /// Sets a field.
    pub fn set(mut self, field: &str, value: impl Into<FieldValue>) -> crate::Result<RecordPick> {
        self.set.push((Field::new(field)?, value.into()));
        Ok(self)
    }

    /// Removes a field.
    pub fn clear(mut self, field: &str) -> crate::Result<RecordPick> {
        self.clear.push(Field::new(field)?);
        Ok(self)
    }

    /// Rejects picks that are invalid whatever is stored: no fields, a field that is listed twice, or too
    /// many filters.
    pub fn check(&self) -> crate::Result<()> {
        check_filters(&self.filters)?;
        check_changes(&self.set, &self.clear, false, self.ttl)
    }
}

impl From<RecordPick> for Command {
    fn from(pick: RecordPick) -> Command {
        Command::Record(RecordCommand::Pick(Box::new(pick)))
    }
}

const NO_FIELDS: &str = "a record has at least one field: give one, or delete the record";

/// Rejects invalid changes. A write that changes only the time to live is valid, because it extends a lease
/// under its fence.
fn check_changes(
    set: &[(Field, FieldValue)],
    clear: &[Field],
    replace: bool,
    ttl: Ttl,
) -> crate::Result<()> {
    let invalid = |message: &str| Err(Error::new(Code::InvalidField, message));
    let changes = !clear.is_empty() || ttl != Ttl::Keep;
    if set.is_empty() && (replace || !changes) {
        return invalid(NO_FIELDS);
    }
    if stands_twice(set, clear) {
        return invalid("a field stands twice in one write: say once what becomes of it");
    }
    Ok(())
}

/// Returns whether a field is set twice, or both set and removed. It sorts, because a record may have 65,536
/// fields.
fn stands_twice(set: &[(Field, FieldValue)], clear: &[Field]) -> bool {
    if clear.is_empty() && set.is_sorted_by(|a, b| a.0 < b.0) {
        return false;
    }
    let mut set: SmallVec<[&Field; 16]> = set.iter().map(|(field, _)| field).collect();
    set.sort_unstable();
    set.windows(2).any(|pair| pair[0] == pair[1])
        || clear.iter().any(|field| set.binary_search(&field).is_ok())
}

/// The new value of a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FieldValue {
    /// These bytes.
    Bytes(#[serde(with = "fields::bytes")] Vec<u8>),
    /// The revision of the writing transaction, as decimal text: a monotonic fencing token.
    Revision,
    /// The transaction's timestamp in milliseconds since 1970, plus an offset, as decimal text.
    Millis {
        /// The offset, in milliseconds.
        plus: i64,
    },
    /// The current integer in decimal text plus an addend. A missing field counts as 0.
    Sum {
        /// The addend.
        by: i64,
    },
    /// The value of another field before this write. If that field does not exist, this field is removed.
    Copy {
        /// The other field.
        of: Field,
    },
}

impl<B: AsRef<[u8]>> From<B> for FieldValue {
    fn from(bytes: B) -> FieldValue {
        FieldValue::Bytes(bytes.as_ref().to_vec())
    }
}

/// A condition of a write or a deletion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Condition {
    /// The record has this counter (`None`: it does not exist).
    Counter {
        /// The expected counter.
        is: Option<u64>,
    },
    /// The record exists.
    Exists,
    /// A field has exactly these bytes (`None`: the field, or the whole record, does not exist).
    Field {
        /// The field.
        field: Field,
        /// The expected value.
        is: Option<Vec<u8>>,
    },
    /// A field has exactly these bytes. Otherwise the writer has lost its lease, and the error is `Fenced`.
    Fence {
        /// The field.
        field: Field,
        /// The fencing token.
        #[serde(with = "fields::bytes")]
        is: Vec<u8>,
    },
}

impl Condition {
    /// The field that the condition reads.
    pub fn field(&self) -> Option<&Field> {
        match self {
            Condition::Field { field, .. } | Condition::Fence { field, .. } => Some(field),
            Condition::Counter { .. } | Condition::Exists => None,
        }
    }
}

impl RecordCommand {
    /// The record of the command; `None` for scans, counts and picks.
    pub fn key(&self) -> Option<&Name> {
        match self {
            RecordCommand::Write(write) => Some(&write.key),
            RecordCommand::Delete { key, .. }
            | RecordCommand::Expire { key, .. }
            | RecordCommand::Restore { key, .. }
            | RecordCommand::History { key, .. }
            | RecordCommand::Get { key, .. } => Some(key),
            RecordCommand::Scan { .. } | RecordCommand::Count { .. } | RecordCommand::Pick(_) => {
                None
            }
        }
    }

    /// Returns whether the command is read-only.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            RecordCommand::Get { .. }
                | RecordCommand::Scan { .. }
                | RecordCommand::Count { .. }
                | RecordCommand::History { .. }
        )
    }
}

impl From<RecordCommand> for Command {
    fn from(command: RecordCommand) -> Command {
        Command::Record(command)
    }
}

impl From<RecordWrite> for Command {
    fn from(write: RecordWrite) -> Command {
        Command::Record(RecordCommand::Write(Box::new(write)))
    }
}

impl From<HashCommand> for Command {
    fn from(command: HashCommand) -> Command {
        Command::Hash(command)
    }
}
