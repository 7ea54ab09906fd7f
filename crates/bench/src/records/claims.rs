//! Durable claims in an embedded database, compared with the usual Lua script for Redis.

use super::redis::{self, Redis};
use super::served::claims_by_script;
use super::tasks;
use super::turns::Turns;
use crate::context::{Context, Outcome, short_count};
use crate::forms::{Landing, threads, tickets};
use crate::harness::{Side, interleave};
use crate::server::pair::redis_version;
use mainstay::{Answer, Database, Durability, Options, Receipt, Transaction};

/// Number of claims in flight.
const IN_FLIGHT: usize = 64;
/// Number of threads that submit tickets.
const SUBMITTERS: usize = 2;

/// Runs both forms against one Redis.
pub fn run(context: &mut Context) -> Outcome<()> {
    let count = context.sized(100_000);
    let case = |form| format!("claim, sync, {IN_FLIGHT} {form} of {} tasks", short_count(count));
    let tickets = case("tickets");
    let threads = case("threads");
    if !context.wants(&tickets) && !context.wants(&threads) {
        return Ok(());
    }
    let redis = redis::with_tasks(context, Durability::Sync, count)?;
    if context.wants(&tickets) {
        compare(context, &tickets, 1.5, count, &redis, by_tickets)?;
    }
    if context.wants(&threads) {
        compare(context, &threads, 1.0, count, &redis, by_threads)?;
    }
    redis.server.stop()
}

type Ours = fn(&Database, usize) -> Side<'_>;

fn compare(
    context: &mut Context,
    case: &str,
    must: f64,
    count: usize,
    redis: &Redis,
    ours: Ours,
) -> Outcome<()> {
    // A claim depends on the state left by the previous one, so each form starts with its own tasks.
    redis::load(redis.server.address, count)?;
    let directory = context.directory("claims")?;
    let database = Options::new().open(directory.path().join("ours"))?;
    tasks::declare(&database)?;
    tasks::load(&database, count)?;
    let peer = format!("Redis {}, always, a script, {IN_FLIGHT} connections", redis_version()?);
    let mut script = claims_by_script(redis.server.address, IN_FLIGHT, count)?;
    let mut sides = [ours(&database, count), Side::new(peer, move |slice| script.run(slice))];
    let measured = interleave(&mut sides, context.disk_bar())?;
    drop(sides);
    context.report.compare(case, &measured, Some(must));
    Ok(())
}

fn by_threads(database: &Database, count: usize) -> Side<'_> {
    let worker = |number| {
        let records = database.records();
        let mut turns = Turns::of(number, IN_FLIGHT, count);
        move || match records.write(turns.next().write()?)? {
            Some(_) => Ok(()),
            None => Err("a claim that nobody contested was lost".into()),
        }
    };
    let mut workers: Vec<_> = (0..IN_FLIGHT).map(worker).collect();
    Side::new("ours", move |slice| threads(&mut workers, 1, slice))
}

fn by_tickets(database: &Database, count: usize) -> Side<'_> {
    let submitter = |number| {
        let mut turns = Turns::of(number, SUBMITTERS, count);
        move |landing: Landing| {
            let transaction = Transaction::new().step(turns.next().write()?);
            database.submit_with(transaction, move |result| landing.answer(won(result)));
            Ok(())
        }
    };
    let mut submitters: Vec<_> = (0..SUBMITTERS).map(submitter).collect();
    Side::new("ours", move |slice| tickets(&mut submitters, IN_FLIGHT / SUBMITTERS, slice))
}

fn won(result: mainstay::Result<Receipt>) -> Result<(), String> {
    match result.map_err(|error| error.to_string())?.answers.first() {
        Some(Answer::MaybeCounter(Some(_))) => Ok(()),
        _ => Err("a claim that nobody contested was lost".to_owned()),
    }
}
