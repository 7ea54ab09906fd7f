//! Tests of `mainstay_engine::read::merge_candidates` on whole databases.

use mainstay::{At, Database, Durability, ManualClock, MergeStrategy, Options, Ttl};
use mainstay_engine::key::keyspace;
use mainstay_engine::mvcc::recent_writes::RecentWrites;
use mainstay_engine::read::merge_candidates::*;
use mainstay_model::{BranchCommand, Code, Name, Result, Transaction};
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
    *db.engine().searching.lock() = Some(Box::new(move || {
        for branch in ["main", "side"] {
            own.branch(branch).unwrap().cells().set("meanwhile", branch).unwrap();
            // SeqCst: a test counter; any order would do.
            count.fetch_add(1, Ordering::SeqCst);
        }
    }));
    let merged = db.merge("side", "main", MergeStrategy::Theirs).unwrap();
    *db.engine().searching.lock() = None;
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
        mainstay::until_stopped(|| true, || db.merge("side", "main", MergeStrategy::Strict));
    assert_eq!(stopped.unwrap_err().code(), Code::Cancelled);
    assert_eq!(db.revision(), before);
}

#[test]
fn the_writer_takes_what_was_found_and_adds_what_came_later() {
    let db = open(&ManualClock::new(1_000_000_000));
    db.fork("side", "main", At::Latest).unwrap();
    let side = db.branch("side").unwrap().cells();
    side.set("b", 1).unwrap();
    let submitted = db.engine().prepare(merge("side", "main", MergeStrategy::Strict));
    side.set("a", 1).unwrap();
    side.set("b", 2).unwrap();
    let found = submitted.candidates().unwrap().as_ref().unwrap();
    let names = |source| found.all(source, found.base, &db.engine().state.trail);
    let expected = [b"a", b"b"].map(|name| (keyspace::CELLS, name.to_vec()));
    assert_eq!(names(found.source).unwrap(), expected);
    assert!(names(found.source + 1).is_none(), "another branch");
    let other = (found.base.0, found.base.1 + 1);
    assert!(found.all(found.source, other, &db.engine().state.trail).is_none(), "another base");
    assert!(found.all(found.source, found.base, &RecentWrites::new(99)).is_none(), "too long ago");
    db.engine().sequencer.execute(submitted).unwrap();
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
                drop(db.engine().sequencer.execute(merge));
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
        *searched.engine().searching.lock() = Some(Box::new(move || {
            // SeqCst: a test counter on one thread; any order would do.
            let now = acts.get(count.load(Ordering::SeqCst));
            now.into_iter().flatten().for_each(|act| act.run(&own, &clock));
            // SeqCst as above.
            count.fetch_add(now.is_some().into(), Ordering::SeqCst);
        }));
        let merge = merge(BRANCHES[from], BRANCHES[into], STRATEGIES[strategy]);
        let submitted = searched.engine().prepare(merge.clone());
        *searched.engine().searching.lock() = None;
        after.iter().for_each(|act| act.run(&searched, &clocks[0]));
        let result = searched.engine().sequencer.execute(submitted);
        // SeqCst as above.
        let ran = ran.load(Ordering::SeqCst);
        meanwhile[..ran].iter().flatten().for_each(|act| act.run(&alone, &clocks[1]));
        after.iter().for_each(|act| act.run(&alone, &clocks[1]));
        let expected = alone.engine().sequencer.execute(merge);
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
