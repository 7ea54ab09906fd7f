//! The versions written to the database since the last check.

use super::{Outcome, all_cells};
use mainstay::{Cells, Database, HistoryEntry, Revision, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};

/// A digest of a verified version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The counter of the cell.
    pub counter: u64,
    /// The number of writes that the version stands for.
    pub writes: u64,
    /// The revision of its transaction.
    pub revision: Revision,
    /// A hash of its value; `None` for a deletion.
    pub value: Option<u64>,
}

impl Known {
    /// The digest of a version.
    pub fn of(entry: &HistoryEntry) -> Known {
        let HistoryEntry { counter, writes, revision, .. } = *entry;
        Known { counter, writes, revision, value: entry.value.as_ref().map(hash) }
    }
}

/// Hashes a value.
pub fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(format!("{value:?}").as_bytes());
    hasher.finish()
}

/// A new version.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The value before it.
    pub before: Option<Value>,
    /// The history entry of the version.
    pub entry: HistoryEntry,
}

/// The new versions on `main`. Versions matched with an operation are removed.
#[derive(Default)]
pub struct Sight {
    by_revision: BTreeMap<Revision, BTreeMap<String, Seen>>,
    by_cell: BTreeMap<String, BTreeSet<Revision>>,
}

/// Verified versions by cell, oldest first.
pub type Past = BTreeMap<String, Vec<Known>>;

impl Sight {
    /// Reads all versions after the known ones and adds them to `past`. Counters must have no gap, and known
    /// versions must be unchanged.
    pub fn take(db: &Database, past: &mut Past) -> Outcome<Sight> {
        let cells = db.cells();
        let mut sight = Sight::default();
        for name in all_cells() {
            let known = past.entry(name.clone()).or_default();
            let fresh = fresh_versions(&cells, &name, known)?;
            sight.add(&name, known, fresh)?;
        }
        check_names(&cells, past)?;
        Ok(sight)
    }

    fn add(&mut self, name: &str, known: &mut Vec<Known>, fresh: Vec<HistoryEntry>) -> Outcome<()> {
        let mut before = None;
        for (position, entry) in fresh.into_iter().enumerate() {
            let last = known.last().map_or((0, 0), |last| (last.counter, last.revision));
            // The first entry is the last known version, read for its value.
            if position == 0 && !known.is_empty() {
                before = entry.value;
                continue;
            }
            if entry.counter != last.0 + entry.writes
                || entry.writes == 0
                || entry.revision <= last.1
            {
                return Err(format!(
                    "gap in `{name}`: {entry:?} follows counter, revision {last:?}"
                ));
            }
            known.push(Known::of(&entry));
            self.by_cell.entry(name.to_owned()).or_default().insert(entry.revision);
            let at = self.by_revision.entry(entry.revision).or_default();
            let value = entry.value.clone();
            at.insert(name.to_owned(), Seen { before: before.take(), entry });
            before = value;
        }
        Ok(())
    }

    /// The version of a cell at a revision.
    pub fn get(&self, revision: Revision, cell: &str) -> Option<&Seen> {
        self.by_revision.get(&revision)?.get(cell)
    }

    /// Removes a version, because an operation explains it.
    pub fn claim(&mut self, revision: Revision, cell: &str) {
        if let Some(at) = self.by_revision.get_mut(&revision) {
            at.remove(cell);
            if at.is_empty() {
                self.by_revision.remove(&revision);
            }
        }
        if let Some(revisions) = self.by_cell.get_mut(cell) {
            revisions.remove(&revision);
        }
    }

    /// The revisions at which a cell has unclaimed versions.
    pub fn revisions_of(&self, cell: &str) -> impl Iterator<Item = Revision> + '_ {
        self.by_cell.get(cell).into_iter().flatten().copied()
    }

    /// All unclaimed versions.
    pub fn rest(&self) -> impl Iterator<Item = (&String, &Seen)> {
        self.by_revision.values().flatten()
    }

    /// The unclaimed versions of one revision.
    pub fn at(&self, revision: Revision) -> Option<&BTreeMap<String, Seen>> {
        self.by_revision.get(&revision)
    }
}

/// The last known version and all versions after it, oldest first.
fn fresh_versions(cells: &Cells, name: &str, known: &[Known]) -> Outcome<Vec<HistoryEntry>> {
    let mut limit = 64;
    loop {
        let read = cells.history(name, limit, None);
        let mut entries = read.map_err(|error| format!("history of `{name}`: {error}"))?;
        let complete = entries.len() < limit;
        if let Some(last) = known.last() {
            if let Some(at) = entries.iter().position(|entry| entry.revision <= last.revision) {
                if Known::of(&entries[at]) != *last {
                    return Err(format!("`{name}` was {last:?} and is now {:?}", entries[at]));
                }
                entries.truncate(at + 1);
            } else if complete {
                return Err(format!("LOST: `{name}` has no version {last:?} any more"));
            } else {
                limit *= 4;
                continue;
            }
        } else if !complete {
            limit *= 4;
            continue;
        }
        entries.reverse();
        return Ok(entries);
    }
}

/// Checks that the listed names are those of the cells whose newest version is a value.
fn check_names(cells: &Cells, past: &Past) -> Outcome<()> {
    let listed = cells.list("", None, 10_000).map_err(|error| format!("list: {error}"))?;
    let live = |known: &Vec<Known>| known.last().is_some_and(|last| last.value.is_some());
    let expected: BTreeSet<&String> =
        past.iter().filter(|(_, known)| live(known)).map(|(name, _)| name).collect();
    let listed: BTreeSet<&String> = listed.names.iter().collect();
    if listed != expected {
        let odd: Vec<_> = listed.symmetric_difference(&expected).collect();
        return Err(format!("`list` and histories do not agree on {odd:?}"));
    }
    for (name, known) in past {
        let found = cells.get_versioned(name).map_err(|error| format!("get `{name}`: {error}"))?;
        let last = known.last().filter(|last| last.value.is_some());
        let found = found.map(|cell| (cell.counter, cell.revision, Some(hash(&cell.value))));
        if found != last.map(|last| (last.counter, last.revision, last.value)) {
            return Err(format!("`{name}` reads as {found:?}, but its history ends with {last:?}"));
        }
    }
    Ok(())
}
