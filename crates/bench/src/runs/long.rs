//! One run of ten million events: appending and fetching stay what they were with the first million.
//!
//! ```text
//!   append   part 1 | part 2 | … | part 10      batches of 500, nothing synced: the disk is not what is asked about
//!   fetch    part 1, part 10, part 1, part 10 …    pages of 1,000
//! ```
//!
//! Its events are answers of tools, as a long run of an agent has them: they change no state. Were all of them steps, its
//! snapshot would grow with it.

use super::events::{self, Notes};
use super::fetch::PAGE;
use crate::context::{Context, Outcome, short_count};
use crate::harness::median;
use crate::report::Row;
use mainstay::{Durability, NewEvent, Options, Runs};
use std::time::{Duration, Instant};

const PARTS: usize = 10;
/// Events written by one transaction.
const BATCH: usize = 500;
/// How often both ends are fetched; the medians count.
const ROUNDS: usize = 3;
/// The last part's rate may be this much below the first one's.
const FLAT: f64 = 0.7;

/// Runs both cases.
pub fn run(context: &mut Context) -> Outcome<()> {
    let part = context.either(1_000_000, 20_000);
    let [all, of_part] = [PARTS * part, part].map(short_count);
    let [append, fetch] = ["append", "fetch"]
        .map(|verb| format!("{verb}, one run of {all} events, the last {of_part}, unsynced"));
    if !context.wants(&append) && !context.wants(&fetch) {
        return Ok(());
    }
    let directory = context.directory("long")?;
    // What the log no longer has to keep goes, or the disk fills.
    let options = Options::new().durability(Durability::Memory).feed_retention(Duration::ZERO, 0);
    let database = options.open(directory.path().join("ours"))?;
    let (runs, run, first) = (database.runs(), events::run(0), format!("the first {of_part}"));
    let rates = append_parts(&runs, &run, part)?;
    context.report.add(row(&append, &first, &rates));
    if context.wants(&fetch) {
        let rates = fetch_ends(&runs, &run, part)?;
        context.report.add(row(&fetch, &first, &rates));
    }
    Ok(())
}

/// The last beside the first, and the range of all.
fn row(case: &str, first_name: &str, rates: &[f64]) -> Row {
    let (first, last) = (rates.first(), rates.last());
    let [first, last] = [first, last].map(|rate| rate.copied().unwrap_or_default());
    let mut row = Row::larger(case, "events/s", last, (first_name, first)).must(FLAT);
    let ratios = || rates.iter().map(|rate| rate / first);
    let (low, high) = (ratios().fold(f64::MAX, f64::min), ratios().fold(0.0, f64::max));
    row.range = Some((low, high));
    row
}

/// Events per second of every part.
fn append_parts(runs: &Runs, run: &str, part: usize) -> Outcome<Vec<f64>> {
    let notes = Notes::new();
    let rate = |number: usize| -> Outcome<f64> {
        let started = Instant::now();
        for start in (number * part..(number + 1) * part).step_by(BATCH) {
            let event = |place: usize| notes.progress(run.to_owned(), place as u64).event();
            let batch: Vec<NewEvent> = (start..start + BATCH).map(event).collect();
            let fresh = runs.append_batch(batch)?.iter().filter(|one| one.persisted).count();
            if fresh != BATCH {
                return Err(format!("{fresh} of {BATCH} events were written").into());
            }
        }
        Ok(part as f64 / started.elapsed().as_secs_f64())
    };
    (0..PARTS).map(rate).collect()
}

/// Events per second of the first and of the last part.
fn fetch_ends(runs: &Runs, run: &str, part: usize) -> Outcome<[f64; 2]> {
    let (mut first, mut last) = (Vec::new(), Vec::new());
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
        let (events, last) = (page.len(), page.last().map(|event| event.run_seq));
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
        let row = row("append", "the first", &[100.0, 60.0, 120.0, 80.0]);
        assert_eq!(
            (row.ratio(), row.reached(), row.range),
            (Some(0.8), Some(true), Some((0.6, 1.2)))
        );
        let slower = super::row("append", "the first", &[100.0, 69.0]);
        assert_eq!(slower.reached(), Some(false));
    }
}
