//! Projection of a long run from its first event, and the snapshot of a typical run.

use super::events::{self, Notes};
use super::ours;
use crate::context::{Context, Outcome, short_count};
use crate::harness::median;
use crate::report::Row;
use crate::workload::Random;
use mainstay::{Options, RunSnapshot};
use mainstay_server::histogram::Histogram;
use std::hint::black_box;
use std::time::Instant;

const PROJECTED: usize = 100_000;
const PROJECTION_LIMIT_SECONDS: f64 = 0.5;
/// Number of projections; the median counts.
const ROUNDS: usize = 5;

/// Number of events of a typical run. Its last stored snapshot is 232 events old.
const USUAL: usize = 1_000;
const USUAL_RUNS: usize = 100;
const SNAPSHOT_LIMIT_US: f64 = 300.0;
const SNAPSHOTS: usize = 5_000;

/// Runs both cases.
pub fn run(context: &mut Context) -> Outcome<()> {
    let case = format!("project {} events", short_count(PROJECTED));
    if context.wants(&case) {
        project(context, &case)?;
    }
    let case = format!("snapshot of a run of {} events", short_count(USUAL));
    if context.wants(&case) {
        snapshots(context, &case)?;
    }
    Ok(())
}

fn project(context: &mut Context, case: &str) -> Outcome<()> {
    let directory = context.directory("project")?;
    let database = Options::new().open(directory.path().join("ours"))?;
    let run = events::run(0);
    let runs = database.runs();
    ours::fill(&database, Notes::new().of_run(&run, PROJECTED))?;
    let mut seconds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let projected = runs.project(&run)?;
        seconds.push(started.elapsed().as_secs_f64());
        check(projected.as_ref(), PROJECTED)?;
        if projected != runs.snapshot(&run)? {
            return Err(format!("{case}: the snapshot says something else").into());
        }
    }
    let limit = ("limit", PROJECTION_LIMIT_SECONDS);
    context.report.add(Row::smaller(case, "s", median(&mut seconds), limit).must(1.0));
    Ok(())
}

fn snapshots(context: &mut Context, case: &str) -> Outcome<()> {
    let directory = context.directory("snapshot")?;
    let database = Options::new().open(directory.path().join("ours"))?;
    let notes = Notes::new();
    let runs = database.runs();
    let names: Vec<String> = (0..USUAL_RUNS).map(events::run).collect();
    for name in &names {
        ours::fill(&database, notes.of_run(name, USUAL))?;
    }
    let latency = Histogram::new();
    let mut random = Random::new(3);
    for _ in 0..SNAPSHOTS {
        let name = random.pick(&names);
        let started = Instant::now();
        let snapshot = black_box(runs.snapshot(name)?);
        latency.record(started.elapsed().as_nanos() as u64);
        check(snapshot.as_ref(), USUAL)?;
    }
    let [p50, p99, _] = latency.percentiles().ok_or("no snapshot was taken")?;
    let us = |nanos: u64| nanos as f64 / 1e3;
    let limit = ("limit", SNAPSHOT_LIMIT_US);
    context.report.add(Row::smaller(case, "us", us(p50), limit).must(1.0));
    context.report.add(Row::smaller(&format!("{case}, p99"), "us", us(p99), limit));
    Ok(())
}

/// Checks that the snapshot contains all events, and that each was a valid successor.
fn check(snapshot: Option<&RunSnapshot>, events: usize) -> Outcome<()> {
    match snapshot {
        Some(run) if run.last_event_seq == events as u64 && !run.is_inconsistent() => Ok(()),
        other => {
            let found = other.map(|run| (run.last_event_seq, &run.flags));
            Err(format!("a snapshot of {events} events says {found:?}").into())
        }
    }
}
