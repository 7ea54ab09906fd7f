//! Clients: who opens sessions.

use crate::asynchronous::AsyncSession;
use crate::core::{Core, Left, Means};
use crate::keeper;
use crate::own_thread::OwnThread;
use crate::pauses::Chance;
use crate::request::Request;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::settings::Settings;
use crate::transport::{Local, Served, Transport};
use mainstay::remote::{AsyncDatabase, wait};
use mainstay::{Database, Result, SessionOptions, Stamp, Transaction};
use std::sync::Arc;

/// Opens sessions on one way to a database; its sessions share one thread for what is done in the background. Clones share
/// it, too.
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
    means: Arc<Means>,
}

impl Client {
    /// A client of a database in this process.
    pub fn here(db: &Database) -> Result<Client> {
        Client::new(Local::new(db)?)
    }

    /// A client of a served database.
    pub fn served(db: &AsyncDatabase) -> Result<Client> {
        Client::new(Served::new(db))
    }

    /// A client with the default settings.
    pub fn new(transport: Arc<dyn Transport>) -> Result<Client> {
        Client::with(transport, Settings::default())
    }

    /// A client with these settings.
    pub fn with(transport: Arc<dyn Transport>, settings: Settings) -> Result<Client> {
        Client::on(transport, settings, OwnThread::start()?)
    }

    /// A client that runs on what it is given.
    pub fn on(
        transport: Arc<dyn Transport>,
        settings: Settings,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Client> {
        settings.check()?;
        let chance = Chance::new(settings.seed);
        Ok(Client { means: Arc::new(Means { transport, runtime, settings, chance }) })
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        &self.means.settings
    }

    /// Opens a session, or goes on with the one of this name. One client object has a session at a time, the last that
    /// opened it: what an earlier one has under way is not executed any more once this returns, and it is told that its
    /// session is gone when it next speaks.
    pub fn open(&self, options: SessionOptions) -> Result<Session> {
        wait(self.open_async(options)).map(|session| session.to_blocking())
    }

    /// As [`Client::open`], to be awaited.
    pub async fn open_async(&self, options: SessionOptions) -> Result<AsyncSession> {
        self.start(options, None).await.map(|(core, _)| AsyncSession(core))
    }

    /// Goes on with a session of a client object that is gone, and with the requests that it left without an answer: those
    /// whose numbers were [taken](Session::request) and written down, with [their epoch](Request::epoch). Where another client
    /// had the session since, or it is gone, their numbers may be those of other requests: they end with `UnknownOutcome`, and
    /// are not sent.
    ///
    /// Requests that go on have a new epoch, which is to be written down with their numbers before any of them is sent; the
    /// others keep the one they had. `epoch` is the last one that was written down, and `left` what stands with it: what stands
    /// with an earlier one ends with `UnknownOutcome`. So does everything after a crash before the new epoch was written down,
    /// and after this has failed: the session may have been taken, and then `epoch` is not its last one any more.
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
    /// let (epoch, number) = (request.epoch(), request.number()); // written down, before it is sent
    /// request.wait()?;
    /// drop((request, session)); // a crash, before the answer was written down, too
    ///
    /// let left = vec![(number, add()?)];
    /// let (session, requests) = Client::here(&db)?.resume(till(), epoch, left)?;
    /// let epoch = requests[0].epoch(); // written down instead, before it is sent again
    /// # assert_eq!(epoch, session.epoch());
    /// assert!(requests[0].wait()?.repeated);
    /// assert_eq!(db.cells().get("n")?, Some(1.into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn resume(
        &self,
        options: SessionOptions,
        epoch: Stamp,
        left: Vec<(u64, Transaction)>,
    ) -> Result<(Session, Vec<Request>)> {
        let (session, requests) = wait(self.resume_async(options, epoch, left))?;
        Ok((session.to_blocking(), requests))
    }

    /// As [`Client::resume`], to be awaited.
    pub async fn resume_async(
        &self,
        options: SessionOptions,
        epoch: Stamp,
        left: Vec<(u64, Transaction)>,
    ) -> Result<(AsyncSession, Vec<Request>)> {
        let (core, asked) = self.start(options, Some(Left { epoch, requests: left })).await?;
        let requests = asked.into_iter().map(|asked| Request::new(&core, asked)).collect();
        Ok((AsyncSession(core), requests))
    }

    async fn start(
        &self,
        options: SessionOptions,
        left: Option<Left>,
    ) -> Result<(Arc<Core>, Vec<Arc<crate::window::Asked>>)> {
        let core = Arc::new(Core::new(&self.means, options.command()?)?);
        let asked = core.open_with(left).await?;
        keeper::start(&core);
        Ok((core, asked))
    }
}
