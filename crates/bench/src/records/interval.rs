//! Field writes of one thread with periodic fsyncs, compared with a Redis connection that pipelines 16
//! requests.

use super::redis;
use super::served::{field_writes, step};
use super::tasks;
use crate::context::{Context, Outcome, short_count};
use crate::forms::threads;
use crate::harness::{Side, interleave};
use crate::server::pair::redis_version;
use crate::workload::Random;
use mainstay::{Database, Durability, Fields, Options};

/// One of this many writes is timed.
const SAMPLE: u64 = 16;
/// Number of requests that a Redis connection pipelines.
const PIPELINE: usize = 16;

/// Runs the case without an index, like Redis, and with the index that jobs use.
pub fn run(context: &mut Context) -> Outcome<()> {
    let count = context.sized(100_000);
    for (more, must) in [("", Some(1.0)), (", indexed", None)] {
        let case =
            format!("set_fields of 4, interval, 1 thread, {} tasks{more}", short_count(count));
        if context.wants(&case) {
            compare(context, &case, count, must)?;
        }
    }
    Ok(())
}

fn compare(context: &mut Context, case: &str, count: usize, must: Option<f64>) -> Outcome<()> {
    let redis = redis::with_tasks(context, Durability::Interval, count)?;
    let directory = context.directory("interval")?;
    let database =
        Options::new().durability(Durability::Interval).open(directory.path().join("ours"))?;
    if must.is_none() {
        tasks::declare(&database)?;
    }
    tasks::load(&database, count)?;
    let peer = format!("Redis {}, everysec, 1 connection, pipeline {PIPELINE}", redis_version()?);
    let mut client = field_writes(redis.server.address, 1, PIPELINE, count)?;
    let mut sides = [ours(&database, count), Side::new(peer, move |slice| client.run(slice))];
    let measured = interleave(&mut sides, context.disk_bar())?;
    drop(sides);
    context.report.compare(case, &measured, must);
    redis.server.stop()
}

fn ours(database: &Database, count: usize) -> Side<'_> {
    let records = database.records();
    let mut random = Random::new(0);
    let mut workers = [move || {
        let key = tasks::key(random.below(count));
        let [step, later] = step(&mut random);
        let pairs = [
            ("state", "running"),
            ("current_step", &step),
            ("updated_at", &later),
            ("timeout_at", &later),
        ];
        records.set_fields(&key, &Fields::of(pairs)?)?;
        Ok(())
    }];
    Side::new("ours", move |slice| threads(&mut workers, SAMPLE, slice))
}
