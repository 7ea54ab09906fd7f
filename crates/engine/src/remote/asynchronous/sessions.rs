//! The sessions of a served database.

use crate::handle::sessions::SessionOptions;
use crate::remote::connection_pool::ConnectionPool;
use mainstay_model::{
    Answer, MAIN, Name, Receipt, Result, SessionCommand, SessionInfo, SessionPage, SessionRequest,
    Stamp, Transaction,
};
use std::sync::Arc;

/// All sessions of a database.
///
/// ```no_run
/// # async fn example(add: mainstay::Transaction) -> mainstay::Result<()> {
/// use mainstay::SessionOptions;
/// let db = mainstay::remote::connect_async("127.0.0.1:7379").await?;
/// let session = db.sessions().open(SessionOptions::new()).await?;
/// let number = session.info().next_request;
/// session.execute(number, number, add).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncSessions {
    link: Arc<ConnectionPool>,
}

impl AsyncSessions {
    pub(crate) fn on(link: Arc<ConnectionPool>) -> AsyncSessions {
        AsyncSessions { link }
    }

    async fn run(&self, command: SessionCommand) -> Result<Answer> {
        self.link.run(MAIN, command.into()).await
    }

    /// Opens a session, or finds the one of this name; its lease begins anew.
    pub async fn open(&self, options: SessionOptions) -> Result<AsyncSession> {
        let (info, created) = self.run(options.command()?).await?.into_session()?.into_opened()?;
        Ok(AsyncSession { sessions: self.clone(), info, created })
    }

    /// Sends a request to the client of a session; gives its number, or nothing where there is no such session.
    pub async fn send(&self, session: &str, payload: impl Into<Vec<u8>>) -> Result<Option<u64>> {
        let (session, payload) = (Name::new(session)?, payload.into());
        self.run(SessionCommand::Send { session, payload }).await?.into_session()?.into_sent()
    }

    /// What was sent before this, strictly, and is not acknowledged, the oldest first; it counts as sent now.
    pub async fn requests_for_retry(
        &self,
        sent_before: Stamp,
        limit: usize,
    ) -> Result<Vec<(Name, u64, Vec<u8>)>> {
        self.run(SessionCommand::Retry { sent_before, limit }).await?.into_session()?.into_retried()
    }

    /// Whether something was sent before this, strictly, and is not acknowledged.
    pub async fn has_pending(&self, sent_before: Stamp) -> Result<bool> {
        self.run(SessionCommand::HasPending { sent_before }).await?.into_did()
    }

    /// What is known of a session.
    pub async fn info(&self, session: &str) -> Result<Option<SessionInfo>> {
        self.run(SessionCommand::Info { session: Name::new(session)? })
            .await?
            .into_session()?
            .into_info()
    }

    /// Sessions in the order of their names.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage> {
        let after = after.map(str::to_owned);
        self.run(SessionCommand::List { after, limit }).await?.into_session()?.into_page()
    }

    /// Ends a session; says whether there was one.
    pub async fn close(&self, session: &str) -> Result<bool> {
        self.run(SessionCommand::Close { session: Name::new(session)?, epoch: 0 }).await?.into_did()
    }
}

/// A session. Dropping it ends nothing.
#[derive(Clone)]
pub struct AsyncSession {
    sessions: AsyncSessions,
    info: SessionInfo,
    created: bool,
}

impl AsyncSession {
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
    pub async fn execute(
        &self,
        request_id: u64,
        lowest_pending: u64,
        transaction: Transaction,
    ) -> Result<Receipt> {
        let request = SessionRequest::new(self.name().clone(), request_id, lowest_pending);
        self.sessions.link.execute(&transaction.in_session(request)).await
    }

    /// Says that the client is there; what is below `lowest_pending` it has got, and 0 says nothing about that.
    pub async fn keep_alive(&self, lowest_pending: u64) -> Result<()> {
        let session = self.name().clone();
        let command = SessionCommand::KeepAlive { session, lowest_pending, epoch: 0 };
        self.sessions.run(command).await.map(|_| ())
    }

    /// What was sent to the client behind a number and is not acknowledged, in order.
    pub async fn pending(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        let session = self.name().clone();
        self.sessions
            .run(SessionCommand::Pending { session, after, limit, epoch: 0 })
            .await?
            .into_session()?
            .into_pending()
    }

    /// The client has done everything up to this number; gives how many that were.
    pub async fn acknowledge(&self, upto: u64) -> Result<u64> {
        let session = self.name().clone();
        self.sessions
            .run(SessionCommand::Acknowledge { session, upto, epoch: 0 })
            .await?
            .into_count()
    }

    /// Ends it; says whether it was there.
    pub async fn close(&self) -> Result<bool> {
        self.sessions.close(self.name().as_str()).await
    }
}
