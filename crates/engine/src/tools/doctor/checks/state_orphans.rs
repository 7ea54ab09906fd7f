//! Doctor check: finds keyed-state generations that belong to no space and are not marked for deletion.

use crate::apply::deferred_delete;
use crate::apply::keyed::space;
use crate::base::work::Budget;
use crate::key::entry;
use crate::key::keyspace::{self, KEYED};
use crate::key::state_keys;
use crate::mvcc::catalog::Catalog;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use crate::storage::index::Index;
use crate::tools::doctor::Faults;
use mainstay_model::{Name, Result, Revision};
use std::ops::Bound;

const HARMLESS: &str = "Nobody reads it and it takes only room; let the index be rebuilt.";

/// Reports generations that are neither visible, nor being filled, nor marked for deletion.
pub(crate) fn check_left(
    index: &Index,
    catalog: &Catalog,
    at: Revision,
    faults: &mut Faults,
) -> Result<()> {
    let left = StateOrphans { index, catalog, at };
    let mut from = vec![KEYED];
    let end = [KEYED + 1];
    while let Some(key) = left.first(&from, &end)? {
        let next = match keyspace::split(&key) {
            Some((_, branch, name)) => left.judge(branch, name, faults)?,
            None => None,
        };
        // A key that cannot be decoded is skipped alone.
        from = next.unwrap_or_else(|| [&key[..], &[0]].concat());
    }
    Ok(())
}

struct StateOrphans<'l> {
    index: &'l Index,
    catalog: &'l Catalog,
    at: Revision,
}

impl StateOrphans<'_> {
    /// Returns the first live key. An entry that cannot be decoded counts as live.
    fn first(&self, from: &[u8], end: &[u8]) -> Result<Option<Vec<u8>>> {
        for row in self.index.scan(Bound::Included(from), Bound::Excluded(end), self.at) {
            let row = row?;
            if entry::parse(row.entry()).map_or(true, |(head, _)| !head.is_deleted()) {
                return Ok(Some(row.key().to_vec()));
            }
        }
        Ok(None)
    }

    /// Checks the generation that a key belongs to. Returns the key from which the next one is
    /// searched.
    fn judge(&self, branch: u32, name: &[u8], faults: &mut Faults) -> Result<Option<Vec<u8>>> {
        let Some(record) = self.catalog.by_id(branch).filter(|found| found.lives_at(self.at))
        else {
            // The branch was dropped or not completed: compaction drops its data.
            return Ok(keyspace::after_prefix(&keyspace::key(KEYED, branch, b"")));
        };
        faults.branch.clone_from(&record.name);
        let Some((space, generation, _)) = state_keys::split(name) else {
            let space = String::from_utf8_lossy(name);
            faults.space(&space, "something stands at no place of a space".into(), HARMLESS);
            return Ok(None);
        };
        if !self.is_known(branch, space, generation) && !self.is_to_go(branch, space, generation)? {
            let what = format!(
                "there are entries of generation {generation}, which is neither seen nor filled, and nothing lets \
                 them go"
            );
            faults.space(space, what, HARMLESS);
        }
        Ok(keyspace::after_prefix(&keyspace::key(
            KEYED,
            branch,
            &state_keys::life(space, generation),
        )))
    }

    /// Returns whether a generation is visible or being filled. An unreadable declaration has been
    /// reported before.
    fn is_known(&self, branch: u32, space: &str, generation: u64) -> bool {
        let Ok(name) = Name::new(space) else { return false };
        let layers = self.catalog.layers(branch, self.at);
        let view = View {
            index: self.index,
            layers: &layers,
            now: 0,
            fresh: false,
            budget: Budget::Unlimited,
        };
        match space::meet(&view, &WriteSet::default(), &name) {
            Err(_) => true,
            Ok(met) => met.declared.is_some_and(|declared| {
                let seen = declared.is_there && declared.generation == generation;
                seen || declared.filling == generation
            }),
        }
    }

    /// Returns whether a marker for the deletion of a generation exists.
    fn is_to_go(&self, branch: u32, space: &str, generation: u64) -> Result<bool> {
        let key = deferred_delete::space(branch, space, generation);
        let hash = self.index.current.hash(&key);
        let waits = |entry: &[u8]| entry::parse(entry).map(|(head, _)| !head.is_deleted());
        // A marker that cannot be decoded deletes nothing.
        let found = self.index.entry(hash, &key, self.at, false, waits)?;
        Ok(matches!(found, Some(Ok(true))))
    }
}
