//! Redis doing what a sweeper without an index does: SCAN, and HGET of each key.

use super::load::Caller;
use super::process::Server;
use crate::context::{Context, Outcome};
use crate::records::tasks;
use mainstay::Durability;
use std::time::Instant;

/// How many keys one SCAN asks for, and how many reads go in one pipeline.
const PAGE: usize = 1_000;

/// Seconds of one sweep over all tasks.
pub fn sweep(context: &Context, count: usize) -> Outcome<f64> {
    let directory = context.directory("redis-sweep")?;
    let mut redis = Server::redis(&directory.path().join("redis"), Durability::Interval)?;
    redis.wait()?;
    let mut caller = Caller::to(redis.address)?;
    load(&mut caller, count)?;
    let started = Instant::now();
    let found = stuck(&mut caller)?;
    let seconds = started.elapsed().as_secs_f64();
    if found != tasks::STUCK {
        return Err(format!("Redis found {found} stuck, not {}", tasks::STUCK).into());
    }
    redis.stop()?;
    Ok(seconds)
}

fn load(caller: &mut Caller, count: usize) -> Outcome<()> {
    for start in (0..count).step_by(PAGE) {
        let requests = (start..(start + PAGE).min(count)).map(|number| {
            let fields = tasks::fields(number, count);
            let pairs = fields.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
            ["HSET".to_owned(), tasks::key(number)].into_iter().chain(pairs).collect()
        });
        caller.pipeline(requests.collect())?;
    }
    Ok(())
}

fn stuck(caller: &mut Caller) -> Outcome<usize> {
    let (mut cursor, mut found) = ("0".to_owned(), 0);
    loop {
        let words = ["SCAN", &cursor, "MATCH", "mainstay.state.tasks.*", "COUNT", "1000"];
        let page = caller.pipeline(vec![words.map(str::to_owned).to_vec()])?;
        let (next, keys) = page.first().and_then(|reply| reply.split_first()).ok_or("no page")?;
        let read = |key: &String| ["HMGET", key, "state", "timeout_at"].map(str::to_owned).to_vec();
        for fields in caller.pipeline(keys.iter().map(read).collect())? {
            let timeout = fields.get(1).and_then(|timeout| timeout.parse::<u64>().ok());
            let late = timeout.is_some_and(|timeout| timeout < tasks::NOW_MS);
            found += usize::from(late && fields.first().is_some_and(|state| state == "running"));
        }
        cursor = next.clone();
        if cursor == "0" {
            return Ok(found);
        }
    }
}
