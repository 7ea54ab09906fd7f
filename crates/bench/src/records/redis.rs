//! Tasks as hashes on a RESP server: loaded, claimed by a script, swept with SCAN and HMGET.

use super::tasks;
use crate::context::{Context, Outcome};
use crate::server::load::Caller;
use crate::server::process::Server;
use mainstay::Durability;
use std::net::SocketAddr;
use std::time::Instant;

/// Number of keys per SCAN, and of requests per pipeline.
const PAGE: usize = 1_000;

/// The reference compare-and-swap script, with the additional fields of a claim.
const CLAIM: &str = "\
if redis.call('HGET', KEYS[1], 'state') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'state', ARGV[2], 'worker', ARGV[3], 'updated_at', ARGV[4], 'timeout_at', ARGV[5])
  return 1
else
  return 0
end";

/// Starts a Redis that holds only the tasks.
pub fn with_tasks(context: &Context, durability: Durability, count: usize) -> Outcome<Redis> {
    let directory = context.directory("redis")?;
    let mut server = Server::redis(&directory.path().join("redis"), durability)?;
    server.wait()?;
    load(server.address, count)?;
    Ok(Redis { server, _directory: directory })
}

/// A running Redis. Its process ends before its directory is removed.
pub struct Redis {
    /// The server process.
    pub server: Server,
    _directory: tempfile::TempDir,
}

/// Seconds of one sweep over all tasks.
pub fn sweep(context: &Context, count: usize) -> Outcome<f64> {
    let redis = with_tasks(context, Durability::Interval, count)?;
    let mut caller = Caller::to(redis.server.address)?;
    let started = Instant::now();
    let found = stuck(&mut caller)?;
    let seconds = started.elapsed().as_secs_f64();
    if found != tasks::STUCK {
        return Err(format!("Redis found {found} stuck, not {}", tasks::STUCK).into());
    }
    redis.server.stop()?;
    Ok(seconds)
}

/// Creates all tasks as hashes.
pub fn load(address: SocketAddr, count: usize) -> Outcome<()> {
    let mut caller = Caller::to(address)?;
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

/// Loads the claim script into Redis. Returns its hash.
pub fn claim_script(address: SocketAddr) -> Outcome<String> {
    let request = ["SCRIPT", "LOAD", CLAIM].map(str::to_owned).to_vec();
    let replies = Caller::to(address)?.pipeline(vec![request])?;
    Ok(replies.concat().pop().ok_or("Redis gave no hash of the script")?)
}

fn stuck(caller: &mut Caller) -> Outcome<usize> {
    let mut cursor = "0".to_owned();
    let mut found = 0;
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
