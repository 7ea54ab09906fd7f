//! Sessions: handles for clients whose requests are executed once, and for those who send them something.

use crate::commit::executor::session::repeated;
use crate::handle::backend::Backend;
use crate::handle::outbox::ms;
use crate::lifecycle::database_file::random_id;
use crate::lifecycle::engine::EngineShared;
use mainstay_model::{
    Answer, Name, Receipt, Result, SessionCommand, SessionInfo, SessionPage, SessionRequest, Stamp,
    Transaction,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a session is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    name: Option<String>,
    lease: Option<Duration>,
    capabilities: Vec<(String, String)>,
}

impl SessionOptions {
    /// A session with a name of its own and a lease of 60 seconds.
    pub fn new() -> SessionOptions {
        SessionOptions::default()
    }

    /// With this name: where there is a session of this name, it is that one.
    #[must_use]
    pub fn name(mut self, name: &str) -> SessionOptions {
        self.name = Some(name.to_owned());
        self
    }

    /// It expires when nothing is heard of its client for so long.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> SessionOptions {
        self.lease = Some(lease);
        self
    }

    /// Says what the client can do, in words of its own.
    #[must_use]
    pub fn capability(mut self, name: &str, value: &str) -> SessionOptions {
        self.capabilities.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether it has a name that others can know, too.
    pub fn has_name(&self) -> bool {
        self.name.is_some()
    }

    /// The command that opens it; one without a name gets one that no other session has.
    pub fn command(self) -> Result<SessionCommand> {
        let SessionOptions { name, lease, capabilities } = self;
        let session = match name {
            Some(name) => Name::new(&name)?,
            None => random_name()?,
        };
        Ok(SessionCommand::Open { session, lease_ms: lease.map(ms), capabilities, hold: None })
    }
}

/// 96 bits that nobody else has, as text.
fn random_name() -> Result<Name> {
    let id = random_id();
    Name::new(&id[..12].iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// All sessions of a database. They belong to it as a whole; a request of one names its branch.
///
/// ```
/// use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
/// let db = Database::memory()?;
/// let session = db.sessions().open(SessionOptions::new())?;
/// let add = || CellCommand::Incr { name: Name::new("visits").unwrap(), by: 1.into() };
/// let first = session.execute(1, 1, Transaction::new().step(add()))?;
/// // The answer got lost, so the client asks again: it gets the same answer, and nothing is added.
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

    /// Opens a session, or finds the one of this name; its lease begins anew.
    pub fn open(&self, options: SessionOptions) -> Result<Session> {
        let (info, created) = self.run(options.command()?)?.into_session()?.into_opened()?;
        Ok(Session::found(&self.place, info, created))
    }

    /// Sends a request to the client of a session; gives its number, or nothing where there is no such session. It can
    /// be part of any transaction, too: [`SessionCommand::Send`].
    ///
    /// ```
    /// use mainstay::{Database, SessionOptions};
    /// let db = Database::memory()?;
    /// let session = db.sessions().open(SessionOptions::new().name("worker-1"))?;
    /// assert_eq!(db.sessions().send("worker-1", "stop")?, Some(1));
    /// assert_eq!(db.sessions().send("worker-2", "stop")?, None);
    /// // The client finds it, does it, and says so.
    /// assert_eq!(session.pending(0, 10)?, [(1, b"stop".to_vec())]);
    /// assert_eq!(session.acknowledge(1)?, 1);
    /// assert!(session.pending(0, 10)?.is_empty());
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn send(&self, session: &str, payload: impl Into<Vec<u8>>) -> Result<Option<u64>> {
        let (session, payload) = (Name::new(session)?, payload.into());
        self.run(SessionCommand::Send { session, payload })?.into_session()?.into_sent()
    }

    /// What was sent before this, strictly, and is not acknowledged, the oldest first; it counts as sent now. Who delivers
    /// it sends it again.
    pub fn requests_for_retry(
        &self,
        sent_before: Stamp,
        limit: usize,
    ) -> Result<Vec<(Name, u64, Vec<u8>)>> {
        self.run(SessionCommand::Retry { sent_before, limit })?.into_session()?.into_retried()
    }

    /// Whether something was sent before this, strictly, and is not acknowledged. It costs the same however much is.
    pub fn has_pending(&self, sent_before: Stamp) -> Result<bool> {
        match &self.place {
            Backend::Local(core) if !core.sequencer.is_read_only() => {
                core.check_open()?;
                Ok(core.state.sessions.lock().any_before(sent_before))
            }
            _ => self.run(SessionCommand::HasPending { sent_before })?.into_did(),
        }
    }

    /// What is known of a session.
    pub fn info(&self, session: &str) -> Result<Option<SessionInfo>> {
        self.run(SessionCommand::Info { session: Name::new(session)? })?.into_session()?.into_info()
    }

    /// Sessions in the order of their names.
    pub fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage> {
        let after = after.map(str::to_owned);
        self.run(SessionCommand::List { after, limit })?.into_session()?.into_page()
    }

    /// Ends a session; says whether there was one.
    pub fn close(&self, session: &str) -> Result<bool> {
        self.run(SessionCommand::Close { session: Name::new(session)?, epoch: 0 })?.into_did()
    }

    fn run(&self, command: SessionCommand) -> Result<Answer> {
        run(&self.place, command)
    }
}

/// A session. It ends when it is closed or nothing is heard of its client for as long as its lease; dropping it ends
/// nothing.
///
/// Numbers of requests are the client's: from [`SessionInfo::next_request`] upwards, each for one request. To have that
/// done, with retries and what the server sends, see the crate `mainstay-sessions`.
#[derive(Clone)]
pub struct Session {
    place: Backend,
    info: SessionInfo,
    created: bool,
    /// The highest number that was asked for here.
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

    /// What was known of it when it was opened.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// Whether there was none of its name when it was opened.
    pub fn is_new(&self) -> bool {
        self.created
    }

    /// Executes a transaction, if no request of this number was executed before; else gives the answer of that one, an
    /// error too. What is below `lowest_pending` the client has got: those answers go.
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

    /// The same for a client that keeps what it has sent: it is copied only if it has to be executed.
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

    /// What is answered without asking the writer, who says what is wrong with the numbers.
    #[inline]
    fn repeated(&self, request_id: u64, lowest_pending: u64) -> Option<Result<Receipt>> {
        match &self.place {
            // A new number is the writer's business: asking for it would only hold the writer up.
            Backend::Local(core) if self.is_old(request_id) && lowest_pending <= request_id => {
                core.repeated(self.name(), request_id)
            }
            _ => None,
        }
    }

    /// Whether a request of this number may have been executed.
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

    /// Says that the client is there; what is below `lowest_pending` it has got, and 0 says nothing about that.
    pub fn keep_alive(&self, lowest_pending: u64) -> Result<()> {
        let session = self.name().clone();
        run(&self.place, SessionCommand::KeepAlive { session, lowest_pending, epoch: 0 })
            .map(|_| ())
    }

    /// What was sent to the client behind a number and is not acknowledged, in order.
    pub fn pending(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        let session = self.name().clone();
        run(&self.place, SessionCommand::Pending { session, after, limit, epoch: 0 })?
            .into_session()?
            .into_pending()
    }

    /// The client has done everything up to this number; gives how many that were.
    pub fn acknowledge(&self, upto: u64) -> Result<u64> {
        let session = self.name().clone();
        run(&self.place, SessionCommand::Acknowledge { session, upto, epoch: 0 })?.into_count()
    }

    /// Ends it; says whether it was there.
    pub fn close(&self) -> Result<bool> {
        run(&self.place, SessionCommand::Close { session: self.name().clone(), epoch: 0 })?
            .into_did()
    }
}

fn run(place: &Backend, command: SessionCommand) -> Result<Answer> {
    let receipt = place.execute(Transaction::new().step(command))?;
    receipt.into_first()
}

impl EngineShared {
    /// The answer of a request that was executed, if it can be seen and is on stable storage: the writer is not asked. It
    /// is asked whenever something is not as it should be: it says what.
    pub fn repeated(&self, session: &Name, request_id: u64) -> Option<Result<Receipt>> {
        let now = self.now();
        let slot = {
            let mut table = self.state.sessions.lock();
            let row = table.live_mut(session.as_str(), now)?;
            let slot = row.slots.ledger.response(request_id)?.slot;
            row.renew(now);
            slot
        };
        let seen = self.sequencer.published();
        let told = repeated(self.index(), session, request_id, slot, seen).ok()??;
        if told.revision > self.sequencer.durable() || self.sequencer.is_closed() {
            return None;
        }
        self.state.figures.sessions.repeated.fetch_add(1, Ordering::Relaxed);
        Some(told.answer)
    }
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
