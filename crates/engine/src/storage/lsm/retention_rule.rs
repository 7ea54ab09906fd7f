//! The retention rule: decides which versions compaction keeps.

use mainstay_model::Revision;

use super::Purge;
use super::version::revision_of;

/// Decides which versions must be kept. Versions are passed with keys ascending and revisions descending.
///
/// A version is *shadowed* if a newer version of its key is at or below the floor. Then every read at or
/// above the floor stops at the newer one. Shadowed versions are dropped.
///
/// A *purge* may also drop a version that is itself at or below the floor, is not shadowed, and is a deletion
/// that hides nothing: a read that finds no version at all has the same result. This is safe because all
/// older versions are dropped with it: being at or below the floor, it shadows every older version passed
/// here. The caller that allows purges therefore guarantees that no older version of a key exists anywhere
/// else. See `compaction_filter.rs` for why a compaction into the last level can guarantee that.
pub(super) struct RetentionRule {
    floor: Revision,
    purge: Option<Purge>,
    key: Vec<u8>,
    /// The revision of the previous version of `key`, kept or not.
    newer: Option<Revision>,
}

impl RetentionRule {
    /// A rule for one pass. Without `purge`, tombstones are kept.
    pub(super) fn new(floor: Revision, purge: Option<Purge>) -> RetentionRule {
        RetentionRule { floor, purge, key: Vec::new(), newer: None }
    }

    /// Returns whether this version must be kept.
    pub(super) fn keep(&mut self, key: &[u8], entry: &[u8]) -> bool {
        self.enter(key);
        let Some(revision) = revision_of(entry) else {
            // Ingest rejects such entries, so its origin is unknown and it is kept.
            self.newer = None;
            return true;
        };
        let shadowed = self.newer.replace(revision).is_some_and(|newer| newer <= self.floor);
        !shadowed && !self.may_purge(key, revision, entry)
    }

    fn enter(&mut self, key: &[u8]) {
        if self.key != key {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.newer = None;
        }
    }

    fn may_purge(&self, key: &[u8], revision: Revision, entry: &[u8]) -> bool {
        revision <= self.floor && self.purge.as_ref().is_some_and(|purge| purge(key, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(deleted: bool, revision: Revision) -> Vec<u8> {
        [&[u8::from(deleted)][..], &revision.to_le_bytes()].concat()
    }

    fn is_deletion(_: &[u8], entry: &[u8]) -> bool {
        entry[0] == 1
    }

    fn kept(floor: Revision, purge: bool, versions: &[(&[u8], Revision, bool)]) -> Vec<Revision> {
        let mut sieve =
            RetentionRule::new(floor, purge.then(|| std::sync::Arc::new(is_deletion) as Purge));
        let versions = versions.iter();
        let kept = versions
            .filter(|(key, revision, deleted)| sieve.keep(key, &entry(*deleted, *revision)));
        kept.map(|(_, revision, _)| *revision).collect()
    }

    #[test]
    fn the_version_seen_at_the_floor_stays_and_older_ones_go() {
        let versions: [(&[u8], _, _); 4] =
            [(b"a", 9, false), (b"a", 5, false), (b"a", 4, false), (b"b", 3, false)];
        assert_eq!(kept(5, false, &versions), [9, 5, 3]);
        assert_eq!(kept(8, false, &versions), [9, 5, 3]);
        assert_eq!(kept(9, false, &versions), [9, 3]);
        assert_eq!(kept(4, false, &versions), [9, 5, 4, 3]);
    }

    #[test]
    fn a_purged_deletion_takes_all_older_versions_with_it() {
        let versions: [(&[u8], _, _); 4] =
            [(b"a", 9, false), (b"a", 5, true), (b"a", 4, false), (b"a", 3, true)];
        assert_eq!(kept(5, true, &versions), [9]);
        assert_eq!(kept(5, false, &versions), [9, 5]);
        assert_eq!(kept(4, true, &versions), [9, 5, 4]);
        assert_eq!(kept(3, true, &versions), [9, 5, 4]);
        assert_eq!(kept(2, true, &versions), [9, 5, 4, 3]);
    }
}
