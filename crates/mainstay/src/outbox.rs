//! Transactional outbox: messages that are written atomically with a transaction and delivered later.

use crate::backend::Backend;
use mainstay_client::{AsyncOutbox, ConnectionPool, wait};
use mainstay_engine::read::snapshot::Snapshot;
use mainstay_model::build::{check_read, millis, outbox_put};
use mainstay_model::{
    Answer, At, Claimed, Code, CompactString, Failed, Message, OutboxAnswer, OutboxCommand,
    OutboxState, Receipt, Result, Stamp, Transaction,
};
use std::sync::Arc;
use std::time::Duration;

/// The outbox of one branch.
///
/// ```
/// use mainstay::{Database, NewEvent, OutboxCommand, RunCommand, Transaction};
/// use std::time::Duration;
/// let db = Database::memory()?;
/// // The event and its message are written together, or not at all.
/// let event = Box::new(NewEvent::new("order-7", "RunCompleted").plan("1"));
/// let (subject, payload) = ("orders.done".to_owned(), b"order-7".to_vec());
/// let transaction = Transaction::new()
///     .step(RunCommand::Append { event, expected: None })
///     .step(OutboxCommand::Put { subject, payload, run: None });
/// db.execute(transaction)?;
/// // The sender claims the message, delivers it and acknowledges it.
/// let claimed = db.outbox().claim(10, Duration::from_secs(30))?;
/// assert_eq!((claimed.len(), claimed[0].subject.as_str()), (1, "orders.done"));
/// assert!(db.outbox().claim(10, Duration::from_secs(30))?.is_empty());
/// assert_eq!(db.outbox().ack(&[claimed[0].id])?, 1);
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Outbox {
    place: Backend,
    branch: CompactString,
}

impl Outbox {
    pub(crate) fn on(place: Backend, branch: &str) -> Outbox {
        Outbox { place, branch: branch.into() }
    }

    /// Returns the async client API for the same outbox.
    fn there(&self, link: &Arc<ConnectionPool>) -> AsyncOutbox {
        AsyncOutbox::on(link.clone(), &self.branch)
    }

    fn receive(&self, command: OutboxCommand) -> Result<Receipt> {
        let transaction = Transaction::on(&self.branch).step(command);
        match &self.place {
            Backend::Local(core) => core.sequencer.execute(transaction),
            Backend::Remote(link) => link.execute_and_wait(&transaction),
        }
    }

    fn write(&self, command: OutboxCommand) -> Result<Answer> {
        self.receive(command)?.into_first()
    }

    /// Executes a read-only command, for callers that build commands as values. Fails with
    /// `InvalidArgument` if the command writes. Retries at a newer snapshot if retention trimmed the one it
    /// read.
    pub fn read(&self, command: OutboxCommand) -> Result<OutboxAnswer> {
        check_read(command.is_read())?;
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => return wait(self.there(link).read(command)),
        };
        loop {
            match Snapshot::new(core, &self.branch, At::Latest)?.outbox(&command) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                answer => return answer?.into_outbox(),
            }
        }
    }

    /// Writes a message and returns its number. Messages of the same `run` are delivered one after the
    /// other, in order.
    pub fn put(
        &self,
        subject: &str,
        payload: impl Into<Vec<u8>>,
        run: Option<&str>,
    ) -> Result<u64> {
        self.write(outbox_put(subject, payload, run)?)?.into_outbox()?.into_number()
    }

    /// Claims up to `limit` waiting messages, the longest-waiting first. No other caller gets them until
    /// the lease expires.
    pub fn claim(&self, limit: usize, lease: Duration) -> Result<Vec<Message>> {
        self.write(OutboxCommand::Claim { limit, lease_ms: millis(lease) })?
            .into_outbox()?
            .into_messages()
    }

    /// Claims messages as [`Outbox::claim`] does, and also returns the fencing token of the lease. A call
    /// with a stale token is rejected after another caller has claimed the message.
    ///
    /// ```
    /// use mainstay::{Code, Database};
    /// use std::time::Duration;
    /// let outbox = Database::memory()?.outbox();
    /// let id = outbox.put("orders.done", "order-7", None)?;
    /// let held = outbox.hold(10, Duration::from_secs(30))?;
    /// // A caller with an older token is rejected.
    /// assert_eq!(outbox.ack_held(held.token - 1, &[id]).unwrap_err().code(), Code::Fenced);
    /// assert_eq!(outbox.ack_held(held.token, &[id])?, 1);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn hold(&self, limit: usize, lease: Duration) -> Result<Claimed> {
        self.receive(OutboxCommand::Claim { limit, lease_ms: millis(lease) })?.into_claimed()
    }

    /// Acknowledges delivered messages of one claim, which deletes them. Returns how many of them existed.
    /// If another caller has claimed any of them since, fails with `Fenced` and deletes none.
    pub fn ack_held(&self, token: Stamp, ids: &[u64]) -> Result<u64> {
        self.write(OutboxCommand::ack(ids.to_vec(), Some(token)))?.into_count()
    }

    /// Reports that a message of a claim could not be delivered. Fails with `Fenced` if another caller has
    /// claimed it since.
    pub fn fail_held(
        &self,
        token: Stamp,
        id: u64,
        message: &str,
        backoff: Duration,
        tries: u32,
    ) -> Result<Failed> {
        let message = message.to_owned();
        let backoff_ms = millis(backoff);
        self.write(OutboxCommand::fail(id, message, backoff_ms, tries, Some(token)))?
            .into_outbox()?
            .into_failed()
    }

    /// Acknowledges delivered messages, which deletes them. Returns how many of them existed.
    pub fn ack(&self, ids: &[u64]) -> Result<u64> {
        self.write(OutboxCommand::Ack { ids: ids.to_vec() })?.into_count()
    }

    /// Reports a failed delivery. The message waits with an increasing backoff, or becomes a dead letter
    /// after `tries` attempts.
    pub fn fail(&self, id: u64, message: &str, backoff: Duration, tries: u32) -> Result<Failed> {
        let message = message.to_owned();
        let backoff_ms = millis(backoff);
        self.write(OutboxCommand::Fail { id, message, backoff_ms, tries })?
            .into_outbox()?
            .into_failed()
    }

    /// Lists dead letters with a number above `after`, oldest first.
    pub fn dead(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        self.read(OutboxCommand::Dead { after, limit })?.into_messages()
    }

    /// Makes a dead letter wait for delivery again, with all its tries. Returns whether it was dead.
    pub fn replay(&self, id: u64) -> Result<bool> {
        self.write(OutboxCommand::Replay { id })?.into_did()
    }

    /// Returns the state of the outbox: the number of pending and of dead messages, the last message
    /// number, and the time when the longest-waiting message is due.
    pub fn state(&self) -> Result<OutboxState> {
        self.read(OutboxCommand::Look)?.into_outbox_state()
    }
}
