//! The recorder: runs many threads against one database and records their calls.
//!
//! ```text
//!   home (memory, disk, a disk that fails) ──open──> database <──calls── workers    all by one seed
//!                                              │ closed and opened again when the disk has failed
//!                                              v
//!                       Taken { calls to each cell, calls to each record, transactions, versions }
//! ```
//!
//! The seed decides the requests, and the machine decides their order. So a seed reproduces the
//! requests, but not always the same race.

mod batch;
mod cells;
mod frail;
mod housekeeper;
mod interactive;
mod keys;
mod line;
mod records;
mod setting;
mod snapshot;
mod stage;
mod subject;
mod worker;

pub use setting::Setting;

use super::linear::{CallTo, Cell, Record};
use super::serial::{History, Version};
use crate::drill::Outcome;
use line::Scene;
use mainstay::{At, Database, HistoryEntry, RecordHistoryEntry};
use mainstay_conformance::random::Random;
use setting::Home;
use stage::Stage;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use worker::Worker;

/// A recorded history.
#[derive(Default)]
pub struct Taken {
    /// The place of the database.
    pub place: String,
    /// The calls to each cell.
    pub cells: BTreeMap<String, Vec<CallTo<Cell>>>,
    /// The calls to each record.
    pub records: BTreeMap<String, Vec<CallTo<Record>>>,
    /// The transactions, and the versions of their keys.
    pub history: History,
    /// How often the database was reopened.
    pub reopened: u64,
}

/// Records this many operations.
pub fn record(setting: Setting, random: &mut Random, operations: u64) -> Outcome<Taken> {
    let home = Home::new(setting, random)?;
    play(&home, random, operations).map_err(|what| format!("{home}: {what}"))
}

fn play(home: &Home, random: &mut Random, operations: u64) -> Outcome<Taken> {
    let stage = Stage::new(operations);
    let threads = 2 + random.below(7);
    let mut workers: Vec<Worker> = (0..threads)
        .map(|thread| Worker::new(thread, Random::of(&[random.next(), thread])))
        .collect();
    let mut reopened = 0;
    let versions = loop {
        let db = home.open().map_err(|error| format!("opening: {error}"))?;
        housekeeper::prepare(home, random, stage.is_open());
        live(home, &db, &stage, &mut workers, random.next())?;
        // SeqCst for simplicity, here and below: `live` has joined all threads.
        if !stage.is_open() && !stage.is_broken.load(Ordering::SeqCst) {
            finish(&db, &stage, &mut workers)?;
            break versions(&db).map_err(|error| format!("reading versions: {error}"))?;
        }
        if home.setting != Setting::Failing {
            return Err("the database fails on a disk that does not".to_owned());
        }
        // Errors of a failed disk are expected here.
        let _ = db.close();
        home.faults.heal();
        stage.is_broken.store(false, Ordering::SeqCst);
        reopened += 1;
    };
    Ok(gather(home, workers, versions, reopened))
}

/// Runs all threads until enough operations are done or the disk has failed.
fn live(
    home: &Home,
    db: &Database,
    stage: &Stage,
    workers: &mut [Worker],
    seed: u64,
) -> Outcome<()> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let keeper = scope.spawn(|| housekeeper::run(home, db, &over, Random::of(&[seed])));
        let mut threads = Vec::new();
        for worker in workers {
            let scene = Scene { db, stage, thread: worker.thread() };
            threads.push(scope.spawn(move || worker.run(&scene)));
        }
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        // SeqCst for simplicity: the flag publishes no other data.
        over.store(true, Ordering::SeqCst);
        let kept = keeper.join().unwrap_or_else(|_| Err("the housekeeper panicked".to_owned()));
        ends.into_iter()
            .try_for_each(|end| end.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .and(kept)
    })
}

/// Reads all keys with one worker after all threads have ended.
fn finish(db: &Database, stage: &Stage, workers: &mut [Worker]) -> Outcome<()> {
    workers.iter_mut().take(1).try_for_each(|worker| {
        let scene = Scene { db, stage, thread: worker.thread() };
        worker.finish(&scene)
    })
}

/// A page size that includes everything.
const ALL: usize = 100_000;

/// Returns all versions of every key of transactions, from one snapshot.
fn versions(db: &Database) -> mainstay::Result<BTreeMap<String, Vec<Version>>> {
    let view = db.cells().at(At::Latest)?;
    let marks = view.list(keys::OF_MARKS, None, ALL)?.names;
    let mut versions = BTreeMap::new();
    for key in keys::all_cells().chain(marks) {
        let entries = view.history(&key, ALL, None)?;
        versions.insert(key, entries.into_iter().rev().map(of_cell).collect::<Vec<_>>());
    }
    for key in keys::all_records() {
        let entries = view.records().history(&key, ALL, None)?;
        versions.insert(key, entries.into_iter().rev().map(of_record).collect::<Vec<_>>());
    }
    versions.retain(|_, chain| !chain.is_empty());
    Ok(versions)
}

/// The substitute for a value that is no number, which no thread has written.
const NONSENSE: i64 = i64::MIN;

fn of_cell(entry: HistoryEntry) -> Version {
    let value = entry.value.map(|value| value.as_i64().unwrap_or(NONSENSE));
    let HistoryEntry { counter, writes, revision, .. } = entry;
    Version { counter, writes, value, revision }
}

fn of_record(entry: RecordHistoryEntry) -> Version {
    let value = entry.fields.map(|fields| keys::number(&fields).unwrap_or(NONSENSE));
    let RecordHistoryEntry { counter, writes, revision, .. } = entry;
    Version { counter, writes, value, revision }
}

fn gather(
    home: &Home,
    workers: Vec<Worker>,
    versions: BTreeMap<String, Vec<Version>>,
    reopened: u64,
) -> Taken {
    let place = home.to_string();
    let mut taken = Taken { place, reopened, ..Taken::default() };
    taken.history.versions = versions;
    for worker in workers {
        taken.history.transactions.extend(worker.transactions);
        for (key, call) in worker.cells.calls {
            taken.cells.entry(line::name::<Cell>(key)).or_default().push(call);
        }
        for (key, call) in worker.records.calls {
            taken.records.entry(line::name::<Record>(key)).or_default().push(call);
        }
    }
    taken
}
