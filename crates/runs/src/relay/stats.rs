//! Metrics of a relay.

use super::ack_buffer::{AckBuffer, ClaimReply};
use mainstay::OutboxState;
use serde::Serialize;

/// The totals of a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelayStats {
    /// The number of messages claimed.
    pub claimed: u64,
    /// The number of messages delivered.
    pub delivered: u64,
    /// The number of failed tries.
    pub failed: u64,
    /// The number of messages that became dead.
    pub dead: u64,
    /// The number of messages whose lease expired before the relay settled them, and which another relay had
    /// claimed.
    pub fenced: u64,
    /// The outbox's counts at the last transaction.
    pub outbox: OutboxState,
    /// How long the oldest pending message had been due at the last transaction, in microseconds; `None` if
    /// no message was due.
    pub oldest_pending_us: Option<u64>,
    /// The number of failed transactions.
    pub errors: u64,
    /// The error of the last failed try or transaction.
    pub last_error: Option<String>,
}

impl RelayStats {
    pub(super) fn add_reply(&mut self, reply: &ClaimReply) {
        self.claimed += reply.messages.len() as u64;
        self.dead += reply.dead;
        self.fenced += reply.fenced;
        self.outbox = reply.state;
        let due = reply.state.oldest_due.filter(|due| *due <= reply.now);
        self.oldest_pending_us = due.map(|due| reply.now - due);
    }

    pub(super) fn add_batch(&mut self, acks: &AckBuffer) {
        self.delivered += acks.delivered.len() as u64;
        self.failed += acks.failed.len() as u64;
        if let Some((_, error)) = acks.failed.last() {
            self.last_error = Some(error.to_string());
        }
    }
}
