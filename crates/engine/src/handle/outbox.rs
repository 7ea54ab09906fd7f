//! The outbox: messages that are written with a transaction, for those who send them.

use crate::handle::cells::{did, unexpected};
use crate::handle::place::Place;
use crate::handle::records::count;
use crate::handle::runs::only_read;
use crate::read::snapshot::Snapshot;
use crate::remote::{AsyncOutbox, Link, wait};
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
    place: Place,
    branch: CompactString,
}

impl Outbox {
    pub(crate) fn on(place: Place, branch: &str) -> Outbox {
        Outbox { place, branch: branch.into() }
    }

    /// The same outbox, to be awaited.
    fn there(&self, link: &Arc<Link>) -> AsyncOutbox {
        AsyncOutbox::on(link.clone(), &self.branch)
    }

    fn receive(&self, command: OutboxCommand) -> Result<Receipt> {
        let transaction = Transaction::on(&self.branch).step(command);
        match &self.place {
            Place::Here(core) => core.sequencer.execute(transaction),
            Place::There(link) => link.execute_and_wait(&transaction),
        }
    }

    fn write(&self, command: OutboxCommand) -> Result<Answer> {
        self.receive(command)?.answers.into_iter().next().ok_or_else(unexpected)
    }

    /// Answers a command that only reads, for those who have commands as values. What retention passed by meanwhile
    /// is looked at again.
    pub fn read(&self, command: OutboxCommand) -> Result<OutboxAnswer> {
        only_read(command.is_read())?;
        let core = match &self.place {
            Place::Here(core) => core,
            Place::There(link) => return wait(self.there(link).read(command)),
        };
        loop {
            match Snapshot::new(core, &self.branch, At::Latest)?.outbox(&command) {
                Err(error) if error.code() == Code::HistoryTrimmed => {}
                answer => return of_outbox(answer?),
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
        number(self.write(put(subject, payload, run)?)?)
    }

    /// Takes messages that wait, the longest waiting first; nobody else gets them while the lease lasts.
    pub fn claim(&self, limit: usize, lease: Duration) -> Result<Vec<Message>> {
        messages(of_outbox(self.write(OutboxCommand::Claim { limit, lease_ms: ms(lease) })?)?)
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
        claimed(self.receive(OutboxCommand::Claim { limit, lease_ms: ms(lease) })?)
    }

    /// Messages of one claim were delivered: they go. Gives how many of them were there. The error `Fenced` says that one
    /// of them was claimed by another since, and then none goes.
    pub fn ack_held(&self, token: Stamp, ids: &[u64]) -> Result<u64> {
        count(self.write(OutboxCommand::ack(ids.to_vec(), Some(token)))?)
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
        failed(self.write(OutboxCommand::fail(id, message, backoff_ms, tries, Some(token)))?)
    }

    /// Messages were delivered: they go. Gives how many of them were there.
    pub fn ack(&self, ids: &[u64]) -> Result<u64> {
        count(self.write(OutboxCommand::Ack { ids: ids.to_vec() })?)
    }

    /// A message could not be delivered: it waits, longer each time, or after so many tries is dead.
    pub fn fail(&self, id: u64, message: &str, backoff: Duration, tries: u32) -> Result<Failed> {
        let (message, backoff_ms) = (message.to_owned(), ms(backoff));
        failed(self.write(OutboxCommand::Fail { id, message, backoff_ms, tries })?)
    }

    /// Dead messages behind one of them, the oldest first.
    pub fn dead(&self, after: u64, limit: usize) -> Result<Vec<Message>> {
        messages(self.read(OutboxCommand::Dead { after, limit })?)
    }

    /// Makes a dead message wait again, with all its tries; says whether it was dead.
    pub fn replay(&self, id: u64) -> Result<bool> {
        did(self.write(OutboxCommand::Replay { id })?)
    }

    /// How it stands.
    pub fn state(&self) -> Result<OutboxState> {
        state(self.read(OutboxCommand::Look)?)
    }
}

/// What a transaction of one claim has claimed.
pub(crate) fn claimed(receipt: Receipt) -> Result<Claimed> {
    let answer = receipt.answers.into_iter().next().ok_or_else(unexpected)?;
    Ok(Claimed { token: receipt.stamp, messages: messages(of_outbox(answer)?)? })
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

/// The number of a message.
pub(crate) fn number(answer: Answer) -> Result<u64> {
    match of_outbox(answer)? {
        OutboxAnswer::Put(id) => Ok(id),
        _ => Err(unexpected()),
    }
}

pub(crate) fn failed(answer: Answer) -> Result<Failed> {
    match of_outbox(answer)? {
        OutboxAnswer::Failed(failed) => Ok(failed),
        _ => Err(unexpected()),
    }
}

pub(crate) fn of_outbox(answer: Answer) -> Result<OutboxAnswer> {
    match answer {
        Answer::Outbox(answer) => Ok(*answer),
        _ => Err(unexpected()),
    }
}

pub(crate) fn messages(answer: OutboxAnswer) -> Result<Vec<Message>> {
    match answer {
        OutboxAnswer::Messages(messages) => Ok(messages),
        _ => Err(unexpected()),
    }
}

pub(crate) fn state(answer: OutboxAnswer) -> Result<OutboxState> {
    match answer {
        OutboxAnswer::State(state) => Ok(state),
        _ => Err(unexpected()),
    }
}
