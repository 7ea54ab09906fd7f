//! Async sessions: the same core as the blocking ones, as futures.
//!
//! The futures need no runtime, run on any, and are `Send`.

use crate::client::session::Session;
use crate::protocol::request::Request;
use crate::protocol::server_messages::{ServerMessage, StopSignal};
use crate::protocol::session_core::{SessionCore, SessionStatus};
use crate::stats::ClientStats;
use mainstay::{Name, Receipt, Result, SessionInfo, Stamp, Transaction};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A client session with an async API. Clones share it.
///
/// ```
/// use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
/// use mainstay_sessions::Client;
///
/// let db = Database::memory()?;
/// let work = async {
///     let session = Client::here(&db)?.open_async(SessionOptions::new()).await?;
///     let add = CellCommand::Incr { name: Name::new("visits")?, by: 1.into() };
///     session.execute(Transaction::new().step(add)).await?;
///     session.close().await
/// };
/// // Any runtime works; this one blocks the current thread.
/// assert!(mainstay::remote::wait(work)?);
/// assert_eq!(db.cells().get("visits")?, Some(1.into()));
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncSession(pub(crate) Arc<SessionCore>);

impl AsyncSession {
    /// The session's name.
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// The session's state when it was last opened.
    pub fn info(&self) -> Option<SessionInfo> {
        self.0.state.lock().info.clone()
    }

    /// As [`Session::epoch`].
    pub fn epoch(&self) -> Stamp {
        self.0.state.lock().epoch
    }

    /// Returns whether the session is alive, as far as its client knows.
    pub fn is_live(&self) -> bool {
        self.0.state.lock().status == SessionStatus::Live
    }

    /// Counters of the client so far.
    pub fn stats(&self) -> ClientStats {
        self.0.counters.stats()
    }

    /// Returns the blocking handle of the same session.
    pub fn to_blocking(&self) -> Session {
        Session(self.0.clone())
    }

    /// As [`Session::execute`]. Dropping the future gives up the request.
    pub async fn execute(&self, transaction: Transaction) -> Result<Receipt> {
        self.0.execute(transaction, self.0.default_deadline()).await
    }

    /// As [`Session::execute_within`]. Dropping the future gives up the request.
    pub async fn execute_within(
        &self,
        transaction: Transaction,
        time: Option<Duration>,
    ) -> Result<Receipt> {
        self.0.execute(transaction, self.0.deadline(time)).await
    }

    /// As [`Session::request`].
    pub async fn request(&self, transaction: Transaction) -> Result<Request> {
        let pending = self.0.assign_number(transaction, self.0.default_deadline()).await?;
        Ok(Request::new(&self.0, pending))
    }

    /// As [`Session::unanswered`].
    pub fn unanswered(&self) -> Vec<u64> {
        self.0.unanswered()
    }

    /// As [`Session::ask_again`].
    pub async fn ask_again(&self, number: u64) -> Result<Receipt> {
        self.0.ask_again(number, self.0.default_deadline()).await
    }

    /// As [`Session::give_up`].
    pub fn give_up(&self, number: u64) -> bool {
        self.0.give_up(number)
    }

    /// As [`Session::keep_alive`].
    pub async fn keep_alive(&self) -> Result<()> {
        self.0.keep_alive(self.0.default_deadline()).await
    }

    /// Handles server messages, as [`Session::listen`] does, until the session is closed or the future is dropped.
    /// A server message whose handling is interrupted by the drop is redelivered to the next listener. Fails if the
    /// client lacks the permission to listen.
    ///
    /// ```
    /// # use mainstay::{Database, SessionOptions, remote::wait};
    /// # use mainstay_sessions::Client;
    /// let db = Database::memory()?;
    /// let session = Client::here(&db)?.open(SessionOptions::new().name("worker-1"))?.to_async();
    /// db.sessions().send("worker-1", "stop")?;
    /// let listening = session.listen(|message| {
    ///     let session = session.clone();
    ///     async move {
    ///         assert_eq!(*message.payload, *b"stop");
    ///         session.close().await.map(drop)
    ///     }
    /// });
    /// wait(listening)?;
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub async fn listen<F>(&self, handle: impl FnMut(ServerMessage) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        self.0.register_listener()?;
        self.0.listen(&StopSignal::default(), handle).await
    }

    /// As [`Session::reopen`].
    pub async fn reopen(&self) -> Result<()> {
        self.0.open().await
    }

    /// As [`Session::close`].
    pub async fn close(&self) -> Result<bool> {
        self.0.close().await
    }
}
