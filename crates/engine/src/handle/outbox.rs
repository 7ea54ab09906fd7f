//! The outbox: messages that are written with a transaction, for those who send them.

use crate::handle::backend::Backend;
use crate::handle::runs::only_read;
use crate::read::snapshot::Snapshot;
use crate::remote::{AsyncOutbox, ConnectionPool, wait};
use mainstay_model::{
    Answer, At, Claimed, Code, CompactString, Failed, Message, Name, OutboxAnswer, OutboxCommand,
    OutboxState, Receipt, Result, Stamp, Transaction,
};
use std::sync::Arc;
use std::time::Duration;

/// The outbox of a branch.
///
/// ```
/// use mainstay::{Database, NewEvent, OutboxCommand, RunCommand, Transaction};
/// use std::time::Duration;
/// let db = Database::memory()?;
/// // The event and the message about it: both or none.
/// let event = Box::new(NewEvent::new("order-7", "RunCompleted").plan("1"));
/// let (subject, payload) = ("orders.done".to_owned(), b"order-7".to_vec());
/// let transaction = Transaction::new()
///     .step(RunCommand::Append { event, expected: None })
///     .step(OutboxCommand::Put { subject, payload, run: None });
/// db.execute(transaction)?;
/// // Whoever sends it claims it, sends it and says so.
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

    /// The same outbox, to be awaited.
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

    /// Answers a command that only reads, for those who have commands as values. What retention passed by meanwhile
    /// is looked at again.
    pub fn read(&self, command: OutboxCommand) -> Result<OutboxAnswer> {
        only_read(command.is_read())?;
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

    /// Writes a message; gives its number. Messages of one run are sent one behind the other.
    pub fn put(
        &self,
        subject: &str,
        payload: impl Into<Vec<u8>>,
        run: Option<&str>,
    ) -> Result<u64> {
        self.write(put(subject, payload, run)?)?.into_outbox()?.into_number()
    }

    /// Takes messages that wait, the longest waiting first; nobody else gets them while the lease lasts.
    pub fn claim(&self, limit: usize, lease: Duration) -> Result<Vec<Message>> {
        self.write(OutboxCommand::Claim { limit, lease_ms: ms(lease) })?
            .into_outbox()?
            .into_messages()
    }

    /// The same, with the token of the lease: who names it is never taken for somebody who claimed a message later.
    ///
    /// ```
    /// use mainstay::{Code, Database};
    /// use std::time::Duration;
    /// let outbox = Database::memory()?.outbox();
    /// let id = outbox.put("orders.done", "order-7", None)?;
    /// let held = outbox.hold(10, Duration::from_secs(30))?;
    /// // Whoever had it before says so in vain.
    /// assert_eq!(outbox.ack_held(held.token - 1, &[id]).unwrap_err().code(), Code::Fenced);
    /// assert_eq!(outbox.ack_held(held.token, &[id])?, 1);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn hold(&self, limit: usize, lease: Duration) -> Result<Claimed> {
        self.receive(OutboxCommand::Claim { limit, lease_ms: ms(lease) })?.into_claimed()
    }

    /// Messages of one claim were delivered: they go. Gives how many of them were there. The error `Fenced` says that one
    /// of them was claimed by another since, and then none goes.
    pub fn ack_held(&self, token: Stamp, ids: &[u64]) -> Result<u64> {
        self.write(OutboxCommand::ack(ids.to_vec(), Some(token)))?.into_count()
    }

    /// A message of a claim could not be delivered. The error `Fenced` says that it was claimed by another since.
    pub fn fail_held(
        &self,
        token: Stamp,
        id: u64,
        message: &str,
        backoff: Duration,
        tries: u32,
    ) -> Result<Failed> {
        let (message, backoff_ms) = (message.to_owned(), ms(backoff));
        self.write(OutboxCommand::fail(id, message, backoff_ms, tries, Some(token)))?
            .into_outbox()?
            .into_failed()
    }

    /// Messages were delivered: they go. Gives how many of them were there.
    pub fn ack(&self, ids: &[u64]) -> Result<u64> {
        self.write(OutboxCommand::Ack { ids: ids.to_vec() })?.into_count()
    }

    /// A message could not be delivered: it waits, longer each time, or after so many tries is dead.
    pub fn fail(&self, id: u64, message: &str, backoff: Duration, tries: u32) -> Result<Failed> {
        let (message, backoff_ms) = (message.to_owned(), ms(backoff));
        self.write(OutboxCommand::Fail { id, message, backoff_ms, tries })?
            .into_outbox()?
            .into_failed()
    }

    /// Dead messages behind one of them, the oldest first.
    pub fn dead(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        self.read(OutboxCommand::Dead { after, limit })?.into_messages()
    }

    /// Makes a dead message wait again, with all its tries; says whether it was dead.
    pub fn replay(&self, id: u64) -> Result<bool> {
        self.write(OutboxCommand::Replay { id })?.into_did()
    }

    /// How it stands.
    pub fn state(&self) -> Result<OutboxState> {
        self.read(OutboxCommand::Look)?.into_outbox_state()
    }
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The command that writes a message.
pub(crate) fn put(
    subject: &str,
    payload: impl Into<Vec<u8>>,
    run: Option<&str>,
) -> Result<OutboxCommand> {
    let run = run.map(Name::new).transpose()?;
    Ok(OutboxCommand::Put { subject: subject.to_owned(), payload: payload.into(), run })
}
