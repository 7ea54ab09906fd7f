//! Forks: the same time for ten keys and for millions, and little more than one fsync.

use super::load;
use crate::context::{Context, Outcome, short_count};
use crate::harness::median;
use crate::peers::bare_log::{BareLog, PAYLOAD_BYTES, Seat};
use crate::report::Row;
use crate::workload;
use mainstay::{At, Database, Options};
use std::path::Path;
use std::time::Instant;

const FEW: usize = 10;
const FORKS: usize = 101;
/// Upper limit for the cost of a fork besides its fsync.
const LIMIT_US: f64 = 1_000.0;

/// Compares both sizes, and a fork with a bare fsync.
pub fn run(context: &mut Context) -> Outcome<()> {
    let many = context.sized(10_000_000);
    let same = format!("fork, {} keys", short_count(many));
    let cost = format!("fork less one fsync, {} keys", short_count(many));
    if !context.wants(&same) && !context.wants(&cost) {
        return Ok(());
    }
    let directory = context.directory("fork")?;
    let large = filled(&directory.path().join("large"), many)?;
    let small = filled(&directory.path().join("small"), FEW)?;
    let log = BareLog::create(directory.path())?;
    let times = measure(&large, &small, &log)?;
    if context.wants(&same) {
        let peer = format!("fork, {FEW} keys");
        let row = Row::smaller(&same, "us", times.large, (&peer, times.small)).must(1.5);
        context.report.add(row);
    }
    if context.wants(&cost) {
        let ours = (times.large - times.sync).max(0.0);
        context.report.add(Row::smaller(&cost, "us", ours, ("limit", LIMIT_US)).must(1.0));
    }
    Ok(())
}

fn filled(directory: &Path, count: usize) -> Outcome<Database> {
    let database = Options::new().open(directory)?;
    load(&database, (0..count as u64).map(workload::name), &workload::values())?;
    Ok(database)
}

/// Median times in microseconds.
struct Times {
    large: f64,
    small: f64,
    sync: f64,
}

fn measure(large: &Database, small: &Database, log: &BareLog) -> Outcome<Times> {
    let seat = Seat::new();
    let mut larges = Vec::new();
    let mut smalls = Vec::new();
    let mut syncs = Vec::new();
    for n in 0..FORKS {
        let name = format!("fork-{n}");
        larges.push(fork(large, &name)?);
        smalls.push(fork(small, &name)?);
        let started = Instant::now();
        log.append(&seat, &[0x5a; PAYLOAD_BYTES])?;
        syncs.push(micros(started));
    }
    Ok(Times { large: median(&mut larges), small: median(&mut smalls), sync: median(&mut syncs) })
}

fn fork(database: &Database, name: &str) -> Outcome<f64> {
    let started = Instant::now();
    database.fork(name, "main", At::Latest)?;
    Ok(micros(started))
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
