//! Outbox load: messages are put, claimed and acknowledged.

use super::{Desk, Hand, agree, told};
use crate::drill::Outcome;
use mainstay::{Database, Name, OutboxCommand, Result, Transaction};
use std::time::Duration;

/// The number of messages claimed at once.
const CLAIM: usize = 64;
/// A lease longer than any delivery takes.
const LEASE: Duration = Duration::from_secs(3600);

/// The acknowledged operations of one worker.
#[derive(Default)]
pub(super) struct Outbox {
    put: u64,
    acknowledged: u64,
}

/// Returns the command that puts a message. Some messages belong to a run, and are delivered one after
/// the other.
pub(super) fn message(desk: &mut Desk) -> Result<OutboxCommand> {
    let run = if desk.random.chance(25) {
        Some(Name::new(&format!("post/{}", desk.number))?)
    } else {
        None
    };
    let payload = desk.text().into_bytes();
    Ok(OutboxCommand::Put { subject: "told".to_owned(), payload, run })
}

impl Outbox {
    pub fn step(&mut self, desk: &mut Desk) -> Result<()> {
        if desk.random.chance(50) { self.put(desk) } else { self.deliver(desk) }
    }

    fn put(&mut self, desk: &mut Desk) -> Result<()> {
        let message = message(desk)?;
        desk.commit(Transaction::new().step(message))?;
        self.put += 1;
        Ok(())
    }

    fn deliver(&mut self, desk: &mut Desk) -> Result<()> {
        let held = desk.db.outbox().hold(CLAIM, LEASE)?;
        let ids: Vec<u64> = held.messages.iter().map(|message| message.id).collect();
        if !ids.is_empty() {
            self.acknowledged += desk.db.outbox().ack_held(held.token, &ids)?;
        }
        Ok(())
    }
}

/// Checks that the messages that were put and not acknowledged are pending.
pub(super) fn check(db: &Database, hands: &[Hand]) -> Outcome<()> {
    let state = db.outbox().state().map_err(told)?;
    let put: u64 = hands.iter().map(|hand| hand.outbox.put + hand.transfers.done()).sum();
    let acknowledged: u64 = hands.iter().map(|hand| hand.outbox.acknowledged).sum();
    agree("messages that were put", put, state.last_id)?;
    agree("messages that wait", put - acknowledged, state.pending)
}
