//! Clients, which open sessions.

pub(crate) mod asynchronous;
pub(crate) mod session;

use crate::client::asynchronous::AsyncSession;
use crate::client::session::Session;
use crate::protocol::keep_alive;
use crate::protocol::request::Request;
use crate::protocol::session_core::{ClientDeps, SessionCore, UnansweredRequests};
use crate::runtime::Runtime;
use crate::runtime::backoff::Jitter;
use crate::runtime::timer_thread::TimerThread;
use crate::settings::Settings;
use crate::transport::{Local, Served, Transport};
use mainstay::remote::{AsyncDatabase, wait};
use mainstay::{Database, Result, SessionOptions, Stamp, Transaction};
use std::sync::Arc;

/// Opens sessions over one transport to a database. Its sessions share one background thread, and so do
/// clones.
///
/// ```
/// use mainstay::{Database, SessionOptions};
/// use mainstay_sessions::Client;
/// let client = Client::here(&Database::memory()?)?;
/// let session = client.open(SessionOptions::new().name("till-7"))?;
/// assert_eq!(session.name().as_str(), "till-7");
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    deps: Arc<ClientDeps>,
}

impl Client {
    /// Creates a client of an embedded database.
    pub fn here(db: &Database) -> Result<Client> {
        Client::new(Local::new(db)?)
    }

    /// Creates a client of a served database.
    pub fn served(db: &AsyncDatabase) -> Result<Client> {
        Client::new(Served::new(db))
    }

    /// Creates a client with the default settings.
    pub fn new(transport: Arc<dyn Transport>) -> Result<Client> {
        Client::with(transport, Settings::default())
    }

    /// Creates a client with the given settings.
    pub fn with(transport: Arc<dyn Transport>, settings: Settings) -> Result<Client> {
        Client::on(transport, settings, TimerThread::start()?)
    }

    /// Creates a client with the given settings and runtime.
    pub fn on(
        transport: Arc<dyn Transport>,
        settings: Settings,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Client> {
        settings.check()?;
        let jitter = Jitter::new(settings.seed);
        Ok(Client { deps: Arc::new(ClientDeps { transport, runtime, settings, jitter }) })
    }

    /// The settings of this client.
    pub fn settings(&self) -> &Settings {
        &self.deps.settings
    }

    /// Opens a session, or takes over the one of this name. A session has one owner at a time: the client
    /// object that opened it last. Once this returns, requests in flight of earlier owners are not executed
    /// any more. An earlier owner gets `SessionExpired` at its next call.
    pub fn open(&self, options: SessionOptions) -> Result<Session> {
        wait(self.open_async(options)).map(|session| session.to_blocking())
    }

    /// As [`Client::open`], as a future.
    pub async fn open_async(&self, options: SessionOptions) -> Result<AsyncSession> {
        self.start(options, None).await.map(|(core, _)| AsyncSession(core))
    }

    /// Resumes a session of an earlier client object after a crash, together with its unanswered requests:
    /// those whose numbers were [assigned](Session::request) and stored, with [their
    /// epoch](Request::epoch). If another client has owned the session since, or the session is gone, these
    /// numbers may belong to other requests. Then they end with `UnknownOutcome` and are not sent.
    ///
    /// Resumed requests have a new epoch. Store it with their numbers before any of them is sent; the
    /// others keep their old epoch. `epoch` is the last stored epoch, and `unanswered` the requests stored
    /// with it. Requests stored with an earlier epoch end with `UnknownOutcome`. So do all requests if the
    /// client crashes before it stores the new epoch, or if this call fails. The reason is that the session
    /// may have been taken over, and then `epoch` is no longer its last one.
    ///
    /// ```
    /// use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
    /// use mainstay_sessions::Client;
    /// let db = Database::memory()?;
    /// let till = || SessionOptions::new().name("till-7");
    /// let add = || -> mainstay::Result<_> {
    ///     Ok(Transaction::new().step(CellCommand::Incr { name: Name::new("n")?, by: 1.into() }))
    /// };
    /// let session = Client::here(&db)?.open(till())?;
    /// let request = session.request(add()?)?;
    /// let (epoch, number) = (request.epoch(), request.number()); // stored before it is sent
    /// request.wait()?;
    /// drop((request, session)); // a crash, before the answer is stored
    ///
    /// let unanswered = vec![(number, add()?)];
    /// let (session, requests) = Client::here(&db)?.resume(till(), epoch, unanswered)?;
    /// let epoch = requests[0].epoch(); // stored instead, before it is sent again
    /// # assert_eq!(epoch, session.epoch());
    /// assert!(requests[0].wait()?.repeated);
    /// assert_eq!(db.cells().get("n")?, Some(1.into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn resume(
        &self,
        options: SessionOptions,
        epoch: Stamp,
        unanswered: Vec<(u64, Transaction)>,
    ) -> Result<(Session, Vec<Request>)> {
        let (session, requests) = wait(self.resume_async(options, epoch, unanswered))?;
        Ok((session.to_blocking(), requests))
    }

    /// As [`Client::resume`], as a future.
    pub async fn resume_async(
        &self,
        options: SessionOptions,
        epoch: Stamp,
        unanswered: Vec<(u64, Transaction)>,
    ) -> Result<(AsyncSession, Vec<Request>)> {
        let (core, pending) =
            self.start(options, Some(UnansweredRequests { epoch, requests: unanswered })).await?;
        let requests = pending.into_iter().map(|pending| Request::new(&core, pending)).collect();
        Ok((AsyncSession(core), requests))
    }

    async fn start(
        &self,
        options: SessionOptions,
        unanswered: Option<UnansweredRequests>,
    ) -> Result<(Arc<SessionCore>, Vec<Arc<crate::protocol::window::PendingRequest>>)> {
        let core = Arc::new(SessionCore::new(&self.deps, options.command()?)?);
        let pending = core.open_with(unanswered).await?;
        keep_alive::start(&core);
        Ok((core, pending))
    }
}
