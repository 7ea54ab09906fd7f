//! The keys of transactions: few cells and records in small groups, so that transactions collide.
//!
//! The groups are small, so that lists are short.

use super::super::serial::{Range, Saw, Step};
use mainstay::{Fields, Name, Page, Record, RecordPage, Result, Value, Versioned};
use mainstay_conformance::random::Random;

/// The number of groups of each kind.
const GROUPS: u64 = 3;
/// The number of keys in a group.
const MEMBERS: u64 = 5;

/// The single field of the records.
pub const FIELD: &str = "v";
/// The prefix of the cells.
pub const OF_CELLS: &str = "t/";
/// The prefix of the records.
pub const OF_RECORDS: &str = "u/";
/// The prefix of the marks, which are cells.
pub const OF_MARKS: &str = "m/";

/// Returns a random key.
pub fn any(random: &mut Random) -> String {
    format!("{}{}", group(random), random.below(MEMBERS))
}

/// Returns all cells of all groups.
pub fn all_cells() -> impl Iterator<Item = String> {
    all(OF_CELLS)
}

/// Returns all records of all groups.
pub fn all_records() -> impl Iterator<Item = String> {
    all(OF_RECORDS)
}

fn all(kind: &str) -> impl Iterator<Item = String> {
    (0..GROUPS)
        .flat_map(move |group| (0..MEMBERS).map(move |member| format!("{kind}{group}/{member}")))
}

/// Returns a random group.
pub fn group(random: &mut Random) -> String {
    let kind = if random.chance(60) { OF_CELLS } else { OF_RECORDS };
    format!("{kind}{}/", random.below(GROUPS))
}

/// Returns the cell that a thread writes together with its deletions: it identifies the writer of a
/// deletion.
pub fn mark(thread: u64) -> String {
    format!("{OF_MARKS}{thread}")
}

/// Returns whether a key is a record.
pub fn is_record(key: &str) -> bool {
    key.starts_with(OF_RECORDS)
}

/// Returns the checked form of a key.
pub fn name(key: &str) -> Result<Name> {
    Name::new(key)
}

/// A part of a group: the start and the length of a list.
pub struct Part {
    /// The group's prefix.
    pub prefix: String,
    /// The list begins after this key.
    pub after: Option<String>,
    /// The most keys to list.
    pub limit: usize,
}

impl Part {
    /// Returns a random part of a random group.
    pub fn any(random: &mut Random) -> Part {
        let prefix = group(random);
        let after = random.chance(25).then(|| format!("{prefix}{}", random.below(MEMBERS)));
        let limit = if random.chance(40) { 1 + random.below(3) as usize } else { 100 };
        Part { prefix, after, limit }
    }

    /// The step that lists cells.
    pub fn of_cells(self, page: &Page) -> Step {
        let seen = page.names.iter().map(|name| (name.clone(), Saw::Present)).collect();
        self.listed(page.next.clone(), seen)
    }

    /// The step that lists records; `None` if one of them holds a value that no thread has written.
    pub fn of_records(self, page: &RecordPage) -> Option<Step> {
        let seen = page
            .records
            .iter()
            .map(|(key, record)| Some((key.clone(), saw_record(Some(record))?)))
            .collect::<Option<Vec<_>>>()?;
        Some(self.listed(page.next.clone(), seen))
    }

    fn listed(self, upto: Option<String>, seen: Vec<(String, Saw)>) -> Step {
        Step::List(Range { prefix: self.prefix, after: self.after, upto }, seen)
    }
}

/// The observation of a cell; `None` if it holds a value that no thread has written.
pub fn saw_cell(cell: Option<&Versioned>) -> Option<Saw> {
    saw_value(cell.map(|cell| &cell.value))
}

/// The observation of a value.
pub fn saw_value(value: Option<&Value>) -> Option<Saw> {
    match value {
        None => Some(Saw::Absent),
        Some(value) => value.as_i64().map(Saw::Value),
    }
}

/// The observation of a record.
pub fn saw_record(record: Option<&Record>) -> Option<Saw> {
    match record {
        None => Some(Saw::Absent),
        Some(record) => number(&record.fields).map(Saw::Value),
    }
}

/// Returns the number in a record.
pub fn number(fields: &Fields) -> Option<i64> {
    fields.text(FIELD)?.parse().ok()
}
