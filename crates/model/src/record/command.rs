//! What can be done with a record.

use super::{Field, Fields, HashCommand, Where};
use crate::limits::{check_conditions, check_filters};
use crate::wire::fields;
use crate::{Code, Command, Error, ExpireOnly, Name, Ttl};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// What can be done with a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RecordCommand {
    /// Writes fields if all conditions hold; answers the new counter, or nothing.
    Write(Box<RecordWrite>),
    /// Deletes if all conditions hold; answers whether it did.
    Delete {
        /// The record.
        key: Name,
        /// What must hold.
        #[serde(with = "fields::list")]
        when: Vec<Condition>,
    },
    /// Changes the time to live if the condition holds; answers whether it did.
    Expire {
        /// The record.
        key: Name,
        /// Its new time to live.
        ttl: Ttl,
        /// What must hold.
        only: ExpireOnly,
    },
    /// Writes a version as an export kept it; the counter never falls.
    Restore {
        /// The record.
        key: Name,
        /// Its fields; nothing for a deletion.
        fields: Option<Fields>,
        /// The counter the version had.
        counter: u64,
        /// When it expires, in microseconds.
        expires: Option<u64>,
    },
    /// Reads, at the point where the transaction stands.
    Get {
        /// The record.
        key: Name,
        /// Only these fields; nothing for all.
        #[serde(with = "fields::maybe_list")]
        fields: Option<Vec<Field>>,
    },
    /// Records in byte order of their keys, at the point where the transaction stands.
    Scan {
        /// Only keys that begin with this.
        prefix: String,
        /// Only records that pass all of these.
        #[serde(with = "fields::list")]
        filters: Vec<Where>,
        /// Only keys behind this one.
        after: Option<String>,
        /// At most this many.
        limit: usize,
    },
    /// How many records there are, at the point where the transaction stands.
    Count {
        /// Only keys that begin with this.
        prefix: String,
        /// Only records that pass all of these.
        #[serde(with = "fields::list")]
        filters: Vec<Where>,
    },
    /// Writes to the first record that passes; answers its key and what it has become, or nothing.
    Pick(Box<RecordPick>),
    /// The versions of a record, newest first, at the point where the transaction stands.
    History {
        /// The record.
        key: Name,
        /// At most this many.
        limit: usize,
        /// Only those with a smaller counter.
        before: Option<u64>,
    },
}

/// A write to a record: one step, whatever it looks at and changes.
///
/// ```
/// use mainstay_model::RecordWrite;
/// // A worker claims a job that nobody has.
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
    /// What must hold; else nothing is written.
    #[serde(with = "fields::list")]
    pub when: Vec<Condition>,
    /// Whether the fields that are not set here go.
    pub replace: bool,
    /// What is put in.
    #[serde(with = "fields::list")]
    pub set: Vec<(Field, FieldValue)>,
    /// What is taken out.
    #[serde(with = "fields::list")]
    pub clear: Vec<Field>,
    /// What becomes of the time to live.
    pub ttl: Ttl,
}

impl RecordWrite {
    /// A write that does nothing yet, and leaves the expiry.
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

    /// A write that puts fields in, one at least. A time to live is set where one is given, else the expiry
    /// stays.
    pub fn of(key: &str, fields: &Fields, ttl: Option<Ttl>) -> crate::Result<RecordWrite> {
        if fields.is_empty() {
            return Err(Error::new(Code::InvalidField, NO_FIELDS));
        }
        let mut write = RecordWrite::to(key)?.ttl(ttl.unwrap_or(Ttl::Keep));
        let pair = |(field, value): (&Field, &[u8])| (field.clone(), FieldValue::from(value));
        write.set = fields.iter().map(pair).collect();
        Ok(write)
    }

    /// What a write gave that has no conditions and puts something in: it always happens.
    pub fn done(counter: Option<u64>) -> crate::Result<u64> {
        let message = "a write without conditions did nothing";
        counter.ok_or_else(|| Error::new(Code::Unsupported, message))
    }

    /// Only if this holds.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> RecordWrite {
        self.when.push(condition);
        self
    }

    /// Only if a field has this value.
    pub fn when_field(self, field: &str, is: impl AsRef<[u8]>) -> crate::Result<RecordWrite> {
        let is = Some(is.as_ref().to_vec());
        Ok(self.when(Condition::Field { field: Field::new(field)?, is }))
    }

    /// Only if there is no such field, and maybe no record.
    pub fn when_absent(self, field: &str) -> crate::Result<RecordWrite> {
        Ok(self.when(Condition::Field { field: Field::new(field)?, is: None }))
    }

    /// Only if the record has this counter (`None`: if it is absent).
    #[must_use]
    pub fn when_counter(self, is: Option<u64>) -> RecordWrite {
        self.when(Condition::Counter { is })
    }

    /// Puts a field in.
    pub fn set(mut self, field: &str, value: impl Into<FieldValue>) -> crate::Result<RecordWrite> {
        self.set.push((Field::new(field)?, value.into()));
        Ok(self)
    }

    /// Takes a field out.
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

    /// Changes the time to live; that may be all that the write does, to a record that is there.
    #[must_use]
    pub fn ttl(mut self, ttl: Ttl) -> RecordWrite {
        self.ttl = ttl;
        self
    }

    /// Refuses what makes no sense whatever is stored: no fields, a field that stands twice, or too many
    /// conditions.
    pub fn check(&self) -> crate::Result<()> {
        check_conditions(self.when.len())?;
        check_changes(&self.set, &self.clear, self.replace, self.ttl)
    }

    /// Whether it looks at nothing: it merges into whatever is there, and its answer tells nothing but
    /// the counter.
    pub fn is_blind(&self) -> bool {
        let looks = |(_, value): &(Field, FieldValue)| {
            matches!(value, FieldValue::Sum { .. } | FieldValue::Copy { .. })
        };
        self.when.is_empty() && !self.set.is_empty() && !self.set.iter().any(looks)
    }
}

/// A write to whichever record comes first: one step finds it and writes it, so of any number of callers no
/// two get the same.
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
    /// Of the records whose keys begin with this.
    pub prefix: String,
    /// Of those that pass all of these.
    #[serde(with = "fields::list")]
    pub filters: Vec<Where>,
    /// The one whose value of this field comes first, as scans compare, by the first 48 bytes of a text and
    /// 32 digits of a number; without the field it comes before all others. Of equal ones, and where
    /// nothing is said, the first key.
    pub by: Option<Field>,
    /// Only of those that were written on this branch itself since it was forked.
    pub own: bool,
    /// What is put in.
    #[serde(with = "fields::list")]
    pub set: Vec<(Field, FieldValue)>,
    /// What is taken out.
    #[serde(with = "fields::list")]
    pub clear: Vec<Field>,
    /// What becomes of the time to live.
    pub ttl: Ttl,
}

impl RecordPick {
    /// The first record under a prefix that passes; nothing is written to it yet.
    pub fn under(prefix: &str, filters: Vec<Where>) -> RecordPick {
        let (prefix, set, clear) = (prefix.to_owned(), Vec::new(), Vec::new());
        RecordPick { prefix, filters, by: None, own: false, set, clear, ttl: Ttl::Keep }
    }

    /// First by this field.
    pub fn by(mut self, field: &str) -> crate::Result<RecordPick> {
        self.by = Some(Field::new(field)?);
        Ok(self)
    }

    /// Only records that were written on the branch itself.
    #[must_use]
    pub fn own(mut self) -> RecordPick {
        self.own = true;
        self
    }

    /// Puts a field in.
    pub fn set(mut self, field: &str, value: impl Into<FieldValue>) -> crate::Result<RecordPick> {
        self.set.push((Field::new(field)?, value.into()));
        Ok(self)
    }

    /// Takes a field out.
    pub fn clear(mut self, field: &str) -> crate::Result<RecordPick> {
        self.clear.push(Field::new(field)?);
        Ok(self)
    }

    /// Refuses what makes no sense whatever is stored: no fields, a field that stands twice, or too many
    /// filters.
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

/// Refuses what makes no sense whatever is stored. What changes nothing but the time to live makes sense: a lease
/// is extended so, under its fence.
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

/// Whether a field is set twice, or set and taken out. Sorted, since a record may have 65,536 of them.
fn stands_twice(set: &[(Field, FieldValue)], clear: &[Field]) -> bool {
    if clear.is_empty() && set.is_sorted_by(|a, b| a.0 < b.0) {
        return false;
    }
    let mut set: SmallVec<[&Field; 16]> = set.iter().map(|(field, _)| field).collect();
    set.sort_unstable();
    let is_set = |field: &Field| set.binary_search(&field).is_ok();
    set.windows(2).any(|pair| pair[0] == pair[1]) || clear.iter().any(is_set)
}

/// What a field becomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FieldValue {
    /// These bytes.
    Bytes(#[serde(with = "fields::bytes")] Vec<u8>),
    /// The revision of the transaction that writes it, as decimal text: a token that only rises.
    Revision,
    /// The transaction's time in milliseconds since 1970, and so many more, as decimal text.
    Millis {
        /// What is added.
        plus: i64,
    },
    /// What it holds, a whole number as decimal text, and so much more; nothing counts as 0.
    Sum {
        /// What is added.
        by: i64,
    },
    /// What another field held before this write; if that was not there, this one goes.
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

/// What must hold for a record to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Condition {
    /// The record has this counter (`None`: it is absent).
    Counter {
        /// Its counter.
        is: Option<u64>,
    },
    /// The record is there.
    Exists,
    /// A field has this value, byte for byte (`None`: there is no such field, and maybe no record).
    Field {
        /// The field.
        field: Field,
        /// Its value.
        is: Option<Vec<u8>>,
    },
    /// A field has this value, byte for byte; else whoever writes has lost what it held, and that is
    /// the error `Fenced`.
    Fence {
        /// The field.
        field: Field,
        /// Its value.
        #[serde(with = "fields::bytes")]
        is: Vec<u8>,
    },
}

impl Condition {
    /// The field that it looks at.
    pub fn field(&self) -> Option<&Field> {
        match self {
            Condition::Field { field, .. } | Condition::Fence { field, .. } => Some(field),
            Condition::Counter { .. } | Condition::Exists => None,
        }
    }
}

impl RecordCommand {
    /// The record that it is about; a scan is about none.
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

    /// Whether it changes nothing.
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
