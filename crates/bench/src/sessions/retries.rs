//! Retries: a request that was executed is answered from what is kept, beside the read of a cached cell.

use super::memory::{RESPONSES, SESSIONS, filled};
use crate::context::{Context, Outcome};
use crate::forms::threads;
use crate::harness::{Side, interleave};
use crate::workload::{self, Random};
use mainstay::{CellCommand, Name, Options, Session, Transaction};
use std::hint::black_box;

/// The clock is read around one of so many.
const SAMPLE: u64 = 64;
/// A retry may cost so much of a read.
const LIMIT: f64 = 3.0;

/// Runs the case.
pub fn run(context: &mut Context) -> Outcome<()> {
    let case = "retry, answered from what is kept, 1 thread";
    if !context.wants(case) {
        return Ok(());
    }
    let directory = context.directory("retries")?;
    let database = Options::new().open(directory.path().join("ours"))?;
    let sessions = filled(&database, adding)?;
    // As many cells as there are responses, as small.
    let names = workload::names(SESSIONS * RESPONSES as usize);
    let (cells, mut random) = (database.cells(), Random::new(1));
    for (n, name) in names.iter().enumerate() {
        cells.set(name, n as i64)?;
    }
    let mut bare = Random::new(3);
    let kept = adding(0)?;
    let mut retry = [|| send(&sessions, &mut random, kept.clone())];
    // What the number alone costs: the transaction is not looked at.
    let mut empty = [|| send(&sessions, &mut bare, Transaction::new())];
    let mut other = Random::new(2);
    let mut get = [|| {
        black_box(cells.get(other.pick(&names))?.ok_or("a cell is not there")?);
        Ok(())
    }];
    let mut sides = [
        Side::new("retry", |slice| threads(&mut retry, SAMPLE, slice)),
        Side::new("get of a cached cell", |slice| threads(&mut get, SAMPLE, slice)),
        Side::new("retry of nothing", |slice| threads(&mut empty, SAMPLE, slice)),
    ];
    let measured = interleave(&mut sides, context.processor_bar())?;
    drop(sides);
    context.report.compare(case, &measured, Some(1.0 / LIMIT));
    Ok(())
}

/// What the requests did: one addition each.
fn adding(_: u64) -> Outcome<Transaction> {
    let add = CellCommand::Incr { name: Name::new("sum")?, by: 1.into() };
    Ok(Transaction::new().step(add))
}

/// Sends a request again.
fn send(sessions: &[Session], random: &mut Random, transaction: Transaction) -> Outcome<()> {
    let session = &sessions[random.below(sessions.len())];
    let number = 1 + random.below(RESPONSES as usize) as u64;
    match black_box(session.execute(number, 1, transaction)?).repeated {
        true => Ok(()),
        false => Err("it was executed again".into()),
    }
}
