//! Our side: appends by threads and by tickets, and filling a database.

use super::events::{Notes, Producer, Told, check};
use crate::context::Outcome;
use crate::forms::{self, Landing};
use crate::harness::Side;
use crate::runs::append::IN_FLIGHT;
use mainstay::{Answer, Database, Durability, Receipt, RunAnswer, RunCommand, Transaction};

/// Number of threads that submit tickets.
const SUBMITTERS: usize = 2;
/// Number of events per transaction while a database is filled.
const BATCH: usize = 500;

/// One thread per producer, which waits for its answer.
pub fn threads<'d>(database: &'d Database, notes: &Notes, repeats: bool) -> Side<'d> {
    let worker = |number| {
        let runs = database.runs();
        let mut producer = Producer::new(notes, number, repeats);
        move || {
            let (told, fresh) = producer.next();
            Ok(check(fresh, runs.append(told.event())?.persisted)?)
        }
    };
    let mut workers: Vec<_> = (0..IN_FLIGHT).map(worker).collect();
    Side::new("ours", move |slice| forms::threads(&mut workers, 1, slice))
}

/// Two threads that submit without waiting.
pub fn tickets<'d>(database: &'d Database, notes: &Notes, repeats: bool) -> Side<'d> {
    let submitter = |number| {
        let mut producer = Producer::new(notes, number, repeats);
        move |landing: Landing| {
            let (told, fresh) = producer.next();
            let transaction = transaction(&told);
            database.submit_with(transaction, move |result| landing.answer(seen(result, fresh)));
            Ok(())
        }
    };
    let mut submitters: Vec<_> = (0..SUBMITTERS).map(submitter).collect();
    Side::new("ours", move |slice| forms::tickets(&mut submitters, IN_FLIGHT / SUBMITTERS, slice))
}

/// The transaction that appends one event.
pub fn transaction(told: &Told) -> Transaction {
    Transaction::new().step(append(told))
}

fn append(told: &Told) -> RunCommand {
    RunCommand::Append { event: Box::new(told.event()), expected: None }
}

/// Checks the answer of an append.
pub fn seen(result: mainstay::Result<Receipt>, fresh: bool) -> Result<(), String> {
    let receipt = result.map_err(|error| error.to_string())?;
    let Some(Answer::Run(answer)) = receipt.answers.first() else {
        return Err("an append was answered by something else".to_owned());
    };
    match &**answer {
        RunAnswer::Appended(appended) => Ok(check(fresh, appended.persisted)?),
        other => Err(format!("an append was answered by {other:?}")),
    }
}

/// Writes events, many per transaction.
pub fn fill(database: &Database, events: impl Iterator<Item = Told>) -> Outcome<()> {
    let mut events = events.peekable();
    while events.peek().is_some() {
        let empty = Transaction::new().durability(Durability::Memory);
        let batch = events.by_ref().take(BATCH);
        database.execute(batch.fold(empty, |batch, told| batch.step(append(&told))))?;
    }
    database.sync()?;
    Ok(())
}
