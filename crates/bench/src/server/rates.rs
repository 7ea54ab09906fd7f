//! Operations per second of our server and Redis: 64 connections, 100-byte values, random keys.

use super::client::Client;
use super::connection::{Asker, Question};
use super::load;
use super::pair::Pair;
use super::redis_benchmark::RedisBenchmark;
use super::wire::{Operation, key, put_request};
use crate::context::{Context, Outcome};
use crate::harness::{Side, Slice, interleave};
use crate::workload::{self, Random};
use mainstay::Durability;
use std::net::SocketAddr;
use std::time::Duration;

const CONNECTIONS: usize = 64;

/// The load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    RedisBenchmark,
    OwnClient,
}

/// One comparison.
#[derive(Clone, Copy, Debug)]
struct Case {
    tool: Tool,
    operation: Operation,
    durability: Durability,
    depth: usize,
}

impl Case {
    fn name(&self) -> String {
        let operation = match (self.operation, self.durability) {
            (Operation::Set, Durability::Sync) => "SET, sync",
            (Operation::Set, _) => "SET, interval",
            (Operation::Get, _) => "GET",
        };
        let depth =
            if self.depth > 1 { format!(", pipeline {}", self.depth) } else { String::new() };
        let tool = match self.tool {
            Tool::RedisBenchmark => "redis-benchmark",
            Tool::OwnClient => "own client",
        };
        format!("{operation}{depth}, {CONNECTIONS} connections, {tool}")
    }

    fn must(&self) -> Option<f64> {
        if self.tool != Tool::RedisBenchmark {
            return None;
        }
        match (self.operation, self.durability, self.depth) {
            (Operation::Set, Durability::Sync, 1) => Some(1.0),
            (Operation::Set, Durability::Sync, _) => Some(0.6),
            (Operation::Get, _, 1) => Some(0.9),
            (Operation::Get, _, _) => Some(0.6),
            (Operation::Set, _, 1) => Some(0.9),
            (Operation::Set, _, _) => None,
        }
    }
}

/// The comparisons of a pair. Reads do not depend on the durability, so only one pair measures them.
fn cases(durability: Durability) -> Vec<Case> {
    let operations: &[Operation] = match durability {
        Durability::Sync => &[Operation::Set, Operation::Get],
        _ => &[Operation::Set],
    };
    let mut cases = Vec::new();
    for tool in [Tool::RedisBenchmark, Tool::OwnClient] {
        for &operation in operations {
            cases.extend([1, 16].map(|depth| Case { tool, operation, durability, depth }));
        }
    }
    cases
}

/// Runs all cases, one pair of servers after the other.
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

fn run_pair(context: &mut Context, durability: Durability, cases: &[Case]) -> Outcome<()> {
    let keys = context.sized(1_000_000);
    let pair = Pair::start(context, durability, |address| load::fill(address, keys))?;
    for case in cases {
        run_case(context, case, &pair, keys)
            .map_err(|error| format!("{}: {error}", case.name()))?;
    }
    pair.stop()
}

fn run_case(context: &mut Context, case: &Case, pair: &Pair, keys: usize) -> Outcome<()> {
    let pace = match case.must() {
        Some(_) => context.process_bar(),
        None => context.process_shown(),
    };
    let mut sides = [
        Side::new("ours", side(case, pair.ours.address, keys)?),
        Side::new(&pair.peer, side(case, pair.redis.address, keys)?),
    ];
    let measured = interleave(&mut sides, pace)?;
    drop(sides);
    context.report.compare(&case.name(), &measured, case.must());
    Ok(())
}

type Run = Box<dyn FnMut(Duration) -> Outcome<Slice>>;

fn side(case: &Case, address: SocketAddr, keys: usize) -> Outcome<Run> {
    let Case { operation, depth, .. } = *case;
    Ok(match case.tool {
        Tool::RedisBenchmark => {
            let connections = CONNECTIONS as u64;
            let depth = depth as u64;
            Box::new(RedisBenchmark { address, operation, connections, depth, keys }.side())
        }
        Tool::OwnClient => {
            let asker = |number| asker(operation, keys, number);
            let question = Question { depth, reply: operation.reply(), asker: &asker };
            let mut client = Client::to(address, CONNECTIONS, &question)?;
            Box::new(move |slice| client.run(slice))
        }
    })
}

fn asker(operation: Operation, keys: usize, number: usize) -> Asker {
    let mut random = Random::new(number as u64);
    let values = workload::values();
    Box::new(move |out| {
        let key = key(random.below(keys) as u64);
        match operation {
            Operation::Set => put_request(out, &["SET", &key, random.pick(&values)]),
            Operation::Get => put_request(out, &["GET", &key]),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_stand_where_they_were_set() {
        let all = [Durability::Sync, Durability::Interval].into_iter().flat_map(cases);
        let barred: Vec<String> =
            all.filter_map(|case| Some(format!("{} {}", case.name(), case.must()?))).collect();
        let expected = [
            "SET, sync, 64 connections, redis-benchmark 1",
            "SET, sync, pipeline 16, 64 connections, redis-benchmark 0.6",
            "GET, 64 connections, redis-benchmark 0.9",
            "GET, pipeline 16, 64 connections, redis-benchmark 0.6",
            "SET, interval, 64 connections, redis-benchmark 0.9",
        ];
        assert_eq!(barred, expected);
    }

    #[test]
    fn no_two_cases_have_one_name() {
        let all = [Durability::Sync, Durability::Interval].into_iter().flat_map(cases);
        let mut names: Vec<String> = all.map(|case| case.name()).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!((names.len(), count), (12, 12));
    }
}
