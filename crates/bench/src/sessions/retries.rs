//! Retries: an executed request is answered from its stored response, compared with the read of a cached
//! cell.

use crate::context::{Context, Outcome};
use crate::forms::threads;
use crate::harness::{Side, interleave};
use crate::workload::{self, Random};
use mainstay::{
    CellCommand, Database, Name, Options, Receipt, Session, SessionOptions, Transaction,
};
use std::hint::black_box;

/// Number of sessions.
const SESSIONS: usize = 1_000;
/// Number of responses per session.
pub const RESPONSES: u64 = 10;
/// One of this many operations is timed.
const SAMPLE: u64 = 64;
/// Upper limit for the cost of a retry, relative to a read.
const LIMIT: f64 = 3.0;

/// Runs the case.
pub fn run(context: &mut Context) -> Outcome<()> {
    let case = "retry, answered from what is kept, 1 thread";
    if !context.wants(case) {
        return Ok(());
    }
    let directory = context.directory("retries")?;
    let database = Options::new().open(directory.path().join("ours"))?;
    let sessions = filled(&database)?;
    // As many cells as responses, and as small.
    let names = workload::names(SESSIONS * RESPONSES as usize);
    let cells = database.cells();
    let mut random = Random::new(1);
    for (n, name) in names.iter().enumerate() {
        cells.set(name, n as i64)?;
    }
    let mut third = Random::new(3);
    let sent = adding()?;
    let mut retry = [|| again(&sessions, &mut random, |it, number| it.retry(number, 1, &sent))];
    // For callers that build the transaction again for each retry.
    let mut anew =
        [|| again(&sessions, &mut third, |it, number| it.execute(number, 1, sent.clone()))];
    let mut other = Random::new(2);
    let mut get = [|| {
        black_box(cells.get(other.pick(&names))?.ok_or("a cell is not there")?);
        Ok(())
    }];
    let mut sides = [
        Side::new("retry", |slice| threads(&mut retry, SAMPLE, slice)),
        Side::new("get of a cached cell", |slice| threads(&mut get, SAMPLE, slice)),
        Side::new("retry with a copy", |slice| threads(&mut anew, SAMPLE, slice)),
    ];
    let measured = interleave(&mut sides, context.processor_bar())?;
    drop(sides);
    context.report.compare(case, &measured, Some(1.0 / LIMIT));
    Ok(())
}

/// The transaction of the requests: one addition each.
fn adding() -> Outcome<Transaction> {
    let add = CellCommand::Incr { name: Name::new("sum")?, by: 1.into() };
    Ok(Transaction::new().step(add))
}

/// Sessions whose requests were all answered, and none acknowledged.
fn filled(database: &Database) -> Outcome<Vec<Session>> {
    let mut sessions = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        let session = database.sessions().open(SessionOptions::new())?;
        for number in 1..=RESPONSES {
            session.execute(number, 1, adding()?)?;
        }
        sessions.push(session);
    }
    Ok(sessions)
}

/// Sends a request again.
fn again(
    sessions: &[Session],
    random: &mut Random,
    send: impl Fn(&Session, u64) -> mainstay::Result<Receipt>,
) -> Outcome<()> {
    let session = &sessions[random.below(sessions.len())];
    let number = 1 + random.below(RESPONSES as usize) as u64;
    if black_box(send(session, number)?).repeated {
        Ok(())
    } else {
        Err("it was executed again".into())
    }
}
