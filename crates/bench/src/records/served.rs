//! Field writes and claims through the server, compared with Redis: the same client talks to both.

use super::redis;
use super::tasks::{self, NOW_MS};
use super::turns::Turns;
use crate::context::{Context, Outcome};
use crate::harness::{Side, interleave};
use crate::server::client::Client;
use crate::server::connection::{Asker, Question};
use crate::server::load::Caller;
use crate::server::pair::Pair;
use crate::server::wire::{Expected, put_request};
use crate::workload::Random;
use mainstay::Durability;
use std::net::SocketAddr;
use std::time::Duration;

const CONNECTIONS: usize = 64;

/// Runs both operations, with an fsync per write and with periodic fsyncs. First without an index, like
/// Redis, then with the index that jobs use.
pub fn run(context: &mut Context) -> Outcome<()> {
    for durability in [Durability::Sync, Durability::Interval] {
        let wanted = cases(durability).into_iter().filter(|case| context.wants(&case.name()));
        let wanted: Vec<Case> = wanted.collect();
        if !wanted.is_empty() {
            run_pair(context, durability, &wanted)?;
        }
    }
    Ok(())
}

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Write,
    Claim,
}

/// One comparison.
#[derive(Clone, Copy, Debug)]
struct Case {
    operation: Operation,
    durability: Durability,
    indexed: bool,
}

impl Case {
    fn name(&self) -> String {
        let operation = match self.operation {
            Operation::Write => "HSET of 4 fields",
            Operation::Claim => "REC.CAS of a claim",
        };
        let mode = if self.durability == Durability::Sync { "sync" } else { "interval" };
        let indexed = if self.indexed { ", indexed" } else { "" };
        format!("{operation}, {mode}, {CONNECTIONS} connections{indexed}")
    }

    fn must(&self) -> Option<f64> {
        match (self.operation, self.durability, self.indexed) {
            (Operation::Write, Durability::Sync, false) => Some(1.0),
            (Operation::Claim, Durability::Sync, false) => Some(1.2),
            _ => None,
        }
    }

    fn clients(&self, pair: &Pair, count: usize) -> Outcome<[Client; 2]> {
        let ours = pair.ours.address;
        let theirs = pair.redis.address;
        Ok(match self.operation {
            Operation::Write => [
                field_writes(ours, CONNECTIONS, 1, count)?,
                field_writes(theirs, CONNECTIONS, 1, count)?,
            ],
            Operation::Claim => {
                // A claim depends on the state left by the previous one, so load the tasks again.
                redis::load(ours, count)?;
                redis::load(theirs, count)?;
                [claims_of_ours(ours, count)?, claims_by_script(theirs, CONNECTIONS, count)?]
            }
        })
    }
}

fn cases(durability: Durability) -> Vec<Case> {
    let of = |indexed| {
        [Operation::Write, Operation::Claim].map(move |operation| Case {
            operation,
            durability,
            indexed,
        })
    };
    [false, true].into_iter().flat_map(of).collect()
}

fn run_pair(context: &mut Context, durability: Durability, cases: &[Case]) -> Outcome<()> {
    let count = context.sized(100_000);
    let pair = Pair::start(context, durability, |address| redis::load(address, count))?;
    let mut declared = false;
    for case in cases {
        if case.indexed && !std::mem::replace(&mut declared, true) {
            declare(pair.ours.address)?;
        }
        let clients = case.clients(&pair, count)?;
        compare(context, &case.name(), &pair.peer, clients, case.must())?;
    }
    pair.stop()
}

fn compare(
    context: &mut Context,
    case: &str,
    peer: &str,
    [mut ours, mut theirs]: [Client; 2],
    must: Option<f64>,
) -> Outcome<()> {
    let pace = if must.is_some() { context.process_bar() } else { context.process_shown() };
    let mut sides = [
        Side::new("ours", move |slice| ours.run(slice)),
        Side::new(peer, move |slice| theirs.run(slice)),
    ];
    let measured = interleave(&mut sides, pace)?;
    drop(sides);
    context.report.compare(case, &measured, must);
    Ok(())
}

/// Declares the index that jobs use, and waits until it is ready.
fn declare(address: SocketAddr) -> Outcome<()> {
    let words = ["REC.INDEX", "ADD", "mainstay.state.tasks.", "state", "timeout_at"];
    let mut caller = Caller::to(address)?;
    caller.call(&words, &Expected::number())?;
    // Existing records are backfilled first.
    let is_ready = |index: &[String]| matches!(index, [.., ready, _] if !ready.is_empty());
    while !is_ready(&caller.ask(&["REC.INDEX", "LIST"])?) {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Connections that write a worker's fields after a step, each to random tasks.
pub fn field_writes(
    address: SocketAddr,
    connections: usize,
    depth: usize,
    count: usize,
) -> Outcome<Client> {
    let asker = |number| -> Asker {
        let mut random = Random::new(number as u64);
        Box::new(move |out| {
            let key = tasks::key(random.below(count));
            let [step, later] = step(&mut random);
            put_request(
                out,
                &[
                    "HSET",
                    &key,
                    "state",
                    "running",
                    "current_step",
                    &step,
                    "updated_at",
                    &later,
                    "timeout_at",
                    &later,
                ],
            );
        })
    };
    // All four fields already exist.
    let question = Question { depth, reply: Expected::exactly(":0\r\n"), asker: &asker };
    Client::to(address, connections, &question)
}

/// A step number and a time.
pub fn step(random: &mut Random) -> [String; 2] {
    [random.below(7).to_string(), (NOW_MS + random.below(1_000_000) as u64).to_string()]
}

fn claims_of_ours(address: SocketAddr, count: usize) -> Outcome<Client> {
    let asker = |number| -> Asker {
        let mut turns = Turns::of(number, CONNECTIONS, count);
        Box::new(move |out| put_request(out, &turns.next().words()))
    };
    // A lost claim would return null instead of a counter.
    let question = Question { depth: 1, reply: Expected::number(), asker: &asker };
    Client::to(address, CONNECTIONS, &question)
}

/// Connections that claim their own tasks with a script.
pub fn claims_by_script(address: SocketAddr, connections: usize, count: usize) -> Outcome<Client> {
    let hash = redis::claim_script(address)?;
    let asker = |number| -> Asker {
        let hash = hash.clone();
        let mut turns = Turns::of(number, connections, count);
        Box::new(move |out| put_request(out, &turns.next().script_words(&hash)))
    };
    let question = Question { depth: 1, reply: Expected::exactly(":1\r\n"), asker: &asker };
    Client::to(address, connections, &question)
}
