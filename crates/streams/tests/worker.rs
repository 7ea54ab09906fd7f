//! Workers that restart at bad moments: prepared outputs are shown, truncated ones are produced again, and no
//! output is seen twice.

use mainstay::{Code, Database, ErrorKind, KeyedState, Result, SpaceOptions};
use mainstay_streams::{
    CheckpointCoordinator, CheckpointStatus, CheckpointStore, Checkpoints, CoordinationStore,
    FileSink, Items, Job, MemorySink, MemoryState, OpenStatus, Operator, Phase, Pipeline,
    PipelineBuilder, ShardReport, ShardStatus, Sink, SourcePositions, StatefulOperator, Worker,
};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const ITEMS: u64 = 400;
const STATUS_CELL: &str = "jobs/job/checkpoint";

fn builder(out: &PathBuf) -> PipelineBuilder<impl Operator<Item = u64, Out = (u64, u64)> + use<>> {
    without_sink().sink(FileSink::new("out", out))
}

fn without_sink() -> PipelineBuilder<impl Operator<Item = u64, Out = (u64, u64)> + use<>> {
    let counts = StatefulOperator::new(
        "counts",
        |item| format!("key-{}", item % 29),
        |count: Option<u64>, item: &u64, _| {
            let count = count.unwrap_or(0) + 1;
            Ok((Some(count), vec![(item % 29, count)]))
        },
    );
    Pipeline::of(counts).source(Items::new("items", 0..ITEMS)).batch(20)
}

/// A job whose coordinator is simulated by the test.
struct Fixture {
    root: tempfile::TempDir,
    db: Database,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture { root: tempfile::tempdir().unwrap(), db: Database::memory().unwrap() }
    }

    fn coordination(&self) -> CoordinationStore {
        CoordinationStore::new(self.db.clone(), "job").unwrap()
    }

    fn checkpoints(&self) -> Checkpoints {
        let store = CheckpointStore::directory(self.root.path().join("checkpoints")).unwrap();
        Checkpoints::open(store, Job::new("job", "counts")).unwrap()
    }

    fn out(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Opens a shard with an output directory, on a machine that has lost its state.
    fn open(
        &self,
        shard: u32,
        shards: u32,
        out: &str,
    ) -> Result<Worker<impl Operator<Item = u64, Out = (u64, u64)> + use<>>> {
        self.open_with(self.checkpoints(), Arc::new(MemoryState::new()), (shard, shards), out)
    }

    fn open_with(
        &self,
        checkpoints: Checkpoints,
        state: Arc<dyn KeyedState>,
        (shard, shards): (u32, u32),
        out: &str,
    ) -> Result<Worker<impl Operator<Item = u64, Out = (u64, u64)> + use<>>> {
        let builder = builder(&self.out(out));
        Worker::open_shard(builder, state, checkpoints, shard, shards, self.coordination())
    }

    fn set_status(&self, checkpoint: u64, epoch: u64, shards: u32, phase: Phase) {
        let status =
            CheckpointStatus { checkpoint, epoch, shards, patience_ms: Some(60_000), phase };
        self.db.cells().set(STATUS_CELL, serde_json::to_string(&status).unwrap()).unwrap();
    }

    fn shard_status(&self, checkpoint: u64, shard: u32) -> Option<ShardStatus> {
        let value =
            self.db.cells().get(&format!("{STATUS_CELL}/{checkpoint:020}/{shard}")).unwrap()?;
        Some(serde_json::from_str(value.as_str().unwrap()).unwrap())
    }

    /// Lets all shards write a checkpoint that is not committed yet.
    fn report_all<P: Operator>(
        &self,
        checkpoint: u64,
        epoch: u64,
        workers: &mut [Worker<P>],
    ) -> Vec<ShardReport> {
        let shards = workers.len() as u32;
        self.set_status(checkpoint, epoch, shards, Phase::Gathering);
        let mut upto = SourcePositions::new();
        for (shard, worker) in (0..).zip(workers.iter_mut()) {
            worker.step().unwrap();
            let Some(ShardStatus::Reached(positions)) = self.shard_status(checkpoint, shard) else {
                panic!()
            };
            let at = upto.entry("items".to_owned()).or_default();
            *at = (*at).max(positions["items"]);
        }
        self.set_status(checkpoint, epoch, shards, Phase::Writing { upto });
        let reports = (0..).zip(workers.iter_mut()).map(|(shard, worker)| {
            loop {
                worker.step().unwrap();
                match self.shard_status(checkpoint, shard) {
                    Some(ShardStatus::Report(report)) => return *report,
                    Some(ShardStatus::Failed(why)) => panic!("{why}"),
                    _ => {}
                }
            }
        });
        reports.collect()
    }

    /// Takes a checkpoint and informs all shards.
    fn commit_checkpoint<P: Operator>(
        &self,
        checkpoint: u64,
        epoch: u64,
        workers: &mut [Worker<P>],
    ) {
        let reports = self.report_all(checkpoint, epoch, workers);
        self.checkpoints().commit(checkpoint, epoch, reports).unwrap();
        self.set_status(checkpoint, epoch, workers.len() as u32, Phase::Committed);
        for worker in workers {
            worker.step().unwrap();
        }
    }

    /// The outputs that readers see in these directories, combined.
    fn committed_lines(&self, directories: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        for out in directories {
            let mut text = String::new();
            let committed = FileSink::<(u64, u64)>::read(self.out(out));
            committed.unwrap().read_to_string(&mut text).unwrap();
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.sort();
        lines
    }
}

/// The outputs that readers finally see of an undisturbed run.
fn alone(items: u64) -> Vec<String> {
    let mut counts = [0; 29];
    let lines = (0..items).map(|item| {
        let count = &mut counts[(item % 29) as usize];
        *count += 1;
        format!("[{},{count}]", item % 29)
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

fn steps<P: Operator>(workers: &mut [Worker<P>], count: usize) {
    for worker in workers {
        for _ in 0..count {
            worker.step().unwrap();
        }
    }
}

/// The coordinator died after the manifest was written and before any shard knew. Then the job was rescaled.
#[test]
fn outputs_of_the_last_checkpoint_before_a_division_are_shown_by_whoever_held_them() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints().keep(1);
    let mut old = [fixture.open(0, 2, "a-0").unwrap(), fixture.open(1, 2, "a-1").unwrap()];
    steps(&mut old, 3);
    let reports = fixture.report_all(1, 0, &mut old);
    checkpoints.commit(1, 0, reports).unwrap();
    let at = checkpoints.latest().unwrap().unwrap().shards[0].positions["source/items"];
    // The old shards continue; the new shards produce these outputs again.
    steps(&mut old, 2);
    drop(old);
    checkpoints.rescale(3).unwrap();
    let mut new: Vec<_> =
        (0..3).map(|shard| fixture.open(shard, 3, &format!("b-{shard}")).unwrap()).collect();
    fixture.commit_checkpoint(3, 1, &mut new);
    fixture.commit_checkpoint(4, 1, &mut new);
    assert_eq!(fixture.committed_lines(&["a-0", "a-1"]), Vec::<String>::new());

    for shard in 0..2 {
        let error = fixture.open(shard, 2, &format!("a-{shard}")).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains("has 3 shards"), "{error}");
    }
    assert_eq!(fixture.committed_lines(&["a-0", "a-1"]), alone(at));
    steps(&mut new, 40);
    fixture.commit_checkpoint(5, 1, &mut new);
    assert_eq!(fixture.committed_lines(&["a-0", "a-1", "b-0", "b-1", "b-2"]), alone(ITEMS));
}

/// A rescaling takes the number of an unfinished checkpoint, so the old shards' reports for it are void.
#[test]
fn a_division_is_not_the_checkpoint_that_was_under_way() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints();
    let mut old = [fixture.open(0, 2, "a-0").unwrap(), fixture.open(1, 2, "a-1").unwrap()];
    steps(&mut old, 2);
    fixture.commit_checkpoint(1, 0, &mut old);
    steps(&mut old, 2);
    let reports = fixture.report_all(2, 0, &mut old);
    assert_eq!(checkpoints.rescale(3).unwrap().checkpoint, 2);
    assert_eq!(checkpoints.commit(2, 0, reports).unwrap_err().code(), Code::Fenced);
    // One shard learns that it is aborted, the other only that the next one has begun.
    fixture.set_status(2, 0, 2, Phase::Aborted { why: "divided".to_owned() });
    old[0].step().unwrap();
    let mut new: Vec<_> =
        (0..3).map(|shard| fixture.open(shard, 3, &format!("b-{shard}")).unwrap()).collect();
    fixture.commit_checkpoint(3, 1, &mut new);
    old[1].step().unwrap();
    assert_eq!(old[1].step().unwrap_err().code(), Code::Fenced);
    steps(&mut new, 40);
    fixture.commit_checkpoint(4, 1, &mut new);
    assert_eq!(fixture.committed_lines(&["a-0", "a-1", "b-0", "b-1", "b-2"]), alone(ITEMS));
}

/// A new coordinator does not mistake a rescaling for the unfinished checkpoint, and a coordinator of the old
/// epoch is refused.
#[test]
fn a_conductor_knows_its_own_division() {
    let fixture = Fixture::new();
    let wait = Duration::from_secs(60);
    let mut old = [fixture.open(0, 2, "a-0").unwrap(), fixture.open(1, 2, "a-1").unwrap()];
    steps(&mut old, 2);
    fixture.commit_checkpoint(1, 0, &mut old);
    let mut forgotten =
        CheckpointCoordinator::open(fixture.coordination(), fixture.checkpoints(), 2, wait)
            .unwrap();
    fixture.report_all(2, 0, &mut old);
    fixture.set_status(2, 0, 2, Phase::Committing);
    fixture.checkpoints().rescale(3).unwrap();
    CheckpointCoordinator::open(fixture.coordination(), fixture.checkpoints(), 3, wait).unwrap();
    let status = fixture.coordination().status().unwrap().unwrap();
    assert!(matches!(status.phase, Phase::Aborted { .. }), "{status:?}");
    assert_eq!(forgotten.checkpoint().unwrap_err().code(), Code::Fenced);
    assert_eq!(
        fixture.coordination().status().unwrap(),
        Some(status),
        "it has left the board alone"
    );
}

/// A manifest of an ended epoch, whose writer died before removing it.
#[test]
fn a_checkpoint_of_before_a_division_is_not_the_newest() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints();
    let mut old = [fixture.open(0, 2, "a-0").unwrap(), fixture.open(1, 2, "a-1").unwrap()];
    steps(&mut old, 2);
    fixture.commit_checkpoint(1, 0, &mut old);
    let at = checkpoints.latest().unwrap().unwrap().shards[0].positions["source/items"];
    steps(&mut old, 2);
    let reports = fixture.report_all(3, 0, &mut old);
    checkpoints.commit(3, 0, reports).unwrap();
    let manifest =
        |id: u64| fixture.root.path().join(format!("checkpoints/job/manifests/{id:020}"));
    let late = std::fs::read(manifest(3)).unwrap();
    std::fs::remove_file(manifest(3)).unwrap();
    checkpoints.rescale(3).unwrap();
    std::fs::write(manifest(3), late).unwrap();
    let latest = checkpoints.latest().unwrap().unwrap();
    assert_eq!((latest.checkpoint, latest.epoch), (2, 1));
    // Old shards that wait for its outcome ignore it too.
    fixture.set_status(4, 1, 3, Phase::Gathering);
    steps(&mut old, 1);
    assert_eq!(fixture.committed_lines(&["a-0", "a-1"]), alone(at));
    let mut new: Vec<_> =
        (0..3).map(|shard| fixture.open(shard, 3, &format!("b-{shard}")).unwrap()).collect();
    fixture.commit_checkpoint(4, 1, &mut new);
    assert_eq!(checkpoints.rescale(2).unwrap().checkpoint, 5);
}

/// A coordinator died while it collected places, and no shard waits forever.
#[test]
fn a_shard_waits_for_its_coordinator_for_a_while() {
    let fixture = Fixture::new();
    let mut worker = fixture.open(0, 1, "a").unwrap();
    fixture.set_status(1, 0, 1, Phase::Gathering);
    worker.step().unwrap();
    assert_eq!(worker.step().unwrap().items, 0, "it waits");
    let status = CheckpointStatus {
        checkpoint: 1,
        epoch: 0,
        shards: 1,
        patience_ms: Some(0),
        phase: Phase::Gathering,
    };
    fixture.db.cells().set(STATUS_CELL, serde_json::to_string(&status).unwrap()).unwrap();
    worker.step().unwrap();
    assert!(matches!(fixture.shard_status(1, 0), Some(ShardStatus::Failed(_))));
    assert_eq!(worker.step().unwrap().items, 20, "it works");
    fixture.commit_checkpoint(2, 0, &mut [worker]);
}

/// The same with an unchanged number of shards, so that only the epoch differs.
#[test]
fn a_directory_of_before_the_division_shows_what_it_had_and_is_refused() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints();
    let mut old = [fixture.open(0, 2, "a-0").unwrap(), fixture.open(1, 2, "a-1").unwrap()];
    steps(&mut old, 3);
    let reports = fixture.report_all(1, 0, &mut old);
    checkpoints.commit(1, 0, reports).unwrap();
    let at = checkpoints.latest().unwrap().unwrap().shards[0].positions["source/items"];
    drop(old);
    checkpoints.rescale(2).unwrap();
    for shard in 0..2 {
        let error = fixture.open(shard, 2, &format!("a-{shard}")).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains("epoch 0"), "{error}");
    }
    assert_eq!(fixture.committed_lines(&["a-0", "a-1"]), alone(at));
    let mut new = [fixture.open(0, 2, "b-0").unwrap(), fixture.open(1, 2, "b-1").unwrap()];
    steps(&mut new, 40);
    fixture.commit_checkpoint(3, 1, &mut new);
    assert_eq!(fixture.committed_lines(&["a-0", "a-1", "b-0", "b-1"]), alone(ITEMS));
}

/// Operator mistakes when starting workers lose nothing.
#[test]
fn a_worker_that_is_refused_leaves_directories_as_they_are() {
    let fixture = Fixture::new();
    let checkpoints = fixture.checkpoints();
    let mut old = [fixture.open(0, 2, "a-0").unwrap(), fixture.open(1, 2, "a-1").unwrap()];
    steps(&mut old, 3);
    fixture.commit_checkpoint(1, 0, &mut old);
    steps(&mut old, 3);
    // Another shard opens the directory of a running one: its staged files are not touched.
    let before = files(&fixture.out("a-0"));
    let error = fixture.open(1, 2, "a-0").map(|_| ()).unwrap_err();
    assert!(error.message().contains("shard 0 of epoch 0"), "{error}");
    assert_eq!(files(&fixture.out("a-0")), before);
    steps(&mut old, 1);
    fixture.commit_checkpoint(2, 0, &mut old);
    drop(old);
    // The old number of shards with the new directories; then the new number.
    checkpoints.rescale(3).unwrap();
    fixture.open(0, 2, "b-0").map(|_| ()).unwrap_err();
    let mut new: Vec<_> =
        (0..3).map(|shard| fixture.open(shard, 3, &format!("b-{shard}")).unwrap()).collect();
    steps(&mut new, 40);
    let before = files(&fixture.out("b-0"));
    fixture.open(0, 2, "b-0").map(|_| ()).unwrap_err();
    assert_eq!(files(&fixture.out("b-0")), before);
    fixture.commit_checkpoint(4, 1, &mut new);
    assert_eq!(fixture.committed_lines(&["a-0", "a-1", "b-0", "b-1", "b-2"]), alone(ITEMS));
}

/// The files of a directory with their sizes.
fn files(directory: &PathBuf) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> =
        entries.map(|entry| (entry.path(), entry.metadata().unwrap().len())).collect();
    files.sort();
    files
}

#[test]
fn a_shard_that_begins_again_ends_the_checkpoint_that_it_had_reported_for() {
    let fixture = Fixture::new();
    let mut workers = [fixture.open(0, 2, "0").unwrap(), fixture.open(1, 2, "1").unwrap()];
    steps(&mut workers, 3);
    fixture.report_all(1, 0, &mut workers);
    let [mut first, second] = workers;
    drop(second);
    let second = fixture.open(1, 2, "1").unwrap();
    let phase = fixture.coordination().status().unwrap().unwrap().phase;
    assert!(matches!(&phase, Phase::Aborted { why } if why.contains("shard 1")), "{phase:?}");
    first.step().unwrap();
    let mut workers = [first, second];
    steps(&mut workers, 40);
    fixture.commit_checkpoint(2, 0, &mut workers);
    assert_eq!(fixture.committed_lines(&["0", "1"]), alone(ITEMS));
}

/// The coordinator learns it at once, and its checkpoint is aborted.
#[test]
fn a_conductor_is_told_that_a_shard_began_again() {
    let fixture = Fixture::new();
    let mut workers = vec![fixture.open(0, 2, "0").unwrap(), fixture.open(1, 2, "1").unwrap()];
    let coordination = fixture.coordination();
    let checkpoints = fixture.checkpoints();
    let error = std::thread::scope(|scope| {
        let coordinator = scope.spawn(|| {
            let timeout = Duration::from_secs(600);
            CheckpointCoordinator::open(coordination, checkpoints, 2, timeout)
                .unwrap()
                .checkpoint()
                .unwrap_err()
        });
        while !matches!(fixture.shard_status(1, 1), Some(ShardStatus::Report(_))) {
            workers[1].step().unwrap();
            if !matches!(fixture.shard_status(1, 0), Some(ShardStatus::Reached(_))) {
                workers[0].step().unwrap();
            }
        }
        workers.remove(1);
        workers.push(fixture.open(1, 2, "1").unwrap());
        coordinator.join().unwrap()
    });
    assert_eq!(error.code(), Code::CheckpointAborted, "{error}");
    assert!(error.message().contains("shard 1"), "{error}");
    assert_eq!(fixture.checkpoints().list().unwrap(), Vec::<u64>::new());
}

/// A checkpoint was committed, but a shard's outputs of it are lost: the shard goes back to an older
/// checkpoint.
#[test]
fn a_shard_whose_outputs_are_gone_goes_back_to_a_checkpoint_that_fits() {
    let fixture = Fixture::new();
    let mut workers = vec![fixture.open(0, 2, "0").unwrap(), fixture.open(1, 2, "1").unwrap()];
    steps(&mut workers, 3);
    fixture.commit_checkpoint(1, 0, &mut workers);
    steps(&mut workers, 3);
    let reports = fixture.report_all(2, 0, &mut workers);
    drop(workers.pop());
    let staged = std::fs::read_dir(fixture.out("1")).unwrap().map(|entry| entry.unwrap().path());
    let staged: Vec<PathBuf> =
        staged.filter(|path| path.to_str().unwrap().contains("staged-")).collect();
    assert!(!staged.is_empty());
    staged.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    fixture.checkpoints().commit(2, 0, reports).unwrap();
    fixture.set_status(2, 0, 2, Phase::Committed);
    workers.push(fixture.open(1, 2, "1").unwrap());
    steps(&mut workers, 40);
    fixture.commit_checkpoint(3, 0, &mut workers);
    assert_eq!(fixture.committed_lines(&["0", "1"]), alone(ITEMS));

    // All outputs are lost: no checkpoint fits, and the error says so.
    drop(workers.pop());
    std::fs::remove_dir_all(fixture.out("1")).unwrap();
    let error = fixture.open(1, 2, "1").map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Code::CheckpointNotFound, "{error}");
    assert!(error.message().contains("sink `out` holds 0"), "{error}");
}

/// Another machine has only the checkpoints. The committed outputs are on the first machine.
#[test]
fn a_sink_goes_on_in_an_empty_directory_if_it_is_told_to() {
    let fixture = Fixture::new();
    let open = |out: &str, continued: bool| {
        let out = fixture.out(out);
        let sink = FileSink::new("out", &out);
        let sink = if continued { sink.continued() } else { sink };
        let state = Arc::new(MemoryState::new());
        Worker::open(without_sink().sink(sink), state, fixture.checkpoints())
    };
    let mut worker = open("first", false).unwrap();
    for _ in 0..3 {
        worker.step().unwrap();
        worker.checkpoint().unwrap();
    }
    worker.step().unwrap();
    drop(worker);
    assert_eq!(
        open("second", false).map(|_| ()).unwrap_err().code(),
        Code::CheckpointNotFound,
        "it may as well be lost"
    );
    let mut worker = open("second", true).unwrap();
    worker.step().unwrap();
    drop(worker);
    let mut worker = open("second", false).unwrap();
    while !worker.step().unwrap().ended {}
    worker.checkpoint().unwrap();
    drop(worker);
    assert_eq!(fixture.committed_lines(&["first", "second"]), alone(ITEMS));
    let here = FileSink::<()>::read(fixture.out("second")).unwrap().length_bytes();
    let there = FileSink::<()>::read(fixture.out("first")).unwrap().length_bytes();
    let all: usize = alone(ITEMS).iter().map(|line| line.len() + 1).sum();
    assert_eq!((here + there) as usize, all);
    // Back to before the continuation: outputs shown elsewhere are skipped, and those shown here are
    // compared.
    let mut sink = FileSink::<(u64, u64)>::new("out", fixture.out("second"));
    assert_eq!(sink.open(there - 12).unwrap(), OpenStatus::Ready);
}

/// Another process takes checkpoints of the same job, for example the command line.
#[test]
fn a_worker_goes_on_behind_a_checkpoint_of_somebody_else() {
    let fixture = Fixture::new();
    let state = Arc::new(MemoryState::new());
    let out = fixture.out("out");
    let mut worker = Worker::open(builder(&out), state.clone(), fixture.checkpoints()).unwrap();
    for (own, other) in [(1, 2), (3, 4)] {
        worker.step().unwrap();
        assert_eq!(worker.checkpoint().unwrap().checkpoint, own);
        worker.step().unwrap();
        assert_eq!(fixture.checkpoints().create(&*state).unwrap().checkpoint, other);
    }
    // That checkpoint is not at the end of an output file; the sink opens nevertheless.
    worker.step().unwrap();
    drop(worker);
    let mut worker = Worker::open(builder(&out), state, fixture.checkpoints()).unwrap();
    while !worker.step().unwrap().ended {}
    worker.checkpoint().unwrap();
    assert_eq!(fixture.committed_lines(&["out"]), alone(ITEMS));
}

#[test]
fn a_checkpoint_that_could_not_be_read_yet_is_heard_of_again() {
    let fixture = Fixture::new();
    let mut workers = [fixture.open(0, 1, "out").unwrap()];
    steps(&mut workers, 3);
    let reports = fixture.report_all(1, 0, &mut workers);
    fixture.checkpoints().commit(1, 0, reports).unwrap();
    fixture.set_status(1, 0, 1, Phase::Committed);
    let manifest = fixture.root.path().join(format!("checkpoints/job/manifests/{:020}", 1));
    let whole = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, "damaged").unwrap();
    assert!(workers[0].step().is_err());
    std::fs::write(&manifest, whole).unwrap();
    workers[0].step().unwrap();
    assert!(!fixture.committed_lines(&["out"]).is_empty());
}

/// The sinks lost all outputs before the first checkpoint: the state restarts with the same options.
#[test]
fn a_state_that_begins_anew_keeps_its_declaration() {
    let fixture = Fixture::new();
    let state = Arc::new(MemoryState::new());
    state.declare(SpaceOptions::default().groups(64)).unwrap();
    let store = CheckpointStore::directory(fixture.out("of-64")).unwrap();
    let job = Job { groups: 64, ..Job::new("job", "counts") };
    let checkpoints = || Checkpoints::open(store.clone(), job.clone()).unwrap();
    let sink = MemorySink::new("out");
    let open = || Worker::open(without_sink().sink(sink.clone()), state.clone(), checkpoints());
    let mut worker = open().unwrap();
    worker.step().unwrap();
    drop(worker);
    sink.drop_uncommitted();
    let mut worker = open().unwrap();
    assert_eq!(state.info().unwrap().unwrap().options.groups, 64);
    while !worker.step().unwrap().ended {}
    worker.checkpoint().unwrap();
    assert_eq!(sink.committed().len() as u64, ITEMS);
}

/// A worker can go back to any kept checkpoint. Outputs shown since then come again and are not shown twice.
#[test]
fn a_worker_begins_again_from_an_older_checkpoint() {
    let fixture = Fixture::new();
    let state: Arc<dyn KeyedState> = Arc::new(MemoryState::new());
    let out = fixture.out("out");
    let open = |checkpoints: Checkpoints| Worker::open(builder(&out), state.clone(), checkpoints);
    let mut worker = open(fixture.checkpoints()).unwrap();
    let mut snapshots = Vec::new();
    for _ in 0..4 {
        worker.step().unwrap();
        worker.checkpoint().unwrap();
        snapshots.push(state.snapshot().unwrap());
    }
    drop(worker);
    let mut worker = open(fixture.checkpoints().start_from(2)).unwrap();
    assert!(state.snapshot().unwrap() == snapshots[1]);
    worker.step().unwrap();
    // Until it has taken a checkpoint, the previous newest one remains the newest.
    assert_eq!(worker.checkpoint().unwrap().checkpoint, 5);
    assert!(state.snapshot().unwrap() == snapshots[2]);
    drop(worker);
    let mut worker = open(fixture.checkpoints()).unwrap();
    assert!(state.snapshot().unwrap() == snapshots[2]);
    while !worker.step().unwrap().ended {}
    worker.checkpoint().unwrap();
    drop(worker);
    assert_eq!(fixture.committed_lines(&["out"]), alone(ITEMS));
    let error = open(fixture.checkpoints().start_from(77)).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Code::CheckpointNotFound, "{error}");
}

/// After any failure, shards do not wait for an abandoned order.
#[test]
fn an_order_does_not_stay_behind_when_its_conductor_fails() {
    let fixture = Fixture::new();
    let coordination = fixture.coordination();
    let checkpoints = fixture.checkpoints();
    let phase = std::thread::scope(|scope| {
        let coordinator = scope.spawn(|| {
            let timeout = Duration::from_secs(600);
            CheckpointCoordinator::open(coordination, checkpoints, 2, timeout)
                .unwrap()
                .checkpoint()
                .unwrap_err();
            fixture.coordination().status().unwrap().unwrap().phase
        });
        while fixture.coordination().status().unwrap().is_none() {
            std::thread::yield_now();
        }
        // Another process writes a malformed message.
        fixture.db.cells().set(&format!("{STATUS_CELL}/{:020}/0", 1), "no note").unwrap();
        coordinator.join().unwrap()
    });
    assert!(
        matches!(&phase, Phase::Aborted { why } if why.contains("cannot be read")),
        "{phase:?}"
    );
}
