//! Outbox cases: messages written in a transaction, claimed with a lease, delivered in order within a run.

use crate::TestDb;
use mainstay::{Message, OutboxCommand};
use std::time::Duration;

pub mod branches;
pub mod claim;
pub mod failing;
pub mod order;
pub mod put;
pub mod reopening;
pub mod transactions;

/// Lease of claims in cases.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// First back-off after a failure.
pub(crate) const BACK_OFF: Duration = Duration::from_secs(1);

/// Puts a message with an empty payload.
pub(crate) fn send(w: &TestDb, subject: &str, run: Option<&str>) -> u64 {
    w.db().outbox().put(subject, "", run).unwrap()
}

/// Claims all claimable messages.
pub(crate) fn claim(w: &TestDb) -> Vec<Message> {
    w.db().outbox().claim(1_000, LEASE).unwrap()
}

/// Claims all claimable messages and returns their subjects.
pub(crate) fn claimed(w: &TestDb) -> Vec<String> {
    subjects(&claim(w))
}

pub(crate) fn subjects(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.subject.clone()).collect()
}

/// Waits until every lease has expired. The extra second is needed because timestamps rise a little even
/// while the clock does not move.
pub(crate) fn outlast(w: &TestDb) {
    w.pass(LEASE + Duration::from_secs(1));
}

/// The command that puts a message with an empty payload.
pub(crate) fn put_command(subject: &str) -> OutboxCommand {
    OutboxCommand::Put { subject: subject.to_owned(), payload: Vec::new(), run: None }
}

/// An event with a type that the reducer does not know.
pub(crate) fn noted(run: &str, number: u64) -> mainstay::NewEvent {
    mainstay::NewEvent::new(run, "Noted").with_key(&format!("note-{number}"))
}
