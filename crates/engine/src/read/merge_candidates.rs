//! Merge candidates: names that a merge's source branch may have changed, collected in advance.
//!
//! ```text
//!   caller   walks the source's changes at a published revision; every thousand rows it adds the names
//!            written to the source meanwhile (recent writes)
//!   writer   adds the names written since, then merges
//! ```
//!
//! The walk takes time proportional to the size of the branches, but no writer waits for it. Its result
//! is valid for one source and one common ancestor. If the writer finds others, or if the recent writes
//! do not reach back to the end of the walk, it walks itself, as for a merge without candidates.

use crate::apply::candidates::Candidates;
use crate::apply::guards::CheckedRanges;
use crate::apply::three_way_diff::Comparison;
use crate::base::work::Budget;
use crate::commit::prepared::ReadAhead;
use crate::lifecycle::engine::EngineShared;
use crate::storage::index::NEWEST;
use mainstay_model::limits::TRANSACTION_LIMIT_COMMANDS;
use mainstay_model::{BranchCommand, Code, Command, Name, Result, Transaction};
use std::collections::BTreeSet;

/// The number of rows walked between two reads of the recent writes, which forget old writes.
const STEP_ROWS: usize = 1024;
/// The attempts of a walk that became invalid because another merge came first.
const TRIES: usize = 3;

impl EngineShared {
    /// Collects a merge's candidates and checks range guards before the writer runs.
    pub fn look_ahead(&self, transaction: &Transaction) -> ReadAhead {
        let merge = merge_of(transaction);
        ReadAhead {
            checked: self.checked(transaction),
            candidates: merge.and_then(|(from, into)| self.find(from, into).transpose()),
            prefetched: None,
        }
    }

    /// Checks range guards. `None` if the transaction has none, or if the writer has to check them
    /// itself.
    fn checked(&self, transaction: &Transaction) -> Option<CheckedRanges> {
        if !transaction.has_range_guards() {
            return None;
        }
        let (branch, upto) = {
            let catalog = self.state.catalog.read();
            let upto = self.sequencer.published();
            (
                transaction
                    .branch_id
                    .map_or_else(
                        || catalog.visible(&transaction.branch, upto).map(|branch| branch.id),
                        Ok,
                    )
                    .ok()?,
                upto,
            )
        };
        CheckedRanges::new(&transaction.guards, branch, &self.state.trail, upto).ok().flatten()
    }

    /// Returns `None` on any other error, because the writer reports it. A cancelled search does not
    /// continue in the writer.
    fn find(&self, from: &Name, into: &Name) -> Result<Option<Candidates>> {
        for _ in 0..TRIES {
            let found = match self.search(from, into) {
                Err(error) if error.code() == Code::Cancelled => return Err(error),
                found => found.ok().flatten(),
            };
            match found {
                Some(found) if self.still_fits(&found, from, into) => return Ok(Some(found)),
                // Another merge may be executed but not visible yet: the next walk begins after it.
                Some(_) => self.sequencer.settle(),
                None => break,
            }
        }
        Ok(None)
    }

    /// Walks the source's changes at the newest visible revision, then catches up to the revision that
    /// is newest by then.
    fn search(&self, from: &Name, into: &Name) -> Result<Option<Candidates>> {
        self.check_open()?;
        let (at, _pin, source, comparison) = {
            // In this order: while the catalog is not held, branches that readers no longer see may be
            // dropped from it.
            let catalog = self.state.catalog.read();
            let at = self.sequencer.published();
            let pin = self.pins.hold("merge", self.clock.monotonic_us(), at);
            let a = catalog.visible(from.as_str(), at)?.id;
            let b = catalog.visible(into.as_str(), at)?.id;
            (
                at,
                pin,
                a,
                Comparison::new(self.index(), &catalog, (a, at), (b, at), 0, Budget::Reader)?,
            )
        };
        let base = comparison.base;
        let names = BTreeSet::new();
        let mut found = Candidates { source, base, names, upto: at };
        for (row, name) in comparison.walk_a().enumerate() {
            found.names.extend(name?);
            if row % STEP_ROWS == 0 && self.catch_up(&mut found).is_none() {
                return Ok(None);
            }
            // The merge will be refused for its size, so collecting stops.
            if found.names.len() > TRANSACTION_LIMIT_COMMANDS {
                break;
            }
        }
        Ok(self.catch_up(&mut found).map(|()| found))
    }

    fn catch_up(&self, found: &mut Candidates) -> Option<()> {
        #[cfg(test)]
        if let Some(searching) = self.searching.lock().as_mut() {
            searching();
        }
        found.catch_up(&self.state.trail, self.sequencer.published())
    }

    fn still_fits(&self, found: &Candidates, from: &Name, into: &Name) -> bool {
        let catalog = self.state.catalog.read();
        let (Ok(a), Ok(b)) = (catalog.live(from.as_str()), catalog.live(into.as_str())) else {
            return true;
        };
        found.source == a.id && found.base == catalog.merge_base((a.id, NEWEST), (b.id, NEWEST))
    }
}

/// Returns the branches of a merge, which is the only step of its transaction.
fn merge_of(transaction: &Transaction) -> Option<(&Name, &Name)> {
    match transaction.steps.as_slice() {
        [step] => match &step.command {
            Command::Branch(BranchCommand::Merge { from, into, .. }) => Some((from, into)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::keyspace;
    use crate::mvcc::recent_writes::RecentWrites;
    use crate::{At, Database, Durability, ManualClock, MergeStrategy, Options, Ttl};
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    const BRANCHES: [&str; 3] = ["main", "side", "other"];
    const STRATEGIES: [MergeStrategy; 3] =
        [MergeStrategy::Strict, MergeStrategy::Theirs, MergeStrategy::Ours];

    fn merge(from: &str, into: &str, strategy: MergeStrategy) -> Transaction {
        let from = Name::new(from).unwrap();
        let into = Name::new(into).unwrap();
        Transaction::new().step(BranchCommand::Merge { from, into, strategy })
    }

    fn open(clock: &Arc<ManualClock>) -> Database {
        let options = Options::new().durability(Durability::Memory).clock(clock.clone());
        options.sweep_interval(None).write_buffer_bytes(64 << 10).memory().unwrap()
    }

    #[test]
    fn writers_are_not_held_while_a_merge_searches() {
        let db = open(&ManualClock::new(1_000_000_000));
        db.fork("side", "main", At::Latest).unwrap();
        for i in 0..5_000 {
            db.branch("side").unwrap().cells().set(&format!("{i}"), 1).unwrap();
        }
        let writes = Arc::new(AtomicUsize::new(0));
        let before = db.revision();
        let own = db.clone();
        let count = writes.clone();
        // A write of the merging thread itself. It would deadlock if the writer were held.
        *db.here("a test").unwrap().searching.lock() = Some(Box::new(move || {
            for branch in ["main", "side"] {
                own.branch(branch).unwrap().cells().set("meanwhile", branch).unwrap();
                // SeqCst: a test counter; any order would do.
                count.fetch_add(1, Ordering::SeqCst);
            }
        }));
        let merged = db.merge("side", "main", MergeStrategy::Theirs).unwrap();
        *db.here("a test").unwrap().searching.lock() = None;
        // SeqCst as above.
        let writes = writes.load(Ordering::SeqCst);
        assert!(writes > 2 * 5_000 / STEP_ROWS, "{writes} writes during the search");
        assert_eq!(merged, before + writes as u64 + 1);
        assert_eq!(db.cells().get("meanwhile").unwrap(), Some("side".into()));
        assert_eq!(db.cells().list("", None, 10_000).unwrap().names.len(), 5_001);
    }

    /// A client that disconnects during the search does not make the writer search instead.
    #[test]
    fn a_search_that_is_stopped_ends_the_merge() {
        let db = open(&ManualClock::new(1_000_000_000));
        db.fork("side", "main", At::Latest).unwrap();
        for i in 0..1_000 {
            db.branch("side").unwrap().cells().set(&format!("{i}"), 1).unwrap();
        }
        let before = db.revision();
        let stopped =
            crate::until_stopped(|| true, || db.merge("side", "main", MergeStrategy::Strict));
        assert_eq!(stopped.unwrap_err().code(), Code::Cancelled);
        assert_eq!(db.revision(), before);
    }

    #[test]
    fn the_writer_takes_what_was_found_and_adds_what_came_later() {
        let db = open(&ManualClock::new(1_000_000_000));
        db.fork("side", "main", At::Latest).unwrap();
        let side = db.branch("side").unwrap().cells();
        side.set("b", 1).unwrap();
        let submitted =
            db.here("a test").unwrap().prepare(merge("side", "main", MergeStrategy::Strict));
        side.set("a", 1).unwrap();
        side.set("b", 2).unwrap();
        let found = submitted.candidates().unwrap().as_ref().unwrap();
        let names = |source| found.all(source, found.base, &db.here("a test").unwrap().state.trail);
        let expected = [b"a", b"b"].map(|name| (keyspace::CELLS, name.to_vec()));
        assert_eq!(names(found.source).unwrap(), expected);
        assert!(names(found.source + 1).is_none(), "another branch");
        let other = (found.base.0, found.base.1 + 1);
        assert!(
            found.all(found.source, other, &db.here("a test").unwrap().state.trail).is_none(),
            "another base"
        );
        assert!(
            found.all(found.source, found.base, &RecentWrites::new(99)).is_none(),
            "too long ago"
        );
        db.here("a test").unwrap().sequencer.execute(submitted).unwrap();
        assert_eq!(db.cells().get("b").unwrap(), Some(2.into()));
    }

    /// An operation before a merge, or during its search.
    #[derive(Clone, Debug)]
    enum Act {
        Set(usize, u8, i64),
        Fade(usize, u8),
        Delete(usize, u8),
        Merge(usize, usize, usize),
        Remake(usize),
        Pass,
    }

    fn act() -> impl Strategy<Value = Act> {
        let branch = 0..BRANCHES.len();
        let cell = 0..6_u8;
        prop_oneof![
            6 => (branch.clone(), cell.clone(), 0..3_i64).prop_map(|(b, c, v)| Act::Set(b, c, v)),
            2 => (branch.clone(), cell.clone()).prop_map(|(b, c)| Act::Fade(b, c)),
            3 => (branch.clone(), cell).prop_map(|(b, c)| Act::Delete(b, c)),
            2 => (branch.clone(), branch.clone(), 0..3_usize)
                .prop_map(|(a, b, s)| Act::Merge(a, b, s)),
            1 => branch.prop_map(Act::Remake),
            1 => Just(Act::Pass),
        ]
    }

    impl Act {
        /// Runs the operation. An error is the same for both twins.
        fn run(&self, db: &Database, clock: &ManualClock) {
            let cells = |branch: usize| db.branch(BRANCHES[branch]).map(|branch| branch.cells());
            let name = |cell: u8| format!("{cell}");
            clock.advance(Duration::from_millis(1));
            match *self {
                Act::Set(b, c, value) => drop(cells(b).and_then(|b| b.set(&name(c), value))),
                Act::Fade(b, c) => {
                    drop(cells(b).and_then(|b| b.set_with(&name(c), 9, Ttl::Millis(8))));
                }
                Act::Delete(b, c) => drop(cells(b).and_then(|b| b.delete(&name(c)))),
                Act::Merge(a, b, s) => {
                    let merge = merge(BRANCHES[a], BRANCHES[b], STRATEGIES[s]);
                    drop(db.here("a test").unwrap().sequencer.execute(merge));
                }
                Act::Remake(b) => {
                    drop(db.delete_branch(BRANCHES[b]));
                    drop(db.fork(BRANCHES[b], "main", At::Latest));
                }
                Act::Pass => clock.advance(Duration::from_millis(10)),
            }
        }
    }

    proptest! {
        #[test]
        fn a_merge_is_as_if_it_had_run_alone(
            before in prop::collection::vec(act(), 0..25),
            meanwhile in prop::collection::vec(prop::collection::vec(act(), 0..5), 0..4),
            after in prop::collection::vec(act(), 0..5),
            (from, into, strategy) in (0..3_usize, 0..3_usize, 0..3_usize),
        ) {
            let clocks = [ManualClock::new(1_000_000_000), ManualClock::new(1_000_000_000)];
            let [searched, alone] = [open(&clocks[0]), open(&clocks[1])];
            for (db, clock) in [(&searched, &clocks[0]), (&alone, &clocks[1])] {
                for branch in ["side", "other"] {
                    db.fork(branch, "main", At::Latest).unwrap();
                }
                before.iter().for_each(|act| act.run(db, clock));
            }
            let ran = Arc::new(AtomicUsize::new(0));
            let (own, clock, acts, count) =
                (searched.clone(), clocks[0].clone(), meanwhile.clone(), ran.clone());
            *searched.here("a test").unwrap().searching.lock() = Some(Box::new(move || {
                // SeqCst: a test counter on one thread; any order would do.
                let now = acts.get(count.load(Ordering::SeqCst));
                now.into_iter().flatten().for_each(|act| act.run(&own, &clock));
                // SeqCst as above.
                count.fetch_add(now.is_some().into(), Ordering::SeqCst);
            }));
            let merge = merge(BRANCHES[from], BRANCHES[into], STRATEGIES[strategy]);
            let submitted = searched.here("a test").unwrap().prepare(merge.clone());
            *searched.here("a test").unwrap().searching.lock() = None;
            after.iter().for_each(|act| act.run(&searched, &clocks[0]));
            let result = searched.here("a test").unwrap().sequencer.execute(submitted);
            // SeqCst as above.
            let ran = ran.load(Ordering::SeqCst);
            meanwhile[..ran].iter().flatten().for_each(|act| act.run(&alone, &clocks[1]));
            after.iter().for_each(|act| act.run(&alone, &clocks[1]));
            let expected = alone.here("a test").unwrap().sequencer.execute(merge);
            let judged = |result: Result<mainstay_model::Receipt>| {
                result.map_err(|error| (error.code(), error.keys().to_vec()))
            };
            prop_assert_eq!(judged(result), judged(expected));
            for branch in BRANCHES {
                let hash = |db: &Database| db.export_hash(branch).map_err(|error| error.code());
                prop_assert_eq!(hash(&searched), hash(&alone), "{}", branch);
            }
        }
    }
}
