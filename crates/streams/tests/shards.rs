//! Several workers of one job: they stop at one place, a checkpoint includes all of them or none, and a
//! rescaling neither loses nor duplicates work.

use mainstay::{Code, Database, ErrorKind, KeyedState, Result, SpaceOptions, StateWrite, Wrote};
use mainstay_model::key_group;
use mainstay_streams::{
    CheckpointCoordinator, CheckpointStore, Checkpoints, CoordinationStore, Items, Job, Manifest,
    MemorySink, MemoryState, Operator, Phase, Pipeline, PipelineBuilder, ShardStatus,
    StatefulOperator, Window, WindowOperator, Windows, Worker,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ITEMS: u64 = 4_000;
/// States by key.
type States = BTreeMap<Vec<u8>, Vec<u8>>;
type Counts = StatefulOperator<u64, u64, (u64, u64)>;

fn checkpoints(directory: &Path) -> Checkpoints {
    Checkpoints::open(CheckpointStore::directory(directory).unwrap(), Job::new("job", "counts"))
        .unwrap()
}

fn pipeline(sink: &MemorySink<(u64, u64)>, upto: u64) -> PipelineBuilder<Counts> {
    let counts = StatefulOperator::new(
        "counts",
        |item| format!("key-{}", item % 97),
        |count: Option<u64>, item: &u64, _| {
            let count = count.unwrap_or(0) + 1;
            Ok((Some(count), vec![(item % 97, count)]))
        },
    );
    let items = (0..upto).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
    Pipeline::of(counts)
        .source(Items::new("items", items.collect::<Vec<_>>()))
        .sink(sink.clone())
        .batch(50)
}

/// The result of a single worker.
fn alone(upto: u64) -> (States, Vec<(u64, u64)>) {
    let state = Arc::new(MemoryState::new());
    let sink = MemorySink::new("told");
    pipeline(&sink, upto).open(state.clone()).unwrap().run().unwrap();
    (states(&[state]), sorted_outputs(&[sink]))
}

fn states(all: &[Arc<MemoryState>]) -> States {
    let mut found = BTreeMap::new();
    for state in all {
        for (key, state) in state.scan(b"", None, 100_000).unwrap().states {
            assert!(found.insert(key, state.value).is_none(), "a key is in two shards");
        }
    }
    found
}

fn sorted_outputs(sinks: &[MemorySink<(u64, u64)>]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = sinks
        .iter()
        .flat_map(|sink| sink.outputs().into_iter().map(|output| output.value))
        .collect();
    all.sort_unstable();
    all
}

/// The result of a run of shards.
struct ShardsResult<O> {
    states: Vec<Arc<MemoryState>>,
    sinks: Vec<MemorySink<O>>,
}

/// Runs this many counting shards to the end of the items.
fn run(
    directory: &Path,
    db: &Database,
    shards: u32,
    upto: u64,
) -> Result<(ShardsResult<(u64, u64)>, Manifest)> {
    run_of(directory, db, shards, upto, &|sink| pipeline(sink, upto))
}

/// Runs this many shards to the end of the items, each on its own thread, with continuous checkpoints.
/// Returns the last one.
fn run_of<P>(
    directory: &Path,
    db: &Database,
    shards: u32,
    upto: u64,
    make: &(dyn Fn(&MemorySink<P::Out>) -> PipelineBuilder<P> + Sync),
) -> Result<(ShardsResult<P::Out>, Manifest)>
where
    P: Operator + 'static,
    P::Out: Clone + Send + 'static,
{
    let states: Vec<_> = (0..shards).map(|_| Arc::new(MemoryState::new())).collect();
    let sinks: Vec<_> = (0..shards).map(|_| MemorySink::new("told")).collect();
    let is_over = AtomicBool::new(false);
    let last = std::thread::scope(|scope| {
        for shard in 0..shards {
            let state = states[shard as usize].clone();
            let sink = sinks[shard as usize].clone();
            let coordination = CoordinationStore::new(db.clone(), "job").unwrap();
            let is_over = &is_over;
            scope.spawn(move || {
                let checkpoints = checkpoints(directory);
                let mut worker = Worker::open_shard(
                    make(&sink),
                    state,
                    checkpoints,
                    shard,
                    shards,
                    coordination,
                )
                .unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    worker.step().unwrap();
                    std::thread::yield_now();
                }
            });
        }
        let coordination = CoordinationStore::new(db.clone(), "job").unwrap();
        let taken = CheckpointCoordinator::open(
            coordination,
            checkpoints(directory),
            shards,
            Duration::from_secs(60),
        )
        .and_then(|mut coordinator| {
            loop {
                let manifest = coordinator.checkpoint()?;
                if manifest.shards[0].positions.get("source/items") == Some(&upto) {
                    // One more checkpoint, so that all shards learn the outcome of the previous one.
                    return coordinator.checkpoint();
                }
            }
        });
        is_over.store(true, Ordering::Relaxed);
        taken
    })?;
    Ok((ShardsResult { states, sinks }, last))
}

#[test]
fn shards_stop_at_one_place_and_make_what_one_makes() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::memory().unwrap();
    let (job, manifest) = run(directory.path(), &db, 3, ITEMS).unwrap();
    let (expected, outputs) = alone(ITEMS);
    assert_eq!(states(&job.states), expected);
    assert_eq!(sorted_outputs(&job.sinks), outputs);
    assert_eq!(manifest.shards.len(), 3);
    checkpoints(directory.path()).verify(manifest.checkpoint).unwrap();
    for id in checkpoints(directory.path()).list().unwrap() {
        let manifest = checkpoints(directory.path()).manifest(id).unwrap();
        let places: Vec<_> =
            manifest.shards.iter().map(|part| part.positions.get("source/items")).collect();
        assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    }
}

#[test]
fn work_is_divided_anew_with_nothing_lost_or_doubled() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::memory().unwrap();
    let half = ITEMS / 2;
    let mut outputs: Vec<(u64, u64)> = Vec::new();
    let (job, manifest) = run(directory.path(), &db, 3, half).unwrap();
    outputs.extend(sorted_outputs(&job.sinks));
    let checkpoints = checkpoints(directory.path());
    let moves = manifest.plan(5).unwrap();
    let moved: u32 = moves.iter().map(|step| step.groups.end - step.groups.start).sum();
    assert_eq!(moved, 128, "every group goes somewhere, once");
    let divided = checkpoints.rescale(5).unwrap();
    assert_eq!((divided.shards.len(), divided.epoch), (5, manifest.epoch + 1));
    checkpoints.verify(divided.checkpoint).unwrap();
    let restored: Vec<Arc<MemoryState>> = (0..5)
        .map(|shard| {
            let state = Arc::new(MemoryState::new());
            checkpoints.restore(divided.checkpoint, shard, &*state).unwrap();
            state
        })
        .collect();
    assert_eq!(states(&restored), states(&job.states));

    // Five shards continue, then two.
    let (job, _) = run(directory.path(), &db, 5, half + 1_000).unwrap();
    outputs.extend(sorted_outputs(&job.sinks));
    checkpoints.rescale(2).unwrap();
    let (job, _) = run(directory.path(), &db, 2, ITEMS).unwrap();
    outputs.extend(sorted_outputs(&job.sinks));
    let (expected, all) = alone(ITEMS);
    assert_eq!(states(&job.states), expected);
    outputs.sort_unstable();
    assert_eq!(outputs, all);
}

/// A worker that keeps its space has the new checkpoint's positions but other keys than the new shard.
#[test]
fn a_state_of_before_the_division_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::memory().unwrap();
    let (result, _) = run(directory.path(), &db, 3, 500).unwrap();
    let divided = checkpoints(directory.path()).rescale(2).unwrap();
    for shard in 0..2 {
        // Its sink holds the outputs that the state includes. Otherwise the state would go back for that
        // reason alone.
        let state = &result.states[shard as usize];
        let sink = &result.sinks[shard as usize];
        let state = state.clone();
        let sink = sink.clone();
        let checkpoints = checkpoints(directory.path());
        let coordination = CoordinationStore::new(db.clone(), "job").unwrap();
        let expected = MemoryState::new();
        checkpoints.restore(divided.checkpoint, shard, &expected).unwrap();
        assert!(state.snapshot().unwrap() != expected.snapshot().unwrap());
        Worker::open_shard(
            pipeline(&sink, 500),
            state.clone(),
            checkpoints,
            shard,
            2,
            coordination,
        )
        .unwrap();
        assert_eq!(states(&[state]), states(&[Arc::new(expected)]), "shard {shard}");
    }
}

/// A key in the lower or the upper half of the key groups.
fn key_of(upper: bool, n: usize) -> Vec<u8> {
    let keys = (0..).map(|n: u32| format!("key-{n}").into_bytes());
    keys.filter(|key| (key_group(key, 128) >= 64) == upper).nth(n).unwrap()
}

/// Shards at the same place of the stream may have different frontiers. Tombstones dropped in one stay
/// dropped, and later writes in the other are newer anyway.
#[test]
fn of_two_frontiers_the_higher_one_counts() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints(directory.path());
    let lower = MemoryState::new();
    let upper = MemoryState::new();
    let both = MemoryState::new();
    for (state, is_upper) in [(&lower, false), (&upper, true), (&both, false), (&both, true)] {
        state.put(&key_of(is_upper, 0), b"stays", 1.into()).unwrap();
        state.put(&key_of(is_upper, 1), b"goes", 2.into()).unwrap();
        state.delete(&key_of(is_upper, 1), 3.into()).unwrap();
        state.delete(&key_of(is_upper, 2), 7.into()).unwrap();
    }
    lower.seal(5.into()).unwrap();
    both.seal(5.into()).unwrap();
    both.write(vec![StateWrite::advance("division", 1)]).unwrap();
    let report =
        |shard: u32, groups, state| checkpoints.write(1, shard, groups, state, None).unwrap();
    let reports = vec![report(0, 0..64, &lower), report(1, 64..128, &upper)];
    checkpoints.commit(1, 0, reports).unwrap();
    let divided = checkpoints.rescale(1).unwrap();
    let one = MemoryState::new();
    checkpoints.restore(divided.checkpoint, 0, &one).unwrap();
    for is_upper in [false, true] {
        let again = one.put(&key_of(is_upper, 1), b"again", 2.into()).unwrap();
        assert_eq!(again, Wrote::Stale, "it was deleted, and that was forgotten");
        assert_eq!(one.look(&[&key_of(is_upper, 1)]).unwrap(), [None]);
    }
    assert!(one.snapshot().unwrap() == both.snapshot().unwrap());
}

/// Writes that wait below the higher frontier would have to be applied first.
#[test]
fn frontiers_of_spaces_in_order_have_to_be_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints(directory.path());
    let ordered = || {
        let state = MemoryState::new();
        state.declare(SpaceOptions::default().ordered()).unwrap();
        state
    };
    let lower = ordered();
    let upper = ordered();
    upper.put(&key_of(true, 0), b"waits", 3.into()).unwrap();
    lower.seal(5.into()).unwrap();
    let take = |id: u64| {
        let lower = checkpoints.write(id, 0, 0..64, &lower, None).unwrap();
        let upper = checkpoints.write(id, 1, 64..128, &upper, None).unwrap();
        checkpoints.commit(id, 0, vec![lower, upper]).unwrap();
    };
    take(1);
    let error = checkpoints.rescale(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.message().contains("seal"), "{error}");
    upper.seal(5.into()).unwrap();
    take(2);
    checkpoints.rescale(1).unwrap();
}

#[test]
fn dividing_that_ends_half_way_has_not_happened() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::memory().unwrap();
    let (_, manifest) = run(directory.path(), &db, 2, 500).unwrap();
    let checkpoints = checkpoints(directory.path());
    // Leftovers of a crash: files of new shards without a manifest.
    let data = directory.path().join("job/data");
    let next = manifest.checkpoint + 1;
    for shard in 0..4 {
        std::fs::write(data.join(format!("{next:020}-{shard}")), "half of it").unwrap();
    }
    assert_eq!(checkpoints.latest().unwrap().unwrap(), manifest);
    let divided = checkpoints.rescale(3).unwrap();
    checkpoints.verify(divided.checkpoint).unwrap();
    assert!(!data.join(format!("{next:020}-3")).exists(), "what nobody needs is removed");
    // A damaged file of the old checkpoint also prevents any change.
    let file = directory.path().join(&divided.shards[1].files[0].name);
    std::fs::write(file, "damaged").unwrap();
    assert_eq!(checkpoints.rescale(2).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(checkpoints.latest().unwrap().unwrap(), divided);
}

#[test]
fn who_works_in_an_epoch_that_is_over_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::memory().unwrap();
    let checkpoints = checkpoints(directory.path());
    let (job, manifest) = run(directory.path(), &db, 2, 500).unwrap();
    let late = |shard: u32| {
        let state = &job.states[shard as usize];
        let groups = if shard == 0 { 0..64 } else { 64..128 };
        checkpoints.write(manifest.checkpoint + 2, shard, groups, &**state, None).unwrap()
    };
    let reports = vec![late(0), late(1)];
    let divided = checkpoints.rescale(3).unwrap();
    let error = checkpoints.commit(manifest.checkpoint + 2, manifest.epoch, reports).unwrap_err();
    assert_eq!(error.code(), Code::Fenced, "{error}");
    assert_eq!(checkpoints.latest().unwrap().unwrap(), divided);
    let coordination = CoordinationStore::new(db.clone(), "job").unwrap();
    let open = |shards: u32, shard: u32| {
        let sink = MemorySink::new("told");
        let state = Arc::new(MemoryState::new());
        let checkpoints = self::checkpoints(directory.path());
        Worker::open_shard(
            pipeline(&sink, 500),
            state,
            checkpoints,
            shard,
            shards,
            coordination.clone(),
        )
        .map(|_| ())
    };
    assert_eq!(open(2, 0).unwrap_err().kind(), ErrorKind::Invalid, "there are three shards now");
    assert_eq!(open(3, 3).unwrap_err().kind(), ErrorKind::Invalid, "they are 0 to 2");
    open(3, 2).unwrap();
}

#[test]
fn a_shard_that_fails_or_says_nothing_aborts_it_and_the_next_is_tried() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::memory().unwrap();
    let coordination = CoordinationStore::new(db.clone(), "job").unwrap();
    let open = |timeout| {
        CheckpointCoordinator::open(coordination.clone(), checkpoints(directory.path()), 2, timeout)
            .unwrap()
    };
    // No shard is running.
    let error = open(Duration::from_millis(50)).checkpoint().unwrap_err();
    assert_eq!(error.code(), Code::CheckpointAborted, "{error}");
    assert!(matches!(coordination.status().unwrap().unwrap().phase, Phase::Aborted { .. }));
    // One shard fails as soon as it is asked.
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let status = coordination.status().unwrap().unwrap();
                if status.phase == Phase::Gathering {
                    let failed = ShardStatus::Failed("its disk is full".to_owned());
                    return coordination.post(status.checkpoint, 1, &failed).unwrap();
                }
                std::thread::yield_now();
            }
        });
        open(Duration::from_secs(60)).checkpoint().unwrap_err()
    });
    assert!(error.message().contains("shard 1 failed: its disk is full"), "{error}");
    assert_eq!(checkpoints(directory.path()).list().unwrap(), Vec::<u64>::new());
    // Afterwards a checkpoint succeeds.
    let (_, manifest) = run(directory.path(), &db, 2, 300).unwrap();
    assert!(manifest.checkpoint > 2, "numbers that were given up are not used again");
}

/// The next coordinator ends the unfinished checkpoint of the previous one.
#[test]
fn a_coordinator_that_died_is_followed_by_another() {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::memory().unwrap();
    let coordination = CoordinationStore::new(db.clone(), "job").unwrap();
    let status = mainstay_streams::CheckpointStatus {
        checkpoint: 9,
        epoch: 0,
        shards: 2,
        patience_ms: None,
        phase: Phase::Gathering,
    };
    db.cells().set("jobs/job/checkpoint", serde_json::to_string(&status).unwrap()).unwrap();
    CheckpointCoordinator::open(
        coordination.clone(),
        checkpoints(directory.path()),
        2,
        Duration::from_secs(1),
    )
    .unwrap();
    assert!(matches!(coordination.status().unwrap().unwrap().phase, Phase::Aborted { .. }));
    let (_, manifest) = run(directory.path(), &db, 2, 300).unwrap();
    assert!(manifest.checkpoint > 9);
}

/// Windows fire once, in the shard of their key, even if the job is rescaled between two firings.
#[test]
fn windows_fire_once_across_a_division() {
    let make = |sink: &MemorySink<Window<u64>>, upto: u64| {
        let key = |item: &u64| format!("key-{}", item % 13);
        // Ten items per millisecond, some of them late, some too late.
        let event_ms = |item: &u64| 1_000 + (item / 10).saturating_sub(item % 7 * 5);
        let fold = |sum: Option<u64>, item: &u64| Ok(sum.unwrap_or(0) + item);
        let windows = Windows::Tumbling { size_ms: 20 };
        let sums = WindowOperator::new("counts", windows, key, event_ms, fold).lateness_ms(20);
        Pipeline::of(sums).source(Items::new("items", 0..upto)).sink(sink.clone()).batch(37)
    };
    let fired = |sinks: &[MemorySink<Window<u64>>]| -> Vec<String> {
        let outputs = sinks.iter().flat_map(MemorySink::outputs);
        outputs.map(|output| format!("{} {:?}", output.id, output.value)).collect()
    };
    let directory = tempfile::tempdir().unwrap();
    let db = Database::memory().unwrap();
    let mut all = Vec::new();
    for (shards, upto) in [(2, 1_333), (3, 2_600), (1, 4_000)] {
        if checkpoints(directory.path()).latest().unwrap().is_some() {
            checkpoints(directory.path()).rescale(shards).unwrap();
        }
        let (result, _) =
            run_of(directory.path(), &db, shards, upto, &|sink| make(sink, upto)).unwrap();
        all.extend(fired(&result.sinks));
    }
    let alone = MemorySink::new("told");
    make(&alone, 4_000).open(Arc::new(MemoryState::new())).unwrap().run().unwrap();
    let mut expected = fired(&[alone]);
    all.sort();
    expected.sort();
    assert!(expected.len() > 100);
    assert_eq!(all, expected);
}
