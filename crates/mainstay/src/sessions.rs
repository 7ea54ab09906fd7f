//! Exactly-once sessions: handles for clients with numbered requests, and for callers that send them
//! messages.

use crate::backend::Backend;
use mainstay_model::{
    Answer, Name, Receipt, Result, SessionCommand, SessionInfo, SessionOptions, SessionPage,
    SessionRequest, Stamp, Transaction,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All sessions of a database. A session belongs to the whole database; each of its requests names a
/// branch.
///
/// ```
/// use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
/// let db = Database::memory()?;
/// let session = db.sessions().open(SessionOptions::new())?;
/// let add = || CellCommand::Incr { name: Name::new("visits").unwrap(), by: 1.into() };
/// let first = session.execute(1, 1, Transaction::new().step(add()))?;
/// // The answer was lost, so the client retries: it gets the same answer, and nothing is added.
/// let again = session.execute(1, 1, Transaction::new().step(add()))?;
/// assert_eq!((&first.answers, again.repeated), (&again.answers, true));
/// assert_eq!(db.cells().get("visits")?, Some(1.into()));
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Sessions {
    place: Backend,
}

impl Sessions {
    pub(crate) fn on(place: Backend) -> Sessions {
        Sessions { place }
    }

    /// Opens a session, or reopens the one of this name. Its lease restarts.
    pub fn open(&self, options: SessionOptions) -> Result<Session> {
        let (info, created) = self.run(options.command()?)?.into_session()?.into_opened()?;
        Ok(Session::found(&self.place, info, created))
    }

    /// Sends a message to the client of a session. Returns its number, or `None` if no such session exists.
    /// A message can also be part of any transaction: [`SessionCommand::Send`].
    ///
    /// ```
    /// use mainstay::{Database, SessionOptions};
    /// let db = Database::memory()?;
    /// let session = db.sessions().open(SessionOptions::new().name("worker-1"))?;
    /// assert_eq!(db.sessions().send("worker-1", "stop")?, Some(1));
    /// assert_eq!(db.sessions().send("worker-2", "stop")?, None);
    /// // The client reads it, processes it and acknowledges it.
    /// assert_eq!(session.pending(0, 10)?, [(1, b"stop".to_vec())]);
    /// assert_eq!(session.acknowledge(1)?, 1);
    /// assert!(session.pending(0, 10)?.is_empty());
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn send(&self, session: &str, payload: impl Into<Vec<u8>>) -> Result<Option<u64>> {
        let session = Name::new(session)?;
        let payload = payload.into();
        self.run(SessionCommand::Send { session, payload })?.into_session()?.into_sent()
    }

    /// Returns messages that were sent strictly before `sent_before` and are not acknowledged, oldest
    /// first. The caller redelivers them, so their send time is set to now.
    pub fn requests_for_retry(
        &self,
        sent_before: Stamp,
        limit: usize,
    ) -> Result<Vec<(Name, u64, Vec<u8>)>> {
        self.run(SessionCommand::Retry { sent_before, limit })?.into_session()?.into_retried()
    }

    /// Returns whether any unacknowledged message was sent strictly before `sent_before`. Takes constant
    /// time.
    pub fn has_pending(&self, sent_before: Stamp) -> Result<bool> {
        match &self.place {
            Backend::Local(core) if !core.sequencer.is_read_only() => {
                core.check_open()?;
                Ok(core.state.sessions.lock().any_before(sent_before))
            }
            _ => self.run(SessionCommand::HasPending { sent_before })?.into_did(),
        }
    }

    /// Returns the metadata of a session, or `None` if it does not exist.
    pub fn info(&self, session: &str) -> Result<Option<SessionInfo>> {
        self.run(SessionCommand::Info { session: Name::new(session)? })?.into_session()?.into_info()
    }

    /// Lists sessions in byte order of their names: at most `limit` that sort after `after`.
    pub fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage> {
        let after = after.map(str::to_owned);
        self.run(SessionCommand::List { after, limit })?.into_session()?.into_page()
    }

    /// Closes a session. Returns whether it existed.
    pub fn close(&self, session: &str) -> Result<bool> {
        self.run(SessionCommand::Close { session: Name::new(session)?, epoch: 0 })?.into_did()
    }

    fn run(&self, command: SessionCommand) -> Result<Answer> {
        run(&self.place, command)
    }
}

/// A client session. It ends when it is closed, or when its client is silent for longer than the lease.
/// Dropping the handle does not end it.
///
/// The client numbers its requests: from [`SessionInfo::next_request`] upwards, one number per request. The
/// crate `mainstay-sessions` does this, retries requests and receives messages.
#[derive(Clone)]
pub struct Session {
    place: Backend,
    info: SessionInfo,
    created: bool,
    /// The highest request number seen by this handle.
    highest: Arc<AtomicU64>,
}

impl Session {
    fn found(place: &Backend, info: SessionInfo, created: bool) -> Session {
        let highest = Arc::new(AtomicU64::new(info.next_request.saturating_sub(1)));
        Session { place: place.clone(), info, created, highest }
    }

    /// The session's name.
    pub fn name(&self) -> &Name {
        &self.info.session
    }

    /// The session's state at the time it was opened.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// Returns whether opening created the session.
    pub fn is_new(&self) -> bool {
        self.created
    }

    /// Executes a transaction exactly once per `request_id`. If the number was used before, returns the
    /// stored answer of that request, which may be an error. All answers below `lowest_pending` are
    /// dropped, because the client has received them. Blocks until the answer is durable as configured.
    pub fn execute(
        &self,
        request_id: u64,
        lowest_pending: u64,
        transaction: Transaction,
    ) -> Result<Receipt> {
        match self.repeated(request_id, lowest_pending) {
            Some(answer) => answer,
            None => self.run(request_id, lowest_pending, transaction),
        }
    }

    /// Like [`Session::execute`], for a client that keeps the transaction for retries: it is cloned only if
    /// it must be executed.
    ///
    /// ```
    /// use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
    /// let db = Database::memory()?;
    /// let session = db.sessions().open(SessionOptions::new())?;
    /// let add = Transaction::new().step(CellCommand::Incr { name: Name::new("n")?, by: 1.into() });
    /// assert!(!session.retry(1, 1, &add)?.repeated);
    /// assert!(session.retry(1, 1, &add)?.repeated);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn retry(
        &self,
        request_id: u64,
        lowest_pending: u64,
        transaction: &Transaction,
    ) -> Result<Receipt> {
        match self.repeated(request_id, lowest_pending) {
            Some(answer) => answer,
            None => self.run(request_id, lowest_pending, transaction.clone()),
        }
    }

    /// Answers a repeated request without the writer thread. Falls back to the writer if the numbers are
    /// inconsistent, because it returns the precise error.
    #[inline]
    fn repeated(&self, request_id: u64, lowest_pending: u64) -> Option<Result<Receipt>> {
        match &self.place {
            // A new number must go to the writer anyway. Looking it up here would only contend with the
            // writer.
            Backend::Local(core) if self.is_old(request_id) && lowest_pending <= request_id => {
                core.repeated(self.name(), request_id)
            }
            _ => None,
        }
    }

    /// Returns whether a request with this number may have been executed.
    fn is_old(&self, request_id: u64) -> bool {
        request_id <= self.highest.load(Ordering::Relaxed)
            || self.highest.fetch_max(request_id, Ordering::Relaxed) >= request_id
    }

    fn run(
        &self,
        request_id: u64,
        lowest_pending: u64,
        transaction: Transaction,
    ) -> Result<Receipt> {
        let request = SessionRequest::new(self.name().clone(), request_id, lowest_pending);
        self.place.execute(transaction.in_session(request))
    }

    /// Renews the lease. Drops the answers below `lowest_pending`, which the client has received; 0 drops
    /// none.
    pub fn keep_alive(&self, lowest_pending: u64) -> Result<()> {
        let session = self.name().clone();
        run(&self.place, SessionCommand::KeepAlive { session, lowest_pending, epoch: 0 })
            .map(|_| ())
    }

    /// Lists unacknowledged messages to the client with a number above `after`, in order.
    pub fn pending(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        let session = self.name().clone();
        run(&self.place, SessionCommand::Pending { session, after, limit, epoch: 0 })?
            .into_session()?
            .into_pending()
    }

    /// Acknowledges all messages up to number `upto`, after the client has processed them. Returns how many
    /// that were.
    pub fn acknowledge(&self, upto: u64) -> Result<u64> {
        let session = self.name().clone();
        run(&self.place, SessionCommand::Acknowledge { session, upto, epoch: 0 })?.into_count()
    }

    /// Closes the session. Returns whether it existed.
    pub fn close(&self) -> Result<bool> {
        run(&self.place, SessionCommand::Close { session: self.name().clone(), epoch: 0 })?
            .into_did()
    }
}

fn run(place: &Backend, command: SessionCommand) -> Result<Answer> {
    let receipt = place.execute(Transaction::new().step(command))?;
    receipt.into_first()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    #[test]
    fn a_server_that_gives_no_number_makes_nobody_panic() {
        let db = Database::memory().unwrap();
        let sessions = db.sessions();
        let info = sessions.open(SessionOptions::new()).unwrap().info().clone();
        let lied = SessionInfo { next_request: 0, ..info };
        assert!(!Session::found(&sessions.place, lied, false).is_old(1));
    }
}
