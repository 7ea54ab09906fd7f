//! One run of ten million events: appends and fetches stay as fast as with the first million.
//!
//! ```text
//!   append, sync      part 1 | part 2 | … | part 10      one event per transaction, 64 in flight, each answered when durable
//!   fetch             part 1, part 10, part 1, part 10 …    pages of 1,000
//!   append, unsynced  part 1 | part 2 | … | part 10      batches of 500, as fast as they execute
//! ```
//!
//! Its events are tool answers, as in a long run of an agent: they change no state. If all of them were
//! steps, the snapshot of the run would grow with it.

use super::append::IN_FLIGHT;
use super::events::{self, Notes};
use super::fetch::PAGE;
use super::ours;
use crate::context::{Context, Outcome, short_count};
use crate::harness::median;
use crate::report::Row;
use mainstay::{Database, Durability, NewEvent, Options, Runs};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PARTS: usize = 10;
/// Number of events per transaction.
const BATCH: usize = 500;
/// Number of measurements of each end; the medians count.
const ROUNDS: usize = 3;
/// Minimum rate of the last part, relative to the first one.
const FLAT: f64 = 0.7;

/// Runs all cases.
pub fn run(context: &mut Context) -> Outcome<()> {
    let part = context.either(1_000_000, 20_000);
    let [all, of_part] = [PARTS * part, part].map(short_count);
    let name = |what: &str| format!("{what}, one run of {all} events, the last {of_part}");
    let append = name(&format!("append, sync, {IN_FLIGHT} in flight"));
    let fetch = name("fetch");
    let unsynced = name("append, unsynced, batches of 500");
    let first = format!("the first {of_part}");
    if context.wants(&append) || context.wants(&fetch) {
        let (directory, database) = open(context, Durability::Sync)?;
        let rates = rates(|number| append_durably(&database, &events::run(0), number, part))?;
        context.report.add(row(&append, &first, &rates).must(FLAT));
        if context.wants(&fetch) {
            let rates = fetch_ends(&database.runs(), &events::run(0), part)?;
            context.report.add(row(&fetch, &first, &rates).must(FLAT));
        }
        drop((database, directory));
    }
    if context.wants(&unsynced) {
        let (_directory, database) = open(context, Durability::Memory)?;
        let rates =
            rates(|number| append_batches(&database.runs(), &events::run(0), number, part))?;
        context.report.add(row(&unsynced, &first, &rates));
    }
    Ok(())
}

/// A database that trims its log as early as possible, because it would fill the disk otherwise.
fn open(context: &Context, durability: Durability) -> Outcome<(TempDir, Database)> {
    let directory = context.directory("long")?;
    let options = Options::new().durability(durability).feed_retention(Duration::ZERO, 0);
    let database = options.open(directory.path().join("ours"))?;
    Ok((directory, database))
}

/// Compares the last part with the first, with the range of all parts.
fn row(case: &str, first_name: &str, rates: &[f64]) -> Row {
    let first = rates.first();
    let last = rates.last();
    let [first, last] = [first, last].map(|rate| rate.copied().unwrap_or_default());
    let mut row = Row::larger(case, "events/s", last, (first_name, first));
    let ratios = || rates.iter().map(|rate| rate / first);
    let low = ratios().fold(f64::MAX, f64::min);
    let high = ratios().fold(0.0, f64::max);
    row.range = Some((low, high));
    row
}

/// Events per second of every part.
fn rates(mut append: impl FnMut(usize) -> Outcome<usize>) -> Outcome<Vec<f64>> {
    let rate = |number: usize| -> Outcome<f64> {
        let started = Instant::now();
        let count = append(number)?;
        Ok(count as f64 / started.elapsed().as_secs_f64())
    };
    (0..PARTS).map(rate).collect()
}

/// Appends a part, one transaction per event, each answered when it is durable.
fn append_durably(database: &Database, run: &str, number: usize, part: usize) -> Outcome<usize> {
    let notes = Notes::new();
    let places = number * part..(number + 1) * part;
    for start in places.step_by(IN_FLIGHT) {
        let end = (start + IN_FLIGHT).min((number + 1) * part);
        let told = (start..end).map(|place| notes.progress(run.to_owned(), place as u64));
        for receipt in database.execute_all(told.map(|told| ours::transaction(&told)).collect()) {
            ours::seen(receipt, true)?;
        }
    }
    Ok(part)
}

/// Appends a part in batches.
fn append_batches(runs: &Runs, run: &str, number: usize, part: usize) -> Outcome<usize> {
    let notes = Notes::new();
    for start in (number * part..(number + 1) * part).step_by(BATCH) {
        let batch: Vec<NewEvent> = (start..start + BATCH)
            .map(|place| notes.progress(run.to_owned(), place as u64).event())
            .collect();
        let fresh = runs.append_batch(batch)?.iter().filter(|one| one.persisted).count();
        if fresh != BATCH {
            return Err(format!("{fresh} of {BATCH} events were written").into());
        }
    }
    Ok(part)
}

/// Events per second of the first and of the last part.
fn fetch_ends(runs: &Runs, run: &str, part: usize) -> Outcome<[f64; 2]> {
    let mut first = Vec::new();
    let mut last = Vec::new();
    for _ in 0..ROUNDS {
        first.push(fetch_part(runs, run, part, 0)?);
        last.push(fetch_part(runs, run, part, (PARTS - 1) * part)?);
    }
    Ok([median(&mut first), median(&mut last)])
}

fn fetch_part(runs: &Runs, run: &str, part: usize, start: usize) -> Outcome<f64> {
    let started = Instant::now();
    for after in (start..start + part).step_by(PAGE) {
        let page = runs.fetch(run, after as u64, PAGE)?;
        let events = page.len();
        let last = page.last().map(|event| event.run_seq);
        if (events, last) != (PAGE, Some((after + PAGE) as u64)) {
            return Err(format!("a page behind {after} had {events} events up to {last:?}").into());
        }
    }
    Ok(part as f64 / started.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_is_measured_by_the_first() {
        let row = row("append", "the first", &[100.0, 60.0, 120.0, 80.0]).must(FLAT);
        assert_eq!(
            (row.ratio(), row.reached(), row.range),
            (Some(0.8), Some(true), Some((0.6, 1.2)))
        );
        let slower = super::row("append", "the first", &[100.0, 69.0]).must(FLAT);
        assert_eq!(slower.reached(), Some(false));
    }
}
