//! Delivery results that still have to be written to the outbox.

use super::RelaySettings;
use mainstay::{
    Answer, Code, Error, Failed, Message, OutboxAnswer, OutboxCommand, OutboxState, Receipt,
    Result, Stamp, Transaction,
};
use std::time::Duration;

/// The results of a batch.
#[derive(Default)]
pub(super) struct AckBuffer {
    /// The fencing token of the batch's lease.
    pub token: Stamp,
    pub delivered: Vec<u64>,
    pub failed: Vec<(u64, Error)>,
}

/// The outbox's answer.
#[derive(Default)]
pub(super) struct ClaimReply {
    pub messages: Vec<Message>,
    /// The number of messages that another relay has claimed since, and which that relay settles.
    pub fenced: u64,
    /// The number of failed messages that are dead now.
    pub dead: u64,
    pub state: OutboxState,
    /// The transaction's timestamp.
    pub now: Stamp,
    /// The time until the next message can be claimed.
    pub due_in: Option<Duration>,
}

impl AckBuffer {
    /// The empty results of a batch with this token.
    pub fn of(token: Stamp) -> AckBuffer {
        AckBuffer { token, ..AckBuffer::default() }
    }

    pub fn add(&mut self, id: u64, delivered: Result<()>) {
        match delivered {
            Ok(()) => self.delivered.push(id),
            Err(error) => self.failed.push((id, error)),
        }
    }

    /// Marks all delivered messages as failed, so that they are delivered again.
    pub fn fail_all(&mut self, error: &Error) {
        let delivered = std::mem::take(&mut self.delivered);
        self.failed.extend(delivered.into_iter().map(|id| (id, error.clone())));
    }

    /// Builds the transaction that settles the batch, claims up to `batch` messages and reads the counts.
    pub fn transaction(&self, settings: &RelaySettings, batch: Option<usize>) -> Transaction {
        let mut transaction = Transaction::on(&settings.branch);
        let token = Some(self.token);
        // One command per message, each allowed to fail: a fenced message must not affect the others.
        for id in &self.delivered {
            transaction = transaction.attempt(OutboxCommand::ack(vec![*id], token));
        }
        let RelaySettings { backoff_ms, tries, lease_ms, .. } = *settings;
        for (id, error) in &self.failed {
            let fail = OutboxCommand::fail(*id, error.to_string(), backoff_ms, tries, token);
            transaction = transaction.attempt(fail);
        }
        if let Some(limit) = batch {
            transaction = transaction.step(OutboxCommand::Claim { limit, lease_ms });
        }
        transaction.step(OutboxCommand::Look)
    }
}

/// Reads the answers of such a transaction.
pub(super) fn decode_reply(receipt: Receipt) -> Result<ClaimReply> {
    let mut reply = ClaimReply { now: receipt.stamp, ..ClaimReply::default() };
    for answer in receipt.answers {
        match answer {
            Answer::Count(_) => {}
            Answer::Failed(error) if error.code() == Code::Fenced => reply.fenced += 1,
            Answer::Failed(error) => return Err(error),
            Answer::Outbox(answer) => reply.add_answer(*answer)?,
            _ => return Err(unexpected_answer()),
        }
    }
    let due = reply.state.oldest_due;
    reply.due_in = due.map(|due| Duration::from_micros(due.saturating_sub(reply.now)));
    Ok(reply)
}

impl ClaimReply {
    fn add_answer(&mut self, answer: OutboxAnswer) -> Result<()> {
        match answer {
            OutboxAnswer::Messages(messages) => self.messages = messages,
            OutboxAnswer::Failed(failed) => self.dead += u64::from(failed == Failed::Dead),
            OutboxAnswer::State(state) => self.state = state,
            _ => return Err(unexpected_answer()),
        }
        Ok(())
    }
}

#[cold]
fn unexpected_answer() -> Error {
    let message = "the outbox answered something else than was asked: are both of one version?";
    Error::new(Code::Unsupported, message)
}
