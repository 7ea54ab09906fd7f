//! Field writes and claims through the server, beside Redis: the same client asks both.

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

const CONNECTIONS: usize = 64;

/// Runs both, with every write synced and with syncs in intervals.
pub fn run(context: &mut Context) -> Outcome<()> {
    for durability in [Durability::Sync, Durability::Interval] {
        let (mode, bars) = match durability {
            Durability::Sync => ("sync", [Some(1.0), Some(1.2)]),
            _ => ("interval", [None, None]),
        };
        let case = |what| format!("{what}, {mode}, {CONNECTIONS} connections");
        let cases = [case("HSET of 4 fields"), case("REC.CAS of a claim")];
        if cases.iter().any(|case| context.wants(case)) {
            run_pair(context, durability, &cases, bars)?;
        }
    }
    Ok(())
}

fn run_pair(
    context: &mut Context,
    durability: Durability,
    [writes, claims]: &[String; 2],
    bars: [Option<f64>; 2],
) -> Outcome<()> {
    let count = context.sized(100_000);
    let pair = Pair::start(context, durability, |address| redis::load(address, count))?;
    declare(pair.ours.address)?;
    let servers = [pair.ours.address, pair.redis.address];
    if context.wants(claims) {
        let [ours, theirs] = servers;
        let clients = [
            claims_of_ours(ours, CONNECTIONS, count)?,
            claims_by_script(theirs, CONNECTIONS, count)?,
        ];
        compare(context, claims, &pair.peer, clients, bars[1])?;
    }
    if context.wants(writes) {
        let [ours, theirs] = servers.map(|address| field_writes(address, CONNECTIONS, 1, count));
        compare(context, writes, &pair.peer, [ours?, theirs?], bars[0])?;
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

/// Jobs have it, so ours has to keep it.
fn declare(address: SocketAddr) -> Outcome<()> {
    let words = ["REC.INDEX", "ADD", "mainstay.state.tasks.", "state", "timeout_at"];
    Caller::to(address)?.call(&words, &Expected::number())
}

/// Connections that write what a worker writes after a step, each to any task.
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
    // All four fields are there already.
    let question = Question { depth, reply: Expected::exactly(":0\r\n"), asker: &asker };
    Client::to(address, connections, &question)
}

/// The number of a step, and a moment.
pub fn step(random: &mut Random) -> [String; 2] {
    [random.below(7).to_string(), (NOW_MS + random.below(1_000_000) as u64).to_string()]
}

fn claims_of_ours(address: SocketAddr, connections: usize, count: usize) -> Outcome<Client> {
    let asker = |number| -> Asker {
        let mut turns = Turns::of(number, connections, count);
        Box::new(move |out| put_request(out, &turns.next().words()))
    };
    // Whoever loses gets nothing instead of a counter.
    let question = Question { depth: 1, reply: Expected::number(), asker: &asker };
    Client::to(address, connections, &question)
}

/// Connections that claim tasks of their own by a script.
pub fn claims_by_script(address: SocketAddr, connections: usize, count: usize) -> Outcome<Client> {
    let hash = redis::claim_script(address)?;
    let asker = |number| -> Asker {
        let (hash, mut turns) = (hash.clone(), Turns::of(number, connections, count));
        Box::new(move |out| put_request(out, &turns.next().script_words(&hash)))
    };
    let question = Question { depth: 1, reply: Expected::exactly(":1\r\n"), asker: &asker };
    Client::to(address, connections, &question)
}
