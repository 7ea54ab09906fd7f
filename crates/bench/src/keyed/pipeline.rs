//! A whole pipeline: items, counts by key, lines in files; with one checkpoint per second and without.

use crate::context::{Context, Outcome};
use crate::harness::median;
use crate::report::Row;
use mainstay::{Durability, KeyedState, LogicalTime, Options};
use mainstay_streams::{
    CheckpointStore, Checkpoints, FileSink, Job, MemoryState, Pipeline, PipelineBuilder, Source,
    SourceItem, StatefulOperator, Worker,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEYS: u64 = 100_000;
const BATCH: usize = 4_096;
const CHECKPOINT_EACH: Duration = Duration::from_secs(1);
/// Minimum rate with checkpoints, relative to the rate without.
const MUST: f64 = 0.7;
const ROUNDS: usize = 3;

type Counts = StatefulOperator<u64, u64, u64>;

/// Runs the case on the engine and in memory.
pub fn run(context: &mut Context) -> Outcome<()> {
    let case = "pipeline: items, a checkpoint each second";
    if !context.wants(case) {
        return Ok(());
    }
    let slice = Duration::from_secs(context.either(8, 3) as u64);
    let directory = context.directory("pipeline")?;
    let mut with = Vec::new();
    let mut without = Vec::new();
    let mut in_memory = Vec::new();
    for round in 0..ROUNDS {
        let path = directory.path().join(round.to_string());
        with.push(on_engine(&path.join("with"), slice, true)?);
        without.push(on_engine(&path.join("without"), slice, false)?);
        let memory = Arc::new(MemoryState::new());
        in_memory.push(work(memory, &path.join("memory"), slice, true)?);
    }
    let with = median(&mut with);
    let none = ("none at all", median(&mut without));
    context.report.add(Row::larger(case, "op/s", with, none).must(MUST));
    let memory = ("in memory", median(&mut in_memory));
    context.report.add(Row::larger(case, "op/s", with, memory));
    Ok(())
}

fn on_engine(path: &Path, slice: Duration, checkpoints: bool) -> Outcome<f64> {
    let database = Options::new().open(path.join("db"))?;
    let space = database.keyed("counts")?.durability(Durability::Memory);
    work(Arc::new(space), path, slice, checkpoints)
}

/// Runs the pipeline for a while. Returns items per second.
fn work(
    state: Arc<dyn KeyedState>,
    path: &Path,
    slice: Duration,
    checkpoints: bool,
) -> Outcome<f64> {
    let started = Instant::now();
    if !checkpoints {
        let mut pipeline = pipeline(path).open(state)?;
        let mut items = 0;
        while started.elapsed() < slice {
            items += pipeline.step()?.items;
        }
        return Ok(items as f64 / started.elapsed().as_secs_f64());
    }
    let store = CheckpointStore::directory(path.join("shelf"))?;
    let checkpoints = Checkpoints::open(store, Job::new("counts", "counts"))?.keep(3);
    let mut worker = Worker::open(pipeline(path), state, checkpoints)?;
    let mut items = 0;
    let mut last = Instant::now();
    while started.elapsed() < slice {
        items += worker.step()?.items;
        if last.elapsed() >= CHECKPOINT_EACH {
            last = Instant::now();
            worker.checkpoint()?;
        }
    }
    Ok(items as f64 / started.elapsed().as_secs_f64())
}

fn pipeline(path: &Path) -> PipelineBuilder<Counts> {
    let counts: Counts = StatefulOperator::new(
        "counts",
        |item: &u64| item.to_be_bytes().to_vec(),
        |count: Option<u64>, _: &u64, _| {
            let count = count.unwrap_or(0) + 1;
            Ok((Some(count), vec![count]))
        },
    );
    Pipeline::of(counts)
        .source(Numbers(0))
        .sink(FileSink::new("out", path.join("out")))
        .batch(BATCH)
}

/// An endless source of numbers in no order.
struct Numbers(u64);

impl Source for Numbers {
    type Item = u64;

    fn name(&self) -> &str {
        "numbers"
    }

    fn seek(&mut self, position: u64) -> mainstay::Result<()> {
        self.0 = position;
        Ok(())
    }

    fn next(&mut self) -> mainstay::Result<Option<SourceItem<u64>>> {
        let at = self.0;
        let position = self.0 + 1;
        self.0 = position;
        let item = (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % KEYS;
        Ok(Some(SourceItem { item, time: LogicalTime::new(0, at), position }))
    }
}
