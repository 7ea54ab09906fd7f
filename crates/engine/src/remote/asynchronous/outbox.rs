//! The outbox of a served database.

use crate::handle::outbox::{ms, put};
use crate::remote::connection_pool::ConnectionPool;
use crate::wire::{ReadOp, ReadReply};
use mainstay_model::{
    Answer, Claimed, CompactString, Failed, Message, OutboxAnswer, OutboxCommand, OutboxState,
    Result, Stamp, Transaction,
};
use std::sync::Arc;
use std::time::Duration;

/// The outbox of a branch.
#[derive(Clone)]
pub struct AsyncOutbox {
    link: Arc<ConnectionPool>,
    branch: CompactString,
}

impl AsyncOutbox {
    pub(crate) fn on(link: Arc<ConnectionPool>, branch: &str) -> AsyncOutbox {
        AsyncOutbox { link, branch: branch.into() }
    }

    pub(crate) async fn read(&self, command: OutboxCommand) -> Result<OutboxAnswer> {
        match self.link.look(&self.branch, ReadOp::Outbox(command)).await? {
            ReadReply::Outbox(answer) => Ok(*answer),
            _ => Err(Answer::mismatch()),
        }
    }

    /// Writes a message; gives its number.
    pub async fn put(
        &self,
        subject: &str,
        payload: impl Into<Vec<u8>>,
        run: Option<&str>,
    ) -> Result<u64> {
        let put = put(subject, payload, run)?;
        self.link.run(&self.branch, put.into()).await?.into_outbox()?.into_number()
    }

    /// Takes messages that wait, the longest waiting first.
    pub async fn claim(&self, limit: usize, lease: Duration) -> Result<Vec<Message>> {
        let claim = OutboxCommand::Claim { limit, lease_ms: ms(lease) };
        self.link.run(&self.branch, claim.into()).await?.into_outbox()?.into_messages()
    }

    /// The same, with the token of the lease.
    pub async fn hold(&self, limit: usize, lease: Duration) -> Result<Claimed> {
        let claim = OutboxCommand::Claim { limit, lease_ms: ms(lease) };
        self.link.execute(&Transaction::on(&self.branch).step(claim)).await?.into_claimed()
    }

    /// Messages of one claim were delivered: they go; `Fenced` where one of them was claimed by another since.
    pub async fn ack_held(&self, token: Stamp, ids: &[u64]) -> Result<u64> {
        let ack = OutboxCommand::ack(ids.to_vec(), Some(token));
        self.link.run(&self.branch, ack.into()).await?.into_count()
    }

    /// A message of a claim could not be delivered; `Fenced` where it was claimed by another since.
    pub async fn fail_held(
        &self,
        token: Stamp,
        id: u64,
        message: &str,
        backoff: Duration,
        tries: u32,
    ) -> Result<Failed> {
        let (message, backoff_ms) = (message.to_owned(), ms(backoff));
        let fail = OutboxCommand::fail(id, message, backoff_ms, tries, Some(token));
        self.link.run(&self.branch, fail.into()).await?.into_outbox()?.into_failed()
    }

    /// Messages were delivered: they go. Gives how many of them were there.
    pub async fn ack(&self, ids: &[u64]) -> Result<u64> {
        let ack = OutboxCommand::Ack { ids: ids.to_vec() };
        self.link.run(&self.branch, ack.into()).await?.into_count()
    }

    /// A message could not be delivered: it waits, or is dead.
    pub async fn fail(
        &self,
        id: u64,
        message: &str,
        backoff: Duration,
        tries: u32,
    ) -> Result<Failed> {
        let (message, backoff_ms) = (message.to_owned(), ms(backoff));
        let fail = OutboxCommand::Fail { id, message, backoff_ms, tries };
        self.link.run(&self.branch, fail.into()).await?.into_outbox()?.into_failed()
    }

    /// Dead messages behind one of them, the oldest first.
    pub async fn dead(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        self.read(OutboxCommand::Dead { after, limit }).await?.into_messages()
    }

    /// Makes a dead message wait again; says whether it was dead.
    pub async fn replay(&self, id: u64) -> Result<bool> {
        self.link.run(&self.branch, OutboxCommand::Replay { id }.into()).await?.into_did()
    }

    /// How it stands.
    pub async fn state(&self) -> Result<OutboxState> {
        self.read(OutboxCommand::Look).await?.into_outbox_state()
    }
}
