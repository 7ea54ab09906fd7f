//! Checkpoints of a million entries: full, incremental with 1 % changed, and restored.

use super::entries::{self, BATCH};
use crate::context::{Context, Outcome, short_count};
use crate::harness::median;
use crate::report::Row;
use mainstay::{Durability, Keyed, KeyedState, Options};
use mainstay_streams::{CheckpointStore, Checkpoints, Job, MemoryState};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

const ENTRIES: usize = 1_000_000;
const ROUNDS: usize = 5;
const FULL_LIMIT_SECONDS: f64 = 1.0;
const RESTORE_LIMIT_SECONDS: f64 = 3.0;
/// Upper limit for an incremental checkpoint of 1 % changed keys, relative to a full one.
const CHANGED_SHARE: f64 = 0.03;
/// Minimum speed relative to JSON.
const TIMES_JSON: f64 = 5.0;

/// The measurements. The report shows their medians.
#[derive(Default)]
struct Figures {
    full_seconds: Vec<f64>,
    full_bytes: f64,
    changed_seconds: Vec<f64>,
    changed_bytes: f64,
}

/// Runs all cases.
pub fn run(context: &mut Context) -> Outcome<()> {
    let entries = context.sized(ENTRIES) as u64;
    let many = short_count(entries as usize);
    let cases = [
        format!("checkpoint of {many} entries, all"),
        format!("checkpoint of {many} entries, 1 % changed, time"),
        format!("checkpoint of {many} entries, 1 % changed, bytes"),
        format!("restore of {many} entries"),
    ];
    if !cases.iter().any(|case| context.wants(case)) {
        return Ok(());
    }
    let directory = context.directory("checkpoints")?;
    let database = Options::new().open(directory.path().join("ours"))?;
    let space = database.keyed("counts")?.durability(Durability::Memory);
    for first in (0..entries).step_by(BATCH as usize) {
        space.write(entries::batch(first, 1, 1))?;
    }
    let figures = measure(&space, directory.path(), entries)?;
    let json = json(directory.path(), entries)?;
    let report = &mut context.report;
    let full = median(&mut figures.full_seconds.clone());
    let changed = median(&mut figures.changed_seconds.clone());
    let [all, time, bytes, restored] = &cases;
    report.add(Row::smaller(all, "s", full, ("limit", FULL_LIMIT_SECONDS)).must(1.0));
    report.add(Row::smaller(time, "s", changed, ("all", full)).must(CHANGED_SHARE));
    let changed_bytes = figures.changed_bytes;
    let full_bytes = figures.full_bytes;
    report.add(Row::smaller(bytes, "B", changed_bytes, ("all", full_bytes)).must(CHANGED_SHARE));
    let rate = |seconds: f64| entries as f64 / seconds;
    report.add(Row::larger(all, "op/s", rate(full), ("JSON", rate(json.0))).must(TIMES_JSON));
    report.add(Row::larger(time, "op/s", rate(changed), ("JSON", rate(json.0))).must(TIMES_JSON));
    report.add(Row::smaller(all, "B", full_bytes, ("JSON", json.2)));
    let (ours, memory) = restore(&space, &database)?;
    report.add(Row::smaller(restored, "s", ours, ("limit", RESTORE_LIMIT_SECONDS)).must(1.0));
    report.add(Row::smaller(restored, "s", ours, ("JSON", json.1)));
    report.add(Row::smaller(restored, "s", ours, ("in memory", memory)));
    Ok(())
}

/// Takes full and incremental checkpoints in turn, with files and fsyncs.
fn measure(space: &Keyed, directory: &Path, entries: u64) -> Outcome<Figures> {
    let store = CheckpointStore::directory(directory.join("shelf"))?;
    let full = Checkpoints::open(store.clone(), Job::new("full", "counts"))?.changes(0).keep(1);
    let some = Checkpoints::open(store, Job::new("some", "counts"))?.changes(usize::MAX).keep(1);
    some.create(space)?;
    let mut figures = Figures::default();
    for round in 1..=ROUNDS as u64 {
        let started = Instant::now();
        let manifest = full.create(space)?;
        figures.full_seconds.push(started.elapsed().as_secs_f64());
        figures.full_bytes = manifest.bytes() as f64;
        let changed = entries / 100;
        for first in (0..changed).step_by(BATCH as usize) {
            space.write(entries::batch(first, round * 1_000_000_000, 100))?;
        }
        let started = Instant::now();
        let manifest = some.create(space)?;
        figures.changed_seconds.push(started.elapsed().as_secs_f64());
        let last = manifest.shards[0].files.last();
        let last = last.filter(|file| !file.full).ok_or("it was not of changes alone")?;
        figures.changed_bytes = last.bytes as f64;
    }
    Ok(figures)
}

/// A plain map written as JSON to a file, synced and read back: seconds for each, and its size.
fn json(directory: &Path, entries: u64) -> Outcome<(f64, f64, f64)> {
    let (plain, path) = (entries::plain(entries), directory.join("plain.json"));
    let mut there = Vec::new();
    let mut back = Vec::new();
    let mut bytes = 0.0;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let copied: entries::Listed =
            plain.iter().map(|(key, held)| (key.clone(), held.clone())).collect();
        let json = serde_json::to_vec(&copied)?;
        let mut file = File::create(&path)?;
        file.write_all(&json)?;
        file.sync_all()?;
        there.push(started.elapsed().as_secs_f64());
        let started = Instant::now();
        let again: entries::Listed = serde_json::from_slice(&std::fs::read(&path)?)?;
        let again: entries::Plain = again.into_iter().collect();
        back.push(started.elapsed().as_secs_f64());
        if again.len() != plain.len() {
            return Err("the map is another one".into());
        }
        bytes = json.len() as f64;
    }
    Ok((median(&mut there), median(&mut back), bytes))
}

/// Restores a snapshot into another space durably, and into memory.
fn restore(space: &Keyed, database: &mainstay::Database) -> Outcome<(f64, f64)> {
    let snapshot = KeyedState::snapshot(space)?;
    let mut ours = Vec::new();
    let mut memory = Vec::new();
    for round in 0..3 {
        let other = database.keyed(&format!("other-{round}"))?;
        let started = Instant::now();
        other.restore(&snapshot)?;
        ours.push(started.elapsed().as_secs_f64());
        let other = MemoryState::new();
        let started = Instant::now();
        other.restore(&snapshot)?;
        memory.push(started.elapsed().as_secs_f64());
    }
    Ok((median(&mut ours), median(&mut memory)))
}
