//! Async client: the outbox of a served database.

use crate::connection_pool::ConnectionPool;
use mainstay_model::build::{millis, outbox_put};
use mainstay_model::wire::{ReadOp, ReadReply};
use mainstay_model::{
    Answer, Claimed, CompactString, Failed, Message, OutboxAnswer, OutboxCommand, OutboxState,
    Result, Stamp, Transaction,
};
use std::sync::Arc;
use std::time::Duration;

/// The outbox of one branch.
#[derive(Clone)]
pub struct AsyncOutbox {
    link: Arc<ConnectionPool>,
    branch: CompactString,
}

impl AsyncOutbox {
    #[doc(hidden)]
    pub fn on(link: Arc<ConnectionPool>, branch: &str) -> AsyncOutbox {
        AsyncOutbox { link, branch: branch.into() }
    }

    #[doc(hidden)]
    pub async fn read(&self, command: OutboxCommand) -> Result<OutboxAnswer> {
        match self.link.look(&self.branch, ReadOp::Outbox(command)).await? {
            ReadReply::Outbox(answer) => Ok(*answer),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Writes a message and returns its number. Messages of the same `run` are delivered one after the
    /// other, in order.
    pub async fn put(
        &self,
        subject: &str,
        payload: impl Into<Vec<u8>>,
        run: Option<&str>,
    ) -> Result<u64> {
        let put = outbox_put(subject, payload, run)?;
        self.link.run(&self.branch, put.into()).await?.into_outbox()?.into_number()
    }

    /// Claims up to `limit` waiting messages, the longest-waiting first. No other caller gets them until
    /// the lease expires.
    pub async fn claim(&self, limit: usize, lease: Duration) -> Result<Vec<Message>> {
        let claim = OutboxCommand::Claim { limit, lease_ms: millis(lease) };
        self.link.run(&self.branch, claim.into()).await?.into_outbox()?.into_messages()
    }

    /// Claims messages as [`AsyncOutbox::claim`] does, and also returns the fencing token of the lease. A call
    /// with a stale token is rejected after another caller has claimed the message.
    pub async fn hold(&self, limit: usize, lease: Duration) -> Result<Claimed> {
        let claim = OutboxCommand::Claim { limit, lease_ms: millis(lease) };
        self.link.execute(&Transaction::on(&self.branch).step(claim)).await?.into_claimed()
    }

    /// Acknowledges delivered messages of one claim, which deletes them. Returns how many of them existed.
    /// If another caller has claimed any of them since, fails with `Fenced` and deletes none.
    pub async fn ack_held(&self, token: Stamp, ids: &[u64]) -> Result<u64> {
        let ack = OutboxCommand::ack(ids.to_vec(), Some(token));
        self.link.run(&self.branch, ack.into()).await?.into_count()
    }

    /// Reports that a message of a claim could not be delivered. Fails with `Fenced` if another caller has
    /// claimed it since.
    pub async fn fail_held(
        &self,
        token: Stamp,
        id: u64,
        message: &str,
        backoff: Duration,
        tries: u32,
    ) -> Result<Failed> {
        let message = message.to_owned();
        let backoff_ms = millis(backoff);
        let fail = OutboxCommand::fail(id, message, backoff_ms, tries, Some(token));
        self.link.run(&self.branch, fail.into()).await?.into_outbox()?.into_failed()
    }

    /// Acknowledges delivered messages, which deletes them. Returns how many of them existed.
    pub async fn ack(&self, ids: &[u64]) -> Result<u64> {
        let ack = OutboxCommand::Ack { ids: ids.to_vec() };
        self.link.run(&self.branch, ack.into()).await?.into_count()
    }

    /// Reports a failed delivery. The message waits with an increasing backoff, or becomes a dead letter
    /// after `tries` attempts.
    pub async fn fail(
        &self,
        id: u64,
        message: &str,
        backoff: Duration,
        tries: u32,
    ) -> Result<Failed> {
        let message = message.to_owned();
        let backoff_ms = millis(backoff);
        let fail = OutboxCommand::Fail { id, message, backoff_ms, tries };
        self.link.run(&self.branch, fail.into()).await?.into_outbox()?.into_failed()
    }

    /// Lists dead letters with a number above `after`, oldest first.
    pub async fn dead(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        self.read(OutboxCommand::Dead { after, limit }).await?.into_messages()
    }

    /// Makes a dead letter wait for delivery again, with all its tries. Returns whether it was dead.
    pub async fn replay(&self, id: u64) -> Result<bool> {
        self.link.run(&self.branch, OutboxCommand::Replay { id }.into()).await?.into_did()
    }

    /// Returns the state of the outbox: the number of pending and of dead messages, the last message
    /// number, and the time when the longest-waiting message is due.
    pub async fn state(&self) -> Result<OutboxState> {
        self.read(OutboxCommand::Look).await?.into_outbox_state()
    }
}
