//! Retention classes: which store a key lives in and how long its shadowed versions stay readable.
//!
//! ```text
//!   0 system   what the database keeps about itself: only the newest version matters
//!   1 cells    2 records
//!   3 entries  of indexes over records: only what somebody holds is kept
//!   further    cells or records under a prefix that has its own retention
//! ```
//!
//! A class is known by its label: in the mark, in backups, and as the name of its directory.

use crate::spaces;

/// What the database keeps about itself.
pub(crate) const SYSTEM: usize = 0;
/// Cells that no prefix claims.
pub(crate) const CELLS: usize = 1;

/// Labels of records begin with this; no name of a cell does.
const OF_RECORDS: &str = "\0records";
/// The label of what belongs to runs, and of the outbox.
const OF_RUNS: &str = "\0runs";
/// The label of entries of indexes.
const OF_ENTRIES: &str = "\0entries";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    /// What it is known by.
    pub label: String,
    /// The space whose names it holds.
    space: u8,
    /// The names it holds begin with this; empty for those that no prefix claims.
    pub prefix: String,
    /// How long shadowed versions stay, in microseconds; nothing: for ever.
    pub retention_us: Option<u64>,
}

impl Class {
    fn new(space: u8, prefix: &str, retention_us: Option<u64>) -> Class {
        let label = match space {
            spaces::RECORDS => format!("{OF_RECORDS}{prefix}"),
            spaces::RUNS => OF_RUNS.to_owned(),
            spaces::ENTRIES => OF_ENTRIES.to_owned(),
            _ => prefix.to_owned(),
        };
        Class { label, space, prefix: prefix.to_owned(), retention_us }
    }

    /// Whether it holds records.
    pub fn is_of_records(&self) -> bool {
        self.space == spaces::RECORDS
    }

    /// Whether it holds what belongs to runs.
    pub fn is_of_runs(&self) -> bool {
        self.space == spaces::RUNS
    }

    /// Whether it holds entries of indexes.
    pub fn is_of_entries(&self) -> bool {
        self.space == spaces::ENTRIES
    }

    fn from_label(label: &str) -> Class {
        if label == OF_ENTRIES {
            return entries();
        }
        if label == OF_RUNS {
            return Class::new(spaces::RUNS, "", None);
        }
        match label.strip_prefix(OF_RECORDS) {
            Some(prefix) => Class::new(spaces::RECORDS, prefix, None),
            None => Class::new(spaces::CELLS, label, None),
        }
    }
}

/// How long shadowed versions stay, in microseconds; nothing: for ever.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub cells: Option<u64>,
    pub records: Option<u64>,
    /// Under a prefix of a space.
    pub prefixes: Vec<(u8, String, Option<u64>)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Classes {
    all: Vec<Class>,
    /// The classes with a prefix, longest prefix first.
    by_length: Vec<usize>,
    /// The class of records that no prefix claims; an older index keeps them with cells.
    records: usize,
    /// The class of entries of indexes; an older index keeps them with cells.
    entries: usize,
    /// The class of runs; an older index keeps them with cells.
    runs: usize,
}

impl Classes {
    pub fn new(rules: &Rules) -> Classes {
        let mut prefixes = rules.prefixes.clone();
        prefixes.sort();
        prefixes.dedup_by(|a, b| (a.0, &a.1) == (b.0, &b.1));
        let further =
            prefixes.iter().map(|(space, prefix, kept)| Class::new(*space, prefix, *kept));
        let cells = Class::new(spaces::CELLS, "", rules.cells);
        let records = Class::new(spaces::RECORDS, "", rules.records);
        // The past of a run's head, and what is left of a deleted one, stay as long as records do.
        let runs = Class::new(spaces::RUNS, "", rules.records);
        let first = [system(), cells, records, entries(), runs];
        Classes::of_all(first.into_iter().chain(further).collect())
    }

    /// The classes that an index was made with.
    pub fn from_labels<'l>(labels: impl Iterator<Item = &'l str>) -> Classes {
        let class =
            |(place, label)| if place == SYSTEM { system() } else { Class::from_label(label) };
        Classes::of_all(labels.enumerate().map(class).collect())
    }

    fn of_all(all: Vec<Class>) -> Classes {
        let mut by_length: Vec<usize> =
            (0..all.len()).filter(|&i| !all[i].prefix.is_empty()).collect();
        by_length.sort_by_key(|&i| std::cmp::Reverse(all[i].prefix.len()));
        let is_records = |class: &Class| class.label == OF_RECORDS;
        let records = all.iter().position(is_records).unwrap_or(CELLS);
        let entries = all.iter().position(Class::is_of_entries).unwrap_or(CELLS);
        let runs = all.iter().position(|class| class.label == OF_RUNS).unwrap_or(CELLS);
        Classes { all, by_length, records, entries, runs }
    }

    pub fn all(&self) -> &[Class] {
        &self.all
    }

    /// The class of a key.
    #[inline]
    pub fn of(&self, key: &[u8]) -> usize {
        let Some(&space) = key.first() else { return SYSTEM };
        if spaces::is_system(space) {
            return SYSTEM;
        }
        let plain = self.plain(space);
        if self.by_length.is_empty() {
            return plain;
        }
        let name = key.get(spaces::PREFIX_BYTES..).unwrap_or_default();
        let claims = |&&i: &&usize| {
            let class = &self.all[i];
            class.space == space && name.starts_with(class.prefix.as_bytes())
        };
        self.by_length.iter().find(claims).copied().unwrap_or(plain)
    }

    /// The class of what no prefix claims.
    #[inline]
    fn plain(&self, space: u8) -> usize {
        match space {
            spaces::RECORDS => self.records,
            spaces::ENTRIES => self.entries,
            space if spaces::is_of_runs(space) => self.runs,
            _ => CELLS,
        }
    }

    /// The classes that keys of a space can be in.
    pub fn of_space(&self, space: u8) -> impl Iterator<Item = usize> {
        let plain = self.plain(space);
        let is_one = move |class: usize| match spaces::is_system(space) {
            true => class == SYSTEM,
            false => class == plain || class != SYSTEM && self.all[class].space == space,
        };
        (0..self.all.len()).filter(move |&class| is_one(class))
    }

    /// The name of the class's directory.
    pub fn directory(&self, class: usize) -> String {
        let Class { label, space, prefix, .. } = &self.all[class];
        let what = match *space {
            spaces::RECORDS => "records",
            spaces::ENTRIES => "entries",
            spaces::RUNS => "runs",
            _ => "cells",
        };
        match (class, prefix.is_empty()) {
            (SYSTEM, _) => "system".to_owned(),
            (_, true) => what.to_owned(),
            (_, false) => {
                let hex: String = prefix.bytes().map(|byte| format!("{byte:02x}")).collect();
                // File names end at 255 bytes; longer prefixes are told apart by a checksum.
                let tail = crc32c::crc32c(label.as_bytes());
                format!("{what}-{}-{tail:08x}", &hex[..hex.len().min(120)])
            }
        }
    }
}

fn entries() -> Class {
    Class::new(spaces::ENTRIES, "", Some(0))
}

fn system() -> Class {
    Class::new(spaces::CELLS, "", Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_of_its_space_claims_a_name() {
        let prefixes = [("a/", Some(1)), ("a/b/", None), ("z", Some(9))];
        let of_cells = prefixes.map(|(prefix, kept)| (spaces::CELLS, prefix.to_owned(), kept));
        let of_records = (spaces::RECORDS, "a/b/c/".to_owned(), Some(2));
        let prefixes = of_cells.into_iter().chain([of_records]).collect();
        let classes = Classes::new(&Rules { cells: Some(7), records: Some(3), prefixes });
        let of = |space, name: &str| classes.of(&spaces::key(space, 3, name.as_bytes()));
        let label = |space, name: &str| classes.all()[of(space, name)].label.clone();
        assert_eq!(of(spaces::CELLS, "other"), CELLS);
        assert_eq!(label(spaces::CELLS, "a/x"), "a/");
        assert_eq!(label(spaces::CELLS, "a/b/c/d"), "a/b/");
        assert_eq!(label(spaces::CELLS, "z"), "z");
        assert_eq!(label(spaces::RECORDS, "a/b/x"), "\0records");
        assert_eq!(label(spaces::RECORDS, "a/b/c/d"), "\0recordsa/b/c/");
        assert_eq!(classes.of(&spaces::key(spaces::TAGS, 0, b"a/x")), SYSTEM);
        let directories: std::collections::BTreeSet<String> =
            (0..classes.all().len()).map(|class| classes.directory(class)).collect();
        assert_eq!(directories.len(), classes.all().len());
        let labels = classes.all().iter().map(|class| class.label.as_str());
        let again = Classes::from_labels(labels);
        for (space, name) in
            [(spaces::CELLS, "a/b/c"), (spaces::RECORDS, "a/b/c/"), (spaces::RECORDS, "x")]
        {
            let key = spaces::key(space, 1, name.as_bytes());
            assert_eq!(again.of(&key), classes.of(&key));
            assert!(classes.of_space(space).any(|class| class == classes.of(&key)));
        }
    }

    #[test]
    fn an_older_index_keeps_records_with_cells() {
        let classes = Classes::from_labels(["", "", "a/"].into_iter());
        assert_eq!(classes.of(&spaces::key(spaces::RECORDS, 0, b"a/x")), CELLS);
        assert_eq!(classes.of_space(spaces::RECORDS).collect::<Vec<_>>(), [CELLS]);
    }
}
