//! The outbox: messages written with a transaction, claimed with a lease, in order within a run.

use crate::World;
use mainstay::{Message, OutboxCommand};
use std::time::Duration;

pub mod branches;
pub mod claim;
pub mod failing;
pub mod order;
pub mod put;
pub mod reopening;
pub mod transactions;

/// How long claims last.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// How long a message waits that failed once.
pub(crate) const BACK_OFF: Duration = Duration::from_secs(1);

/// Puts a message that says nothing but its subject.
pub(crate) fn send(w: &World, subject: &str, run: Option<&str>) -> u64 {
    w.db().outbox().put(subject, "", run).unwrap()
}

/// Claims whatever can be.
pub(crate) fn claim(w: &World) -> Vec<Message> {
    w.db().outbox().claim(1_000, LEASE).unwrap()
}

/// What a claim of everything gives, by subject.
pub(crate) fn claimed(w: &World) -> Vec<String> {
    subjects(&claim(w))
}

/// The subjects of messages.
pub(crate) fn subjects(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.subject.clone()).collect()
}

/// Lets every lease be over: stamps rise a little even while the clock stands still.
pub(crate) fn outlast(w: &World) {
    w.pass(LEASE + Duration::from_secs(1));
}

/// The command that puts a message.
pub(crate) fn put_command(subject: &str) -> OutboxCommand {
    OutboxCommand::Put { subject: subject.to_owned(), payload: Vec::new(), run: None }
}

/// An event that the reducer does not know.
pub(crate) fn noted(run: &str, number: u64) -> mainstay::NewEvent {
    mainstay::NewEvent::new(run, "Noted").with_key(&format!("note-{number}"))
}
