//! Doctor check: finds run data that belongs to no live run.
//!
//! ```text
//!   events, keys, states, alerts --first of each life--> a head, one that is hidden while its run is restored, or a
//!                                                        marker of its deferred deletion; else a fault
//! ```

use crate::apply::deferred_delete::{self, LEFT_BY_RUNS};
use crate::apply::runs::head;
use crate::apply::runs::staged_restore;
use crate::base::work::Budget;
use crate::key::entry;
use crate::key::keyspace::{self, ALERTS, EVENT_KEYS, EVENTS};
use crate::key::run_keys;
use crate::mvcc::catalog::Catalog;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use crate::storage::index::Index;
use crate::tools::doctor::Faults;
use mainstay_model::{Name, Result, Revision};
use std::ops::Bound;

const HARMLESS: &str = "Nobody reads it and it takes only room; let the index be rebuilt.";

/// Reports data that belongs to no live run and is not marked for deletion.
pub(crate) fn check_left(
    index: &Index,
    catalog: &Catalog,
    at: Revision,
    faults: &mut Faults,
) -> Result<()> {
    let left = RunOrphans { index, catalog, at };
    LEFT_BY_RUNS.iter().try_for_each(|&space| left.check(space, faults))
}

struct RunOrphans<'l> {
    index: &'l Index,
    catalog: &'l Catalog,
    at: Revision,
}

impl RunOrphans<'_> {
    /// Skips from one life of a run to the next, without scanning the data of each.
    fn check(&self, space: u8, faults: &mut Faults) -> Result<()> {
        let mut from = vec![space];
        let end = [space + 1];
        while let Some(key) = self.first(&from, &end)? {
            let next = match keyspace::split(&key) {
                Some((_, branch, name)) => self.judge(space, branch, name, faults)?,
                None => None,
            };
            // A key that cannot be decoded is skipped alone.
            from = next.unwrap_or_else(|| [&key[..], &[0]].concat());
        }
        Ok(())
    }

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

    /// Checks the life that a key belongs to. Returns the key from which the next life is searched.
    fn judge(
        &self,
        space: u8,
        branch: u32,
        name: &[u8],
        faults: &mut Faults,
    ) -> Result<Option<Vec<u8>>> {
        let Some(record) = self.catalog.by_id(branch).filter(|found| found.lives_at(self.at))
        else {
            // The branch was dropped or not completed: compaction drops its data.
            return Ok(keyspace::after_prefix(&keyspace::key(space, branch, b"")));
        };
        faults.branch.clone_from(&record.name);
        let Some((run, generation, _)) = run_keys::split(name) else {
            let run = String::from_utf8_lossy(name);
            faults.run(&run, None, "something stands at no place of a run".into(), HARMLESS);
            return Ok(None);
        };
        if !self.is_of_run(branch, run, generation)? {
            let what = format!(
                "there are {} of a life that is over (generation {generation}), and nothing lets them go",
                noun(space)
            );
            faults.run(run, None, what, HARMLESS);
        }
        let life = run_keys::life(run, generation);
        Ok(keyspace::after_prefix(&keyspace::key(space, branch, &life)))
    }

    /// Returns whether the run lives in this generation, is being restored to it, or has a marker for
    /// its deletion.
    fn is_of_run(&self, branch: u32, run: &str, generation: u64) -> Result<bool> {
        if let Ok(name) = Name::new(run)
            && self.is_lived(branch, &name, generation)
        {
            return Ok(true);
        }
        let key = deferred_delete::run(branch, run, generation);
        let hash = self.index.current.hash(&key);
        let waits = |entry: &[u8]| entry::parse(entry).map(|(head, _)| !head.is_deleted());
        // A marker that cannot be decoded deletes nothing.
        let found = self.index.entry(hash, &key, self.at, false, waits)?;
        Ok(matches!(found, Some(Ok(true))))
    }

    /// Returns whether a generation is the run's current one. An unreadable head has been reported
    /// before.
    fn is_lived(&self, branch: u32, run: &Name, generation: u64) -> bool {
        let layers = self.catalog.layers(branch, self.at);
        let view = View {
            index: self.index,
            layers: &layers,
            now: 0,
            fresh: false,
            budget: Budget::Unlimited,
        };
        let nothing = WriteSet::default();
        let shown = head::find(&view, &nothing, run).map(|found| found.map(|(head, _)| head));
        let is_lived = |head: Result<Option<head::RunHead>>| match head {
            Ok(head) => head.is_some_and(|head| head.generation == generation),
            Err(_) => true,
        };
        let hidden = staged_restore::find(&view, &nothing, run);
        // The hidden head itself has no generation.
        let is_hidden_head = generation == 0 && !matches!(hidden, Ok(None));
        is_lived(shown) || is_hidden_head || is_lived(hidden)
    }
}

fn noun(space: u8) -> &'static str {
    match space {
        EVENTS => "events",
        EVENT_KEYS => "idempotency keys",
        ALERTS => "alerts",
        _ => "kept states",
    }
}
