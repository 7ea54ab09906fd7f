//! Transactions as those saw them who ran them.

/// A transaction that was run.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Who ran it.
    pub thread: u64,
    /// The moment before it began.
    pub invoked: u64,
    /// The moment after it ended.
    pub returned: u64,
    /// What became of it.
    pub fate: Fate,
    /// The revision whose state it says it read. Asked only where what was seen fits several states of a key: nothing
    /// was there, or something.
    pub read_at: Option<u64>,
    /// What it did and saw, in order.
    pub steps: Vec<Step>,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was acknowledged.
    Committed,
    /// It was refused or taken back. What it read was a snapshot all the same.
    Aborted,
    /// It may have happened at any time since it began, or never.
    Unknown,
}

/// One thing that a transaction did or saw.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It looked at a key.
    Read(String, Saw),
    /// It wrote a value that nobody else writes, or deleted (`None`).
    Write(String, Option<i64>),
    /// It looked at all keys of a range: those that were there, and what was known of them.
    List(Range, Vec<(String, Saw)>),
}

/// What was seen of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saw {
    /// This value.
    Value(i64),
    /// Something.
    Present,
    /// Nothing.
    Absent,
}

impl Saw {
    /// Whether a version that holds this can look so.
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
    /// They begin with this.
    pub prefix: String,
    /// They come behind this.
    pub after: Option<String>,
    /// They come up to this: a page that was full shows nothing of what is behind its last key.
    pub upto: Option<String>,
}

impl Range {
    /// Whether a key lies in it.
    pub fn has(&self, key: &str) -> bool {
        key.starts_with(&self.prefix)
            && self.after.as_deref().is_none_or(|after| key > after)
            && self.upto.as_deref().is_none_or(|upto| key <= upto)
    }
}

impl Recorded {
    /// Its writes, in order.
    pub fn writes(&self) -> impl Iterator<Item = (&str, Option<i64>)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Write(key, value) => Some((key.as_str(), *value)),
            _ => None,
        })
    }
}
