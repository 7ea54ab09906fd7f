//! Whether all that is there of runs belongs to one: for the doctor.
//!
//! ```text
//!   events, keys, states, alerts --first of each life--> a head, one that is hidden while its run is restored, or a
//!                                                        marker that lets it go; else a fault
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

/// Tells what belongs to no run that lives and is not about to go.
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
    /// Goes from one life to the next: what is of a life is not walked over.
    fn check(&self, space: u8, faults: &mut Faults) -> Result<()> {
        let (mut from, end) = (vec![space], [space + 1]);
        while let Some(key) = self.first(&from, &end)? {
            let next = match keyspace::split(&key) {
                Some((_, branch, name)) => self.judge(space, branch, name, faults)?,
                None => None,
            };
            // What cannot be taken apart is passed one by one.
            from = next.unwrap_or_else(|| [&key[..], &[0]].concat());
        }
        Ok(())
    }

    /// The first key that is there; one whose entry cannot be taken apart is.
    fn first(&self, from: &[u8], end: &[u8]) -> Result<Option<Vec<u8>>> {
        for row in self.index.scan(Bound::Included(from), Bound::Excluded(end), self.at) {
            let row = row?;
            if entry::parse(row.entry()).map_or(true, |(head, _)| !head.is_deleted()) {
                return Ok(Some(row.key().to_vec()));
            }
        }
        Ok(None)
    }

    /// Looks at the life that a place is of; gives where the next one may begin.
    fn judge(
        &self,
        space: u8,
        branch: u32,
        name: &[u8],
        faults: &mut Faults,
    ) -> Result<Option<Vec<u8>>> {
        let Some(record) = self.catalog.by_id(branch).filter(|found| found.lives_at(self.at))
        else {
            // Of a branch that is gone, or not finished: compaction drops it.
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

    /// Whether a run lives that life, is being restored to it, or a marker waits to let it go.
    fn is_of_run(&self, branch: u32, run: &str, generation: u64) -> Result<bool> {
        if let Ok(name) = Name::new(run)
            && self.is_lived(branch, &name, generation)
        {
            return Ok(true);
        }
        let key = deferred_delete::run(branch, run, generation);
        let hash = self.index.current.hash(&key);
        let waits = |entry: &[u8]| entry::parse(entry).map(|(head, _)| !head.is_deleted());
        // A marker that cannot be read lets nothing go.
        let found = self.index.entry(hash, &key, self.at, false, waits)?;
        Ok(matches!(found, Some(Ok(true))))
    }

    /// A head that cannot be read was told of before.
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
        // The hidden head itself stands in no life.
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
