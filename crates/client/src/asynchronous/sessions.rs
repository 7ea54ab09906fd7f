//! Async client: sessions of a served database.

use crate::connection_pool::ConnectionPool;
use mainstay_model::SessionOptions;
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

    /// Opens a session, or reopens the one of this name. Its lease restarts.
    pub async fn open(&self, options: SessionOptions) -> Result<AsyncSession> {
        let (info, created) = self.run(options.command()?).await?.into_session()?.into_opened()?;
        Ok(AsyncSession { sessions: self.clone(), info, created })
    }

    /// Sends a message to the client of a session. Returns its number, or `None` if no such session exists.
    /// A message can also be part of any transaction: [`SessionCommand::Send`].
    pub async fn send(&self, session: &str, payload: impl Into<Vec<u8>>) -> Result<Option<u64>> {
        let session = Name::new(session)?;
        let payload = payload.into();
        self.run(SessionCommand::Send { session, payload }).await?.into_session()?.into_sent()
    }

    /// Returns messages that were sent strictly before `sent_before` and are not acknowledged, oldest
    /// first. The caller redelivers them, so their send time is set to now.
    pub async fn requests_for_retry(
        &self,
        sent_before: Stamp,
        limit: usize,
    ) -> Result<Vec<(Name, u64, Vec<u8>)>> {
        self.run(SessionCommand::Retry { sent_before, limit }).await?.into_session()?.into_retried()
    }

    /// Returns whether any unacknowledged message was sent strictly before `sent_before`. Takes constant
    /// time.
    pub async fn has_pending(&self, sent_before: Stamp) -> Result<bool> {
        self.run(SessionCommand::HasPending { sent_before }).await?.into_did()
    }

    /// Returns the metadata of a session, or `None` if it does not exist.
    pub async fn info(&self, session: &str) -> Result<Option<SessionInfo>> {
        self.run(SessionCommand::Info { session: Name::new(session)? })
            .await?
            .into_session()?
            .into_info()
    }

    /// Lists sessions in byte order of their names: at most `limit` that sort after `after`.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage> {
        let after = after.map(str::to_owned);
        self.run(SessionCommand::List { after, limit }).await?.into_session()?.into_page()
    }

    /// Closes a session. Returns whether it existed.
    pub async fn close(&self, session: &str) -> Result<bool> {
        self.run(SessionCommand::Close { session: Name::new(session)?, epoch: 0 }).await?.into_did()
    }
}

/// A client session. Dropping the handle does not end it.
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
    /// dropped, because the client has received them. Waits until the answer is durable as configured.
    pub async fn execute(
        &self,
        request_id: u64,
        lowest_pending: u64,
        transaction: Transaction,
    ) -> Result<Receipt> {
        let request = SessionRequest::new(self.name().clone(), request_id, lowest_pending);
        self.sessions.link.execute(&transaction.in_session(request)).await
    }

    /// Renews the lease. Drops the answers below `lowest_pending`, which the client has received; 0 drops
    /// none.
    pub async fn keep_alive(&self, lowest_pending: u64) -> Result<()> {
        let session = self.name().clone();
        let command = SessionCommand::KeepAlive { session, lowest_pending, epoch: 0 };
        self.sessions.run(command).await.map(|_| ())
    }

    /// Lists unacknowledged messages to the client with a number above `after`, in order.
    pub async fn pending(&self, after: u64, limit: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        let session = self.name().clone();
        self.sessions
            .run(SessionCommand::Pending { session, after, limit, epoch: 0 })
            .await?
            .into_session()?
            .into_pending()
    }

    /// Acknowledges all messages up to number `upto`, after the client has processed them. Returns how many
    /// that were.
    pub async fn acknowledge(&self, upto: u64) -> Result<u64> {
        let session = self.name().clone();
        self.sessions
            .run(SessionCommand::Acknowledge { session, upto, epoch: 0 })
            .await?
            .into_count()
    }

    /// Closes the session. Returns whether it existed.
    pub async fn close(&self) -> Result<bool> {
        self.sessions.close(self.name().as_str()).await
    }
}
