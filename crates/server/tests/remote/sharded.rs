//! Shards in child processes that coordinate through a server: killed at any time, they produce the same
//! result as one worker that is never killed.

use crate::support::Ours;
use mainstay::{Code, Database, KeyedState, remote};
use mainstay_streams::{
    CheckpointCoordinator, CheckpointStore, Checkpoints, CoordinationStore, FileSink, Items, Job,
    MemoryState, Pipeline, PipelineBuilder, StatefulOperator, Worker,
};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const ITEMS: u64 = 8_000;
const SHARDS: u32 = 3;
const KILLS: u32 = 9;
/// Environment variables of a shard: the address of the server, the directory, and the shard number.
const ADDRESS: &str = "MAINSTAY_TEST_ADDRESS";
const WHERE: &str = "MAINSTAY_TEST_WHERE";
const SHARD: &str = "MAINSTAY_TEST_SHARD";

type Counts = StatefulOperator<u64, u64, String>;
type States = BTreeMap<Vec<u8>, Vec<u8>>;

fn pipeline(out: PathBuf) -> PipelineBuilder<Counts> {
    let counts = StatefulOperator::new(
        "counts",
        |item| format!("key-{}", item % 97),
        |count: Option<u64>, item: &u64, _| {
            let count = count.unwrap_or(0) + 1;
            Ok((Some(count), vec![format!("{} {count}", item % 97)]))
        },
    );
    let items = (0..ITEMS).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
    Pipeline::of(counts)
        .source(Items::new("items", items.collect::<Vec<_>>()))
        .sink(FileSink::new("out", out))
        .batch(50)
}

fn checkpoints(directory: &Path) -> Checkpoints {
    let store = CheckpointStore::directory(directory.join("checkpoints")).unwrap();
    Checkpoints::open(store, Job::new("job", "counts")).unwrap()
}

fn out(directory: &Path, shard: u32) -> PathBuf {
    directory.join(format!("out-{shard}"))
}

fn space(shard: u32) -> String {
    format!("counts-{shard}")
}

/// The main function of a shard. It is a test so that it is part of this binary, and does nothing without
/// its environment variables. It works until it is killed.
#[test]
fn shard() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let directory = PathBuf::from(std::env::var_os(WHERE).unwrap());
    let shard: u32 = std::env::var(SHARD).unwrap().parse().unwrap();
    let db = remote::connect(&address).unwrap();
    let coordination = CoordinationStore::new(db.clone(), "job").unwrap();
    let state = Arc::new(db.keyed(&space(shard)).unwrap());
    let pipeline = pipeline(out(&directory, shard));
    let checkpoints = checkpoints(&directory);
    let mut worker =
        Worker::open_shard(pipeline, state, checkpoints, shard, SHARDS, coordination).unwrap();
    println!("begun");
    loop {
        worker.step().unwrap();
    }
}

struct Shards {
    address: String,
    directory: PathBuf,
    children: Vec<Child>,
}

impl Shards {
    fn start(address: String, directory: &Path) -> Shards {
        let mut shards = Shards { address, directory: directory.to_owned(), children: Vec::new() };
        shards.children = (0..SHARDS).map(|shard| shards.spawn(shard)).collect();
        shards
    }

    fn spawn(&self, shard: u32) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["sharded::shard", "--exact", "--nocapture"]).stdout(Stdio::piped());
        child.env(ADDRESS, &self.address).env(WHERE, &self.directory);
        child.env(SHARD, shard.to_string()).spawn().unwrap()
    }

    /// Waits until a shard works, kills it, and starts it again.
    fn kill(&mut self, shard: u32) {
        let child = &mut self.children[shard as usize];
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let begun = lines.any(|line| line.is_ok_and(|line| line == "begun"));
        assert!(begun, "shard {shard} ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        self.children[shard as usize] = self.spawn(shard);
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Takes a checkpoint, and retries if a restarted shard aborts it. Returns whether it covers all items.
fn checkpoint(coordinator: &mut CheckpointCoordinator) -> bool {
    loop {
        match coordinator.checkpoint() {
            Ok(manifest) => {
                let end = Some(&ITEMS);
                return manifest.shards.iter().all(|it| it.positions.get("source/items") == end);
            }
            Err(error) => assert_eq!(error.code(), Code::CheckpointAborted, "{error}"),
        }
    }
}

fn states<'s>(all: impl Iterator<Item = &'s dyn KeyedState>) -> States {
    let mut found = States::new();
    for state in all {
        for (key, state) in state.scan(b"", None, 10_000).unwrap().states {
            assert!(found.insert(key, state.value).is_none(), "a key is in two shards");
        }
    }
    found
}

fn lines(directories: impl Iterator<Item = PathBuf>) -> Vec<String> {
    let mut all = Vec::new();
    for directory in directories {
        let mut text = String::new();
        FileSink::<String>::read(directory).unwrap().read_to_string(&mut text).unwrap();
        all.extend(text.lines().map(str::to_owned));
    }
    all.sort_unstable();
    all
}

/// Returns the result of a single worker.
fn alone() -> (States, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let state = Arc::new(MemoryState::new());
    let pipeline = pipeline(out(directory.path(), 0));
    let mut worker = Worker::open(pipeline, state.clone(), checkpoints(directory.path())).unwrap();
    while !worker.step().unwrap().ended {}
    worker.checkpoint().unwrap();
    (
        states([&*state as &dyn KeyedState].into_iter()),
        lines([out(directory.path(), 0)].into_iter()),
    )
}

#[test]
fn killed_at_any_time_they_count_once() {
    let server = Ours::start();
    let directory = tempfile::tempdir().unwrap();
    let db: Database = remote::connect(&server.address.to_string()).unwrap();
    let mut shards = Shards::start(server.address.to_string(), directory.path());
    let coordination = CoordinationStore::new(db.clone(), "job").unwrap();
    let checkpoints = checkpoints(directory.path());
    let mut coordinator =
        CheckpointCoordinator::open(coordination, checkpoints, SHARDS, Duration::from_secs(60))
            .unwrap();
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| (0..KILLS).for_each(|kill| shards.kill(kill % SHARDS)));
        while !killer.is_finished() {
            checkpoint(&mut coordinator);
        }
        killer.join().unwrap();
    });
    while !checkpoint(&mut coordinator) {}
    // One more checkpoint, so that all shards know of the previous one.
    checkpoint(&mut coordinator);
    drop(shards);
    let spaces: Vec<_> = (0..SHARDS).map(|shard| db.keyed(&space(shard)).unwrap()).collect();
    let found = states(spaces.iter().map(|space| space as &dyn KeyedState));
    let (expected, outputs) = alone();
    assert_eq!(found, expected);
    let told = lines((0..SHARDS).map(|shard| out(directory.path(), shard)));
    assert_eq!(told.len(), outputs.len());
    assert_eq!(told, outputs);
}
