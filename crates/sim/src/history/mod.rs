//! History checking: records the calls of many threads and checks them for strict serializability.
//!
//! ```text
//!   seed ──recorder──> calls with their moments ──┬─ by key ──linear──> an order that a small model agrees with?
//!                      and transactions           └─ all ────serial──> a graph without a cycle?
//! ```
//!
//! The recorder knows nothing of the database's implementation, and the checkers know nothing of the
//! database. They judge requests, responses and times.

pub mod call;
pub mod linear;
pub mod recorder;
pub mod serial;
#[cfg(test)]
mod tests;

use crate::drill::Outcome;
use crate::effort;
use linear::{CallTo, Cell, Model, Record};
use mainstay_conformance::random::Random;
use recorder::{Setting, Taken};
use serial::Fate;
use std::collections::BTreeMap;

/// The number of operations recorded and checked at a time.
const ROUND: u64 = 4_000;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of all requests.
    pub seed: u64,
    /// The least number of operations to check.
    pub operations: u64,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// The number of calls and of transaction steps.
    pub operations: u64,
    /// The number of keys, each checked by itself.
    pub keys: u64,
    /// The number of transactions.
    pub transactions: u64,
    /// The number of transactions that were refused or rolled back.
    pub aborted: u64,
    /// The number of calls concurrent with another one to the same key.
    pub beside: u64,
    /// The number of operations with an unknown outcome.
    pub unknown: u64,
    /// How often a database was reopened.
    pub reopened: u64,
    /// The number of databases.
    pub rounds: u64,
}

/// Records and checks until enough operations are checked. Returns the first violation as an error.
pub fn run(plan: &Plan) -> Outcome<Tally> {
    let mut tally = Tally::default();
    while tally.operations < plan.operations {
        effort::step()?;
        let wanted = ROUND.min(plan.operations - tally.operations);
        round(plan.seed, tally.rounds, wanted, &mut tally)?;
        tally.rounds += 1;
    }
    Ok(tally)
}

/// Records and checks one database.
fn round(seed: u64, number: u64, operations: u64, tally: &mut Tally) -> Outcome<()> {
    let named = |what: String| format!("seed {seed}, round {number}: {what}");
    let mut random = Random::of(&[seed, number]);
    let setting = Setting::choose(&mut random);
    let taken = recorder::record(setting, &mut random, operations).map_err(named)?;
    check(&taken, tally)
        .map_err(|what| format!("seed {seed}, round {number}, {}: {what}", taken.place))
}

/// Checks the recorded history.
fn check(taken: &Taken, tally: &mut Tally) -> Outcome<()> {
    each::<Cell>(&taken.cells, tally)?;
    each::<Record>(&taken.records, tally)?;
    serial::check(&taken.history)?;
    for transaction in &taken.history.transactions {
        tally.transactions += 1;
        tally.aborted += u64::from(transaction.fate == Fate::Aborted);
        tally.unknown += u64::from(transaction.fate == Fate::Unknown);
        tally.operations += transaction.steps.len() as u64;
    }
    tally.reopened += taken.reopened;
    Ok(())
}

/// Checks the calls to each key.
fn each<M: Model>(keys: &BTreeMap<String, Vec<CallTo<M>>>, tally: &mut Tally) -> Outcome<()> {
    for (key, calls) in keys {
        let beside = linear::check::<M>(calls).map_err(|what| format!("`{key}`: {what}"))?;
        tally.keys += 1;
        tally.operations += calls.len() as u64;
        tally.beside += beside;
        tally.unknown += calls.iter().filter(|call| call.answer.is_none()).count() as u64;
    }
    Ok(())
}
