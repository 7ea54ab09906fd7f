//! Crash test: a pipeline that is killed repeatedly at random points ends with the state and the output of an
//! undisturbed run.
//!
//! ```text
//!   parent: start child, read some of its output lines, wait a random time, kill -9 ... a hundred times, then let it end
//!   child:  source that repeats items after each start --> count by word --> lines in files, committed with checkpoints
//! ```
//!
//! The source goes back to the beginning of a chunk on a seek, as at-least-once sources do. So some items
//! come again after every kill. They are recognized by their source's time. If versions are assigned on
//! arrival, they are counted twice, and the same harness must detect that.
//!
//! `MAINSTAY_KILLS=1000` kills more often.

use mainstay::{Database, Durability, KeyedState};
use mainstay_model::{LogicalTime, Result};
use mainstay_streams::{
    CheckpointStore, Checkpoints, FileSink, Job, Pipeline, Source, SourceItem, StatefulOperator,
    Worker,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// The environment variables that configure a child.
const WHERE: &str = "MAINSTAY_CRASH_DIRECTORY";
const ON_ARRIVAL: &str = "MAINSTAY_CRASH_ON_ARRIVAL";
const ITEMS: &str = "MAINSTAY_CRASH_ITEMS";
/// The most items that a seek repeats.
const CHUNK: u64 = 37;
/// The number of items per kill of the job.
const ITEMS_PER_KILL: u64 = 900;
const WORDS: u64 = 500;

/// Words in a pseudo-random order that is always the same.
struct Words {
    next: u64,
    items: u64,
    /// The number of this start, if versions are assigned on arrival.
    arrival: Option<u64>,
    given: u64,
}

impl Source for Words {
    type Item = u64;

    fn name(&self) -> &str {
        "words"
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.next = position - position % CHUNK;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<SourceItem<u64>>> {
        if self.next == self.items {
            return Ok(None);
        }
        let at = self.next;
        let position = self.next + 1;
        self.next = position;
        self.given += 1;
        let time = match self.arrival {
            None => LogicalTime::new(0, at),
            Some(start) => LogicalTime::new(start, self.given),
        };
        let item = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Ok(Some(SourceItem { item: item % WORDS, time, position }))
    }
}

/// The number of starts of a job, stored in its directory.
fn starts(directory: &Path) -> u64 {
    let path = directory.join("starts");
    let before = std::fs::read_to_string(&path).ok().and_then(|text| text.parse().ok());
    let now = before.unwrap_or(0) + 1;
    let next = directory.join("starts.next");
    std::fs::write(&next, now.to_string()).unwrap();
    std::fs::rename(next, path).unwrap();
    now
}

/// Runs until the source is exhausted, and calls `said` with each step.
fn work(directory: &Path, items: u64, on_arrival: bool, mut said: impl FnMut()) {
    let arrival = Some(starts(directory)).filter(|_| on_arrival);
    let db = Database::open(directory.join("db")).unwrap();
    // No fsync of its own: a crash leaves a moment between two checkpoints.
    let state = Arc::new(db.keyed("counts").unwrap().durability(Durability::Memory));
    let store = CheckpointStore::directory(directory.join("checkpoints")).unwrap();
    let checkpoints = Checkpoints::open(store, Job::new("words", "counts")).unwrap().keep(3);
    let counts = StatefulOperator::new(
        "counts",
        |word| format!("word-{word:04}"),
        |count: Option<u64>, word: &u64, _| {
            let count = count.unwrap_or(0) + 1;
            // Some keys are deleted and created again, so their versions must be remembered.
            let state = (!count.is_multiple_of(50)).then_some(count);
            Ok((state, vec![format!("{word} {count}")]))
        },
    );
    let pipeline = Pipeline::of(counts)
        .source(Words { next: 0, items, arrival, given: 0 })
        .sink(FileSink::new("out", directory.join("out")))
        .batch(32);
    let mut worker = Worker::open(pipeline, state, checkpoints).unwrap();
    let mut steps = 0_u64;
    loop {
        let progress = worker.step().unwrap();
        steps += 1;
        if progress.ended || steps.is_multiple_of(3) {
            worker.checkpoint().unwrap();
        }
        said();
        if progress.ended {
            return;
        }
    }
}

/// The child process. It is a test so that it is part of this binary, and it does nothing without its
/// environment variables.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(WHERE) else { return };
    let on_arrival = std::env::var_os(ON_ARRIVAL).is_some();
    let items = std::env::var(ITEMS).unwrap().parse().unwrap();
    let mut out = std::io::stdout();
    work(Path::new(&directory), items, on_arrival, || {
        writeln!(out, "step").unwrap();
        out.flush().unwrap();
    });
}

fn start(directory: &Path, items: u64, on_arrival: bool) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["child", "--exact", "--nocapture"]).env(WHERE, directory);
    child.env(ITEMS, items.to_string()).stdout(Stdio::piped());
    if on_arrival {
        child.env(ON_ARRIVAL, "1");
    }
    child.spawn().unwrap()
}

/// A random generator that needs no clock.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Kills the job up to this many times, then lets it finish. Returns the number of kills.
fn kill_and_finish(directory: &Path, on_arrival: bool, kills: u64) -> u64 {
    let mut random = Random(0x1234_5678_9abc_def1);
    let items = kills * ITEMS_PER_KILL;
    for killed in 0..kills {
        let mut child = start(directory, items, on_arrival);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let steps = random.below(ITEMS_PER_KILL / 32);
        let went_on = (0..=steps).all(|_| {
            lines.by_ref().find(|line| line.as_ref().is_ok_and(|line| line == "step")).is_some()
        });
        std::thread::sleep(Duration::from_micros(random.below(4_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        if !went_on {
            return killed;
        }
    }
    let mut child = start(directory, items, on_arrival);
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    kills
}

/// The final state and output of a job.
fn left(directory: &Path) -> (Vec<u8>, String) {
    let db = Database::open(directory.join("db")).unwrap();
    let state = KeyedState::snapshot(&db.keyed("counts").unwrap()).unwrap();
    let mut output = String::new();
    FileSink::<String>::read(directory.join("out")).unwrap().read_to_string(&mut output).unwrap();
    (state, output)
}

/// The result of an undisturbed job.
fn undisturbed(kills: u64) -> (Vec<u8>, String) {
    let directory = tempfile::tempdir().unwrap();
    work(directory.path(), kills * ITEMS_PER_KILL, false, || {});
    left(directory.path())
}

#[test]
fn killed_at_random_points_it_ends_as_if_nothing_had_been() {
    let kills = std::env::var("MAINSTAY_KILLS").ok().and_then(|text| text.parse().ok());
    let kills: u64 = kills.unwrap_or(100);
    let directory = tempfile::tempdir().unwrap();
    let killed = kill_and_finish(directory.path(), false, kills);
    assert!(killed >= kills * 9 / 10, "it ended after {killed} kills: give it more items");
    let (state, output) = left(directory.path());
    let (expected_state, expected_output) = undisturbed(kills);
    assert_eq!(output.lines().count() as u64, kills * ITEMS_PER_KILL);
    assert!(output == expected_output, "the output is another one after {killed} kills");
    assert!(state == expected_state, "the state is another one after {killed} kills");
}

/// The harness detects repeated application: with versions assigned on arrival, repeated items look new.
#[test]
fn versions_given_on_arrival_are_found_out() {
    let directory = tempfile::tempdir().unwrap();
    let kills = 12;
    kill_and_finish(directory.path(), true, kills);
    let (_, output) = left(directory.path());
    let (_, expected) = undisturbed(kills);
    assert!(output != expected, "items came again, and nobody has counted them twice");
    assert!(output.lines().count() as u64 > kills * ITEMS_PER_KILL);
}
