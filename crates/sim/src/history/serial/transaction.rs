//! Recorded transactions, as their clients saw them.

/// A recorded transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The thread that ran it.
    pub thread: u64,
    /// The moment before it began.
    pub invoked: u64,
    /// The moment after it ended.
    pub returned: u64,
    /// Its outcome.
    pub fate: Fate,
    /// The revision that it reports to have read. Used only for an observation that matches several
    /// states of a key: present or absent.
    pub read_at: Option<u64>,
    /// Its reads and writes, in order.
    pub steps: Vec<Step>,
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was acknowledged.
    Committed,
    /// It was refused or rolled back. Its reads are still from one snapshot.
    Aborted,
    /// It may have taken effect at any time since it began, or never.
    Unknown,
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A read of a key.
    Read(String, Saw),
    /// A write of a unique value, or a deletion (`None`).
    Write(String, Option<i64>),
    /// A list of a range: the keys that existed, and their observed values.
    List(Range, Vec<(String, Saw)>),
}

/// An observation of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saw {
    /// This value.
    Value(i64),
    /// Some value.
    Present,
    /// No value.
    Absent,
}

impl Saw {
    /// Returns whether a version with this value matches the observation.
    pub fn fits(self, value: Option<i64>) -> bool {
        match self {
            Saw::Value(seen) => value == Some(seen),
            Saw::Present => value.is_some(),
            Saw::Absent => value.is_none(),
        }
    }
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The common prefix of the keys.
    pub prefix: String,
    /// The keys come after this one.
    pub after: Option<String>,
    /// The keys come up to this one: a full page shows nothing behind its last key.
    pub upto: Option<String>,
}

impl Range {
    /// Returns whether a key is in the range.
    pub fn has(&self, key: &str) -> bool {
        key.starts_with(&self.prefix)
            && self.after.as_deref().is_none_or(|after| key > after)
            && self.upto.as_deref().is_none_or(|upto| key <= upto)
    }
}

impl Recorded {
    /// Returns its writes, in order.
    pub fn writes(&self) -> impl Iterator<Item = (&str, Option<i64>)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Write(key, value) => Some((key.as_str(), *value)),
            _ => None,
        })
    }
}
