//! Retention classes: which store a key lives in and how long its shadowed versions stay readable.
//!
//! Class 0 holds what the database keeps about itself, of which only the newest version matters.
//! Class 1 holds cells; further classes hold cells under a prefix that has its own retention.

use crate::spaces;

/// What the database keeps about itself.
pub(crate) const SYSTEM: usize = 0;
/// Cells that no prefix claims.
pub(crate) const CELLS: usize = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    /// The names it holds begin with this; empty for the first two.
    pub prefix: String,
    /// How long shadowed versions stay, in microseconds; nothing: for ever.
    pub retention_us: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Classes {
    all: Vec<Class>,
    /// The classes with a prefix, longest prefix first.
    by_length: Vec<usize>,
}

impl Classes {
    pub fn new(cells: Option<u64>, prefixes: &[(String, Option<u64>)]) -> Classes {
        let mut all = vec![
            Class { prefix: String::new(), retention_us: Some(0) },
            Class { prefix: String::new(), retention_us: cells },
        ];
        let mut sorted = prefixes.to_vec();
        sorted.sort();
        sorted.dedup_by(|a, b| a.0 == b.0);
        all.extend(sorted.into_iter().map(|(prefix, retention_us)| Class { prefix, retention_us }));
        let mut by_length: Vec<usize> = (CELLS + 1..all.len()).collect();
        by_length.sort_by_key(|&i| std::cmp::Reverse(all[i].prefix.len()));
        Classes { all, by_length }
    }

    pub fn all(&self) -> &[Class] {
        &self.all
    }

    /// The class of a key.
    #[inline]
    pub fn of(&self, key: &[u8]) -> usize {
        if key.first().is_none_or(|&space| spaces::is_system(space)) {
            return SYSTEM;
        }
        if self.by_length.is_empty() {
            return CELLS;
        }
        let name = key.get(spaces::PREFIX_BYTES..).unwrap_or_default();
        let claims = |&&i: &&usize| name.starts_with(self.all[i].prefix.as_bytes());
        self.by_length.iter().find(claims).copied().unwrap_or(CELLS)
    }

    /// The name of the class's directory.
    pub fn directory(&self, class: usize) -> String {
        match class {
            SYSTEM => "system".to_owned(),
            CELLS => "cells".to_owned(),
            _ => {
                let prefix = self.all[class].prefix.as_bytes();
                let hex: String = prefix.iter().map(|byte| format!("{byte:02x}")).collect();
                // File names end at 255 bytes; longer prefixes are told apart by a checksum.
                let tail = crc32c::crc32c(prefix);
                format!("cells-{}-{tail:08x}", &hex[..hex.len().min(120)])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_claims_a_name() {
        let classes = Classes::new(
            Some(7),
            &[("a/".into(), Some(1)), ("a/b/".into(), None), ("z".into(), Some(9))],
        );
        let of = |name: &str| classes.of(&spaces::key(spaces::CELLS, 3, name.as_bytes()));
        let prefix = |name: &str| classes.all()[of(name)].prefix.clone();
        assert_eq!(of("other"), CELLS);
        assert_eq!(prefix("a/x"), "a/");
        assert_eq!(prefix("a/b/c"), "a/b/");
        assert_eq!(prefix("z"), "z");
        assert_eq!(classes.of(&spaces::key(spaces::TAGS, 0, b"a/x")), SYSTEM);
        assert_ne!(classes.directory(2), classes.directory(3));
    }
}
