//! Finding stuck tasks with an index, compared with our own point reads, and with SCAN and HMGET on Redis.

use super::redis;
use super::tasks::{self, STUCK};
use crate::context::{Context, Outcome, short_count};
use crate::report::Row;
use crate::workload::Random;
use mainstay::{Database, Options};
use std::hint::black_box;
use std::time::Instant;

/// Number of measurements; the median counts.
const ROUNDS: usize = 11;
/// Upper limit for the cost of a sweep, in reads of one record.
const GETS: usize = 2_000;

/// Runs the case.
pub fn run(context: &mut Context) -> Outcome<()> {
    let count = context.sized(1_000_000);
    let case = format!("finding {STUCK} stuck of {}", short_count(count));
    if !context.wants(&case) {
        return Ok(());
    }
    let ((few, _), (many, gets)) = (sweep(context, count / 10)?, sweep(context, count)?);
    let name = format!("{GETS} reads of one record");
    context.report.add(Row::smaller(&case, "ms", many * 1e3, (&name, gets * 1e3)).must(1.0));
    let name = format!("of {}", short_count(count / 10));
    context.report.add(
        Row::smaller(&format!("{case}, beside fewer"), "ms", many * 1e3, (&name, few * 1e3))
            .must(1.5),
    );
    let redis = redis::sweep(context, count)?;
    let name = "Redis, SCAN and HGET";
    context.report.add(
        Row::smaller(&format!("{case}, beside Redis"), "ms", many * 1e3, (name, redis * 1e3))
            .must(0.01),
    );
    Ok(())
}

/// Seconds of one sweep, and of the reads that limit its cost.
fn sweep(context: &Context, count: usize) -> Outcome<(f64, f64)> {
    let directory = context.directory("sweep")?;
    let database = Options::new().open(directory.path().join("ours"))?;
    tasks::declare(&database)?;
    tasks::load(&database, count)?;
    let stuck = tasks::stuck()?;
    let records = database.records();
    let sweep = median(|| {
        let found = records.scan("mainstay.state.tasks.", &stuck, None, 1_000)?.records.len();
        if found == STUCK { Ok(()) } else { Err(format!("{found} were found, not {STUCK}").into()) }
    })?;
    let mut random = Random::new(7);
    let gets = median(|| read(&database, count, &mut random))?;
    Ok((sweep, gets))
}

fn read(database: &Database, count: usize, random: &mut Random) -> Outcome<()> {
    let records = database.records();
    for _ in 0..GETS {
        black_box(records.get(&tasks::key(random.below(count)))?);
    }
    Ok(())
}

fn median(mut body: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let mut seconds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        body()?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[ROUNDS / 2])
}
