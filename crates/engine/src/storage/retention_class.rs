//! Retention classes: the store of each key, and how long its shadowed versions stay readable.
//!
//! ```text
//!   0 system   internal data: only the newest version matters
//!   1 cells    2 records
//!   3 entries  of secondary indexes: only pinned history is kept
//!   4 runs     the heads of runs: one version per event
//!   5 states   of runs: snapshots, user states, alerts, heads not yet visible; also messages
//!   6 events   of runs: written once, in sequence order
//!   7 keys     of events: written once, in random order
//!   8 keyed    keyed-state spaces and their entries
//!   further    cells, records or spaces under a prefix with a retention of its own
//! ```
//!
//! Heads, events and their keys have stores of their own, because they are large and differ in order. A table
//! of new events moves down the levels unchanged, because it follows those below it. Versions of a head
//! overlap older ones. Only keys have to be merged with existing tables.
//!
//! The label identifies a class in the flush mark, in backups and, encoded, as a directory name.

use crate::key::keyspace;
use std::collections::BTreeSet;

/// Internal data of the database.
pub const SYSTEM: usize = 0;
/// Cells without a matching prefix.
pub const CELLS: usize = 1;

/// Prefix of the labels of record classes. No cell name begins with it.
const OF_RECORDS: &str = "\0records";
/// Prefix of the labels of keyed-state classes.
const OF_KEYED: &str = "\0keyed";

/// The classes without a prefix, other than cells: key space, label and directory.
const PLAIN: [(u8, &str, &str); 7] = [
    (keyspace::RECORDS, OF_RECORDS, "records"),
    (keyspace::ENTRIES, "\0entries", "entries"),
    (keyspace::RUNS, "\0runs", "runs"),
    (keyspace::STATES, "\0states", "states"),
    (keyspace::EVENTS, "\0events", "events"),
    (keyspace::EVENT_KEYS, "\0keys", "keys"),
    (keyspace::KEYED, OF_KEYED, "keyed"),
];

/// The label and the directory of a space's default class.
fn plain(space: u8) -> (&'static str, &'static str) {
    let found = PLAIN.iter().find(|plain| plain.0 == space);
    found.map_or(("", "cells"), |&(_, label, directory)| (label, directory))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionClass {
    /// The persistent identifier of the class.
    pub label: String,
    /// The key space of its keys.
    space: u8,
    /// The prefix of its names; empty for a default class.
    pub prefix: String,
    /// Retention time of shadowed versions, in microseconds; `None`: forever.
    pub retention_us: Option<u64>,
}

impl RetentionClass {
    fn new(space: u8, prefix: &str, retention_us: Option<u64>) -> RetentionClass {
        let label = format!("{}{prefix}", plain(space).0);
        RetentionClass { label, space, prefix: prefix.to_owned(), retention_us }
    }

    /// Returns whether it holds records.
    pub fn is_of_records(&self) -> bool {
        self.space == keyspace::RECORDS
    }

    /// Returns whether it holds run data.
    pub fn is_of_runs(&self) -> bool {
        keyspace::is_of_runs(self.space)
    }

    /// Returns whether it holds keyed state.
    pub fn is_of_keyed(&self) -> bool {
        self.space == keyspace::KEYED
    }

    /// Returns whether heavy writes to this class cause few lookups in its tables. An append to an active run
    /// finds the head in memory. The Bloom filter shows that an event key is new if its run was created since
    /// open.
    pub fn is_seldom_read(&self) -> bool {
        matches!(self.space, keyspace::RUNS | keyspace::EVENT_KEYS)
    }

    /// Returns whether it holds entries of secondary indexes.
    pub fn is_of_entries(&self) -> bool {
        self.space == keyspace::ENTRIES
    }

    fn from_label(label: &str) -> RetentionClass {
        if let Some((space, ..)) = PLAIN.iter().find(|plain| plain.1 == label) {
            return RetentionClass::new(*space, "", None);
        }
        let prefixed = [(keyspace::RECORDS, OF_RECORDS), (keyspace::KEYED, OF_KEYED)];
        let found = prefixed.iter().find_map(|(space, of)| Some((*space, label.strip_prefix(of)?)));
        let (space, prefix) = found.unwrap_or((keyspace::CELLS, label));
        RetentionClass::new(space, prefix, None)
    }
}

/// Retention times of shadowed versions, in microseconds; `None`: forever.
#[derive(Clone, Debug, Default)]
pub struct RetentionRules {
    pub cells: Option<u64>,
    pub records: Option<u64>,
    pub keyed: Option<u64>,
    /// Key space, prefix and retention of each rule for a prefix.
    pub prefixes: Vec<(u8, String, Option<u64>)>,
}

#[derive(Clone, Debug)]
pub struct RetentionClasses {
    all: Vec<RetentionClass>,
    /// The classes with a prefix, longest prefix first.
    by_length: Vec<usize>,
    /// The default class of each key space.
    plain: [usize; keyspace::SESSIONS as usize],
}

impl RetentionClasses {
    pub fn new(rules: &RetentionRules) -> RetentionClasses {
        let mut prefixes = rules.prefixes.clone();
        prefixes.sort();
        prefixes.dedup_by(|a, b| (a.0, &a.1) == (b.0, &b.1));
        let further =
            prefixes.iter().map(|(space, prefix, kept)| RetentionClass::new(*space, prefix, *kept));
        let cells = RetentionClass::new(keyspace::CELLS, "", rules.cells);
        let records = RetentionClass::new(keyspace::RECORDS, "", rules.records);
        // Past versions of run heads, and the remains of deleted runs, are retained as long as records are.
        let runs = [keyspace::RUNS, keyspace::STATES, keyspace::EVENTS, keyspace::EVENT_KEYS]
            .map(|space| RetentionClass::new(space, "", rules.records));
        let first = [system(), cells, records, entries()];
        let keyed = [RetentionClass::new(keyspace::KEYED, "", rules.keyed)];
        RetentionClasses::of_all(
            first.into_iter().chain(runs).chain(keyed).chain(further).collect(),
        )
    }

    /// The classes of an existing index, from their labels.
    pub fn from_labels<'l>(labels: impl Iterator<Item = &'l str>) -> RetentionClasses {
        let class = |(place, label)| {
            if place == SYSTEM { system() } else { RetentionClass::from_label(label) }
        };
        RetentionClasses::of_all(labels.enumerate().map(class).collect())
    }

    fn of_all(all: Vec<RetentionClass>) -> RetentionClasses {
        let mut by_length: Vec<usize> =
            (0..all.len()).filter(|&i| !all[i].prefix.is_empty()).collect();
        by_length.sort_by_key(|&i| std::cmp::Reverse(all[i].prefix.len()));
        let plain = std::array::from_fn(|space| home(&all, space as u8));
        RetentionClasses { all, by_length, plain }
    }

    pub fn all(&self) -> &[RetentionClass] {
        &self.all
    }

    /// The class of a key.
    #[inline]
    pub fn of(&self, key: &[u8]) -> usize {
        let Some(&space) = key.first() else { return SYSTEM };
        if keyspace::is_system(space) {
            return SYSTEM;
        }
        let plain = self.plain[usize::from(space)];
        if self.by_length.is_empty() {
            return plain;
        }
        let space = kin(space);
        let name = key.get(keyspace::PREFIX_BYTES..).unwrap_or_default();
        let claims = |&&i: &&usize| {
            let class = &self.all[i];
            class.space == space && name.starts_with(class.prefix.as_bytes())
        };
        self.by_length.iter().find(claims).copied().unwrap_or(plain)
    }

    /// The classes that can hold keys of a space.
    pub fn of_space(&self, space: u8) -> impl Iterator<Item = usize> {
        let plain = self.plain.get(usize::from(space)).copied();
        let space = kin(space);
        let is_one = move |class: usize| match plain {
            None => class == SYSTEM,
            Some(plain) => class == plain || class != SYSTEM && self.all[class].space == space,
        };
        (0..self.all.len()).filter(move |&class| is_one(class))
    }

    /// The classes before a migration from which keys of a class may come.
    pub fn came_from(&self, class: usize, before: &RetentionClasses) -> Vec<usize> {
        let RetentionClass { label, space, .. } = &self.all[class];
        let same = before.all.iter().skip(CELLS).position(|old| old.label == *label);
        match same {
            Some(place) if self.prefixes(*space) == before.prefixes(*space) => vec![place + CELLS],
            _ => before.of_space(*space).collect(),
        }
    }

    /// The prefixes of a space that have classes of their own.
    fn prefixes(&self, space: u8) -> BTreeSet<&str> {
        let own = self.by_length.iter().map(|&class| &self.all[class]);
        own.filter(|class| class.space == space).map(|class| class.prefix.as_str()).collect()
    }

    pub fn directory(&self, class: usize) -> String {
        let RetentionClass { label, space, prefix, .. } = &self.all[class];
        let what = plain(*space).1;
        match (class, prefix.is_empty()) {
            (SYSTEM, _) => "system".to_owned(),
            (_, true) => what.to_owned(),
            (_, false) => {
                let hex: String = prefix.bytes().map(|byte| format!("{byte:02x}")).collect();
                // File names end at 255 bytes. A checksum distinguishes longer prefixes.
                let tail = crc32c::crc32c(label.as_bytes());
                format!("{what}-{}-{tail:08x}", &hex[..hex.len().min(120)])
            }
        }
    }
}

/// The declaration of a keyed-state space is stored with its entries, so that both have the same retention.
fn kin(space: u8) -> u8 {
    if space == keyspace::SPACES { keyspace::KEYED } else { space }
}

/// The default class for keys of a space. An older index has fewer classes: all run data in one class, or
/// with cells.
fn home(all: &[RetentionClass], space: u8) -> usize {
    let space = kin(space);
    let of = |space: u8| {
        all.iter()
            .skip(CELLS)
            .position(|class| class.space == space && class.label == plain(space).0)
            .map(|place| place + CELLS)
    };
    let of_runs = || of(keyspace::STATES).or_else(|| of(keyspace::RUNS));
    of(space).or_else(|| of_runs().filter(|_| keyspace::is_of_runs(space))).unwrap_or(CELLS)
}

fn entries() -> RetentionClass {
    RetentionClass::new(keyspace::ENTRIES, "", Some(0))
}

fn system() -> RetentionClass {
    RetentionClass::new(keyspace::CELLS, "", Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_of_its_space_claims_a_name() {
        let prefixes = [("a/", Some(1)), ("a/b/", None), ("z", Some(9))];
        let of_cells = prefixes.map(|(prefix, kept)| (keyspace::CELLS, prefix.to_owned(), kept));
        let of_records = (keyspace::RECORDS, "a/b/c/".to_owned(), Some(2));
        let prefixes = of_cells.into_iter().chain([of_records]).collect();
        let classes = RetentionClasses::new(&RetentionRules {
            cells: Some(7),
            records: Some(3),
            keyed: Some(3),
            prefixes,
        });
        let of = |space, name: &str| classes.of(&keyspace::key(space, 3, name.as_bytes()));
        let label = |space, name: &str| classes.all()[of(space, name)].label.clone();
        assert_eq!(of(keyspace::CELLS, "other"), CELLS);
        assert_eq!(label(keyspace::CELLS, "a/x"), "a/");
        assert_eq!(label(keyspace::CELLS, "a/b/c/d"), "a/b/");
        assert_eq!(label(keyspace::CELLS, "z"), "z");
        assert_eq!(label(keyspace::RECORDS, "a/b/x"), "\0records");
        assert_eq!(label(keyspace::RECORDS, "a/b/c/d"), "\0recordsa/b/c/");
        assert_eq!(classes.of(&keyspace::key(keyspace::TAGS, 0, b"a/x")), SYSTEM);
        let directories: std::collections::BTreeSet<String> =
            (0..classes.all().len()).map(|class| classes.directory(class)).collect();
        assert_eq!(directories.len(), classes.all().len());
        let labels = classes.all().iter().map(|class| class.label.as_str());
        let again = RetentionClasses::from_labels(labels);
        for (space, name) in
            [(keyspace::CELLS, "a/b/c"), (keyspace::RECORDS, "a/b/c/"), (keyspace::RECORDS, "x")]
        {
            let key = keyspace::key(space, 1, name.as_bytes());
            assert_eq!(again.of(&key), classes.of(&key));
            assert!(classes.of_space(space).any(|class| class == classes.of(&key)));
        }
    }

    #[test]
    fn a_space_of_keyed_state_is_declared_where_its_entries_are() {
        let prefixes = vec![(keyspace::KEYED, "a/".to_owned(), None)];
        let classes =
            RetentionClasses::new(&RetentionRules { prefixes, ..RetentionRules::default() });
        for name in ["a/x", "b/x"] {
            let of = |space| classes.of(&keyspace::key(space, 3, name.as_bytes()));
            assert_eq!(of(keyspace::SPACES), of(keyspace::KEYED), "{name}");
            assert!(classes.of_space(keyspace::SPACES).any(|class| class == of(keyspace::SPACES)));
        }
        assert_ne!(
            classes.of(&keyspace::key(keyspace::SPACES, 0, b"a/x")),
            classes.of(&keyspace::key(keyspace::SPACES, 0, b"b/x"))
        );
    }

    #[test]
    fn an_older_index_keeps_records_with_cells() {
        let classes = RetentionClasses::from_labels(["", "", "a/"].into_iter());
        assert_eq!(classes.of(&keyspace::key(keyspace::RECORDS, 0, b"a/x")), CELLS);
        assert_eq!(classes.of_space(keyspace::RECORDS).collect::<Vec<_>>(), [CELLS]);
    }

    #[test]
    fn an_older_index_keeps_events_with_their_runs() {
        let older =
            RetentionClasses::from_labels(["", "", "\0records", "\0entries", "\0runs"].into_iter());
        let newer = RetentionClasses::new(&RetentionRules::default());
        for space in [keyspace::RUNS, keyspace::EVENTS, keyspace::EVENT_KEYS, keyspace::OUTBOX] {
            let key = keyspace::key(space, 0, b"run");
            assert_eq!(older.of(&key), 4);
            assert_eq!(older.of_space(space).collect::<Vec<_>>(), [4]);
            let place = newer.of(&key);
            assert!(newer.all()[place].is_of_runs());
            assert_eq!(newer.of_space(space).collect::<Vec<_>>(), [place]);
        }
        let directory = |space| newer.directory(newer.of(&keyspace::key(space, 0, b"run")));
        assert_eq!(directory(keyspace::RUNS), "runs");
        assert_eq!(directory(keyspace::STATES), "states");
        assert_eq!(directory(keyspace::OUTBOX), "states");
        assert_eq!(directory(keyspace::EVENTS), "events");
        assert_eq!(directory(keyspace::EVENT_KEYS), "keys");
    }
}
