//! The whole life of a job: submit, claim, complete, with every step durable.
//!
//! ```text
//!   64 threads, each:  submit -> claim -> complete        embedded
//!                      JOB.SUBMIT -> JOB.CLAIM -> JOB.DONE    on our server, a connection each
//!                      three scripts                          on Redis, a connection each
//! ```
//!
//! The Redis scripts implement the same features: a queue ordered by time, and a fencing token.

use crate::context::{Context, Outcome};
use crate::forms::threads;
use crate::harness::{Side, interleave};
use crate::server::load::Caller;
use crate::server::pair::Pair;
use mainstay::{Database, Durability, Options};
use mainstay_jobs::{Jobs, Settings, Submission};
use std::net::SocketAddr;

/// Number of workers.
const WORKERS: usize = 64;
const TYPE: &str = "email-send";

const SUBMIT: &str = "\
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'state', 'pending', 'task_type', 'email-send', 'task_id', ARGV[1], 'created_at', ARGV[2],
  'updated_at', ARGV[2], 'retry_count', '0', 'max_retries', '3', 'timeout_ms', '30000', 'priority', '0', 'params', ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[2], KEYS[1])
return 1";
const CLAIM: &str = "\
local next = redis.call('ZPOPMIN', KEYS[1])
if #next == 0 then return nil end
local token = redis.call('INCR', KEYS[2])
redis.call('HSET', next[1], 'state', 'claimed', 'worker', ARGV[1], 'updated_at', ARGV[2], 'timeout_at', ARGV[3], 'token', token)
return {next[1], tostring(token)}";
const DONE: &str = "\
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'state', 'completed', 'updated_at', ARGV[2], 'result', ARGV[3])
redis.call('HDEL', KEYS[1], 'timeout_at')
return 1";

/// Runs the case embedded and through the server.
pub fn run(context: &mut Context) -> Outcome<()> {
    let here = format!("submit, claim, complete, sync, {WORKERS} threads");
    let there = format!("JOB.SUBMIT, CLAIM, DONE, sync, {WORKERS} connections");
    if !context.wants(&here) && !context.wants(&there) {
        return Ok(());
    }
    let pair = Pair::start(context, Durability::Sync, |_| Ok(()))?;
    if context.wants(&here) {
        let directory = context.directory("cycle")?;
        let database = Options::new().open(directory.path().join("ours"))?;
        let ours = in_process(&database)?;
        compare(context, &here, &pair, ours, "here")?;
    }
    if context.wants(&there) {
        let ours = connections(|number| commands(pair.ours.address, number))?;
        compare(context, &there, &pair, ours, "there")?;
    }
    pair.stop()
}

type Worker = Box<dyn FnMut() -> Outcome<()> + Send>;

fn compare(
    context: &mut Context,
    case: &str,
    pair: &Pair,
    ours: Vec<Worker>,
    run: &str,
) -> Outcome<()> {
    let scripts = Scripts::load(pair.redis.address)?;
    let theirs = connections(|number| scripts.worker(pair.redis.address, run, number))?;
    let side = |name: &str, mut workers: Vec<Worker>| {
        Side::new(name, move |slice| threads(&mut workers, 1, slice))
    };
    let mut sides = [side("ours", ours), side(&format!("{}, scripts", pair.peer), theirs)];
    let measured = interleave(&mut sides, context.process_shown())?;
    drop(sides);
    context.report.compare(case, &measured, None);
    Ok(())
}

fn connections(worker: impl Fn(usize) -> Outcome<Worker>) -> Outcome<Vec<Worker>> {
    (0..WORKERS).map(worker).collect()
}

/// Each worker submits a job and completes the next one in the queue.
fn in_process(database: &Database) -> Outcome<Vec<Worker>> {
    let jobs = Jobs::open(database, Settings::default())?;
    let worker = |number: usize| -> Worker {
        let jobs = jobs.clone();
        let name = format!("worker-{number:03}");
        let mut count = 0_u64;
        Box::new(move || {
            count += 1;
            let submission = Submission::new(TYPE, &format!("{name}-{count}")).params("to: a@b.c");
            jobs.submit(&submission)?;
            let claimed = jobs.claim(TYPE, &name, None)?.ok_or("no job for a worker")?;
            jobs.complete(&claimed.grant, Some(b"sent"))?;
            Ok(())
        })
    };
    Ok((0..WORKERS).map(worker).collect())
}

/// The same with server commands.
fn commands(address: SocketAddr, number: usize) -> Outcome<Worker> {
    let mut caller = Caller::to(address)?;
    let name = format!("worker-{number:03}");
    let mut count = 0_u64;
    Ok(Box::new(move || {
        count += 1;
        let id = format!("{name}-{count}");
        caller.ask(&["JOB.SUBMIT", TYPE, &id, "DATA", "to: a@b.c"])?;
        let claimed = caller.ask(&["JOB.CLAIM", TYPE, "WORKER", &name])?;
        let [id, token, ..] = &claimed[..] else { return Err("no job for a worker".into()) };
        let state = caller.ask(&["JOB.DONE", TYPE, id, token, "RESULT", "sent"])?;
        check(state == ["completed"], "a job was not completed")
    }))
}

/// The hashes of the scripts.
struct Scripts {
    submit: String,
    claim: String,
    done: String,
}

impl Scripts {
    fn load(address: SocketAddr) -> Outcome<Scripts> {
        let mut caller = Caller::to(address)?;
        let mut load = |script| -> Outcome<String> {
            let hash = caller.ask(&["SCRIPT", "LOAD", script])?;
            Ok(hash.into_iter().next().ok_or("Redis gave no hash of a script")?)
        };
        Ok(Scripts { submit: load(SUBMIT)?, claim: load(CLAIM)?, done: load(DONE)? })
    }

    /// The same with scripts. Job keys contain the name of the run.
    fn worker(&self, address: SocketAddr, run: &str, number: usize) -> Outcome<Worker> {
        let Scripts { submit, claim, done } = self;
        let submit = submit.clone();
        let claim = claim.clone();
        let done = done.clone();
        let mut caller = Caller::to(address)?;
        let name = format!("worker-{number:03}");
        let prefix = format!("{run}.state.tasks.{TYPE}.");
        let mut count = 0_u64;
        Ok(Box::new(move || {
            count += 1;
            let id = format!("{name}-{count}");
            let now = (1_800_000_000_000 + count).to_string();
            let key = format!("{prefix}{id}");
            let fresh =
                caller.ask(&["EVALSHA", &submit, "2", &key, "queue", &id, &now, "to: a@b.c"])?;
            check(fresh == ["1"], "a job was there already")?;
            let claimed =
                caller.ask(&["EVALSHA", &claim, "2", "queue", "tokens", &name, &now, &now])?;
            let [key, token] = &claimed[..] else { return Err("no job for a worker".into()) };
            let done = caller.ask(&["EVALSHA", &done, "1", key, token, &now, "sent"])?;
            check(done == ["1"], "a job was not completed")
        }))
    }
}

fn check(holds: bool, trouble: &str) -> Outcome<()> {
    if holds { Ok(()) } else { Err(trouble.into()) }
}
