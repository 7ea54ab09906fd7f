//! The keys of transactions: cells and records in small groups, so that transactions meet and lists are short.

use super::super::serial::{Range, Saw, Step};
use mainstay::{Fields, Name, Page, Record, RecordPage, Result, Value, Versioned};
use mainstay_conformance::random::Random;

/// How many groups there are of each kind.
const GROUPS: u64 = 3;
/// How many keys are in a group.
const MEMBERS: u64 = 5;

/// What records of transactions hold, in the one field that they have.
pub const FIELD: &str = "v";
/// What the names of cells begin with.
pub const OF_CELLS: &str = "t/";
/// What the names of records begin with.
pub const OF_RECORDS: &str = "u/";
/// What the names of marks begin with, which are cells.
pub const OF_MARKS: &str = "m/";

/// Some key.
pub fn any(random: &mut Random) -> String {
    format!("{}{}", group(random), random.below(MEMBERS))
}

/// Every cell of every group.
pub fn all_cells() -> impl Iterator<Item = String> {
    all(OF_CELLS)
}

/// Every record of every group.
pub fn all_records() -> impl Iterator<Item = String> {
    all(OF_RECORDS)
}

fn all(kind: &str) -> impl Iterator<Item = String> {
    let member = move |group| (0..MEMBERS).map(move |member| format!("{kind}{group}/{member}"));
    (0..GROUPS).flat_map(member)
}

/// Some group.
pub fn group(random: &mut Random) -> String {
    let kind = if random.chance(60) { OF_CELLS } else { OF_RECORDS };
    format!("{kind}{}/", random.below(GROUPS))
}

/// The cell that a thread writes beside its deletions: it names their writer.
pub fn mark(thread: u64) -> String {
    format!("{OF_MARKS}{thread}")
}

/// Whether a key is a record's.
pub fn is_record(key: &str) -> bool {
    key.starts_with(OF_RECORDS)
}

/// The checked form of a key.
pub fn name(key: &str) -> Result<Name> {
    Name::new(key)
}

/// A part of a group: where a list begins and how long it may be.
pub struct Part {
    /// The group.
    pub prefix: String,
    /// It begins behind this.
    pub after: Option<String>,
    /// How much of it.
    pub limit: usize,
}

impl Part {
    /// Some part of some group.
    pub fn any(random: &mut Random) -> Part {
        let prefix = group(random);
        let after = random.chance(25).then(|| format!("{prefix}{}", random.below(MEMBERS)));
        let limit = if random.chance(40) { 1 + random.below(3) as usize } else { 100 };
        Part { prefix, after, limit }
    }

    /// A list of cells.
    pub fn of_cells(self, page: &Page) -> Step {
        let seen = page.names.iter().map(|name| (name.clone(), Saw::Present)).collect();
        self.listed(page.next.clone(), seen)
    }

    /// A list of records; nothing if one of them holds what nobody wrote.
    pub fn of_records(self, page: &RecordPage) -> Option<Step> {
        let one = |(key, record): &(String, Record)| Some((key.clone(), saw_record(Some(record))?));
        let seen = page.records.iter().map(one).collect::<Option<Vec<_>>>()?;
        Some(self.listed(page.next.clone(), seen))
    }

    fn listed(self, upto: Option<String>, seen: Vec<(String, Saw)>) -> Step {
        Step::List(Range { prefix: self.prefix, after: self.after, upto }, seen)
    }
}

/// What is seen of a cell; nothing if it holds what nobody wrote.
pub fn saw_cell(cell: Option<&Versioned>) -> Option<Saw> {
    saw_value(cell.map(|cell| &cell.value))
}

/// What is seen of a value.
pub fn saw_value(value: Option<&Value>) -> Option<Saw> {
    match value {
        None => Some(Saw::Absent),
        Some(value) => value.as_i64().map(Saw::Value),
    }
}

/// What is seen of a record.
pub fn saw_record(record: Option<&Record>) -> Option<Saw> {
    match record {
        None => Some(Saw::Absent),
        Some(record) => number(&record.fields).map(Saw::Value),
    }
}

/// The number that a record holds.
pub fn number(fields: &Fields) -> Option<i64> {
    fields.text(FIELD)?.parse().ok()
}
