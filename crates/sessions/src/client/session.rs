//! Blocking sessions.

use crate::client::asynchronous::AsyncSession;
use crate::failure;
use crate::protocol::request::Request;
use crate::protocol::server_messages::{ServerMessage, StopSignal};
use crate::protocol::session_core::{SessionCore, SessionStatus};
use crate::stats::ClientStats;
use mainstay::remote::wait;
use mainstay::{Error, Name, Receipt, Result, SessionInfo, Stamp, Transaction};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A client session. Clones share it, and any number of threads may use it at once. Dropping the last clone
/// does not end it: at the database it lives until its lease expires.
///
/// ```
/// use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
/// use mainstay_sessions::Client;
///
/// let db = Database::memory()?;
/// let session = Client::here(&db)?.open(SessionOptions::new())?;
/// let add = CellCommand::Incr { name: Name::new("visits")?, by: 1.into() };
/// session.execute(Transaction::new().step(add))?; // once, even if messages are lost
/// assert_eq!(db.cells().get("visits")?, Some(1.into()));
/// assert!(session.close()?);
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Session(pub(crate) Arc<SessionCore>);

impl Session {
    /// The session's name.
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// The session's state when it was last opened.
    pub fn info(&self) -> Option<SessionInfo> {
        self.0.state.lock().info.clone()
    }

    /// The epoch that began when this client last opened the session. Each owner has another epoch. To
    /// resume after a crash, store the epoch [of each request](Request::epoch).
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

    /// Returns the async handle of the same session.
    pub fn to_async(&self) -> AsyncSession {
        AsyncSession(self.0.clone())
    }

    /// Executes a transaction exactly once, however often it has to be sent, and returns its answer. Blocks
    /// until then. An error of the transaction is also an answer: to retry after a `Conflict`, execute the
    /// transaction again.
    ///
    /// Without an answer before [`Settings::deadline`](crate::Settings::deadline), fails with `Unavailable`
    /// if the transaction was not executed, and with `UnknownOutcome` if it may have been. The latter can
    /// be [asked for again](Session::ask_again). If the session is gone, fails with `SessionExpired` if the
    /// transaction was not executed, and with `UnknownOutcome` if it may have been. Then
    /// [`Session::reopen`] allows new requests.
    pub fn execute(&self, transaction: Transaction) -> Result<Receipt> {
        wait(self.0.execute(transaction, self.0.default_deadline()))
    }

    /// Like [`Session::execute`], with another deadline; `None`: without limit.
    pub fn execute_within(
        &self,
        transaction: Transaction,
        time: Option<Duration>,
    ) -> Result<Receipt> {
        wait(self.0.execute(transaction, self.0.deadline(time)))
    }

    /// Assigns a number to a transaction, which is sent when its answer is awaited. Blocks while the window
    /// is full.
    pub fn request(&self, transaction: Transaction) -> Result<Request> {
        let pending = wait(self.0.assign_number(transaction, self.0.default_deadline()))?;
        Ok(Request::new(&self.0, pending))
    }

    /// The numbers of requests without an answer before their deadline. They occupy the window; when it is
    /// full, the oldest is given up.
    pub fn unanswered(&self) -> Vec<u64> {
        self.0.unanswered()
    }

    /// Sends an unanswered request again. It is executed now, or its stored answer is returned.
    pub fn ask_again(&self, number: u64) -> Result<Receipt> {
        wait(self.0.ask_again(number, self.0.default_deadline()))
    }

    /// Gives up an unanswered request: either it was executed, or it will not be executed once the database
    /// receives the next message of this client. Returns whether it was unanswered.
    pub fn give_up(&self, number: u64) -> bool {
        self.0.give_up(number)
    }

    /// Renews the lease and reports which answers the client has received. This also happens in the
    /// background.
    pub fn keep_alive(&self) -> Result<()> {
        wait(self.0.keep_alive(self.0.default_deadline()))
    }

    /// Starts a thread that handles server messages in order, each once, until the listener is dropped or the
    /// session is closed. A server message is acknowledged after its handler has returned. If the handler fails or
    /// panics, the server message is redelivered after a pause, and later server messages wait behind it.
    ///
    /// ```
    /// use mainstay::{Database, SessionOptions};
    /// use mainstay_sessions::Client;
    /// use std::sync::mpsc::channel;
    ///
    /// let db = Database::memory()?;
    /// let session = Client::here(&db)?.open(SessionOptions::new().name("worker-1"))?;
    /// let (sender, receiver) = channel();
    /// let listener = session.listen(move |message| {
    ///     sender.send(message.payload.to_vec()).unwrap();
    ///     Ok(())
    /// })?;
    /// db.sessions().send("worker-1", "stop")?;
    /// assert_eq!(receiver.recv().unwrap(), b"stop");
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn listen(
        &self,
        mut handle: impl FnMut(ServerMessage) -> Result<()> + Send + 'static,
    ) -> Result<Listener> {
        let core = self.0.clone();
        let stop = StopSignal::default();
        core.register_listener()?;
        let listener_core = core.clone();
        let listener_stop = stop.clone();
        let thread = std::thread::Builder::new().name("mainstay-letters".to_owned());
        let handle = move |message| std::future::ready(handle(message));
        let error = Arc::<Mutex<Option<Error>>>::default();
        let listener_error = error.clone();
        let thread = thread
            .spawn(move || {
                *listener_error.lock() = wait(listener_core.listen(&listener_stop, handle)).err()
            })
            .map_err(|error| {
                core.state.lock().is_listening = false;
                failure::no_thread(&error)
            })?;
        Ok(Listener { core, stop, error, thread: Some(thread) })
    }

    /// Opens the next session of the same name if this one is gone; otherwise does nothing. Once this
    /// returns, unanswered requests of the old session are not executed any more.
    pub fn reopen(&self) -> Result<()> {
        wait(self.0.open())
    }

    /// Closes the session here and at the database. Returns whether it existed.
    pub fn close(&self) -> Result<bool> {
        wait(self.0.close())
    }
}

/// A thread that handles server messages. Dropping it waits until the server message in progress is handled.
pub struct Listener {
    core: Arc<SessionCore>,
    stop: StopSignal,
    error: Arc<Mutex<Option<Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// The reason why it stopped: the client lacks the permission to receive server messages. For a served
    /// database, listening needs the permission to read the feed. `None` while it runs, and after the
    /// session was closed.
    pub fn failure(&self) -> Option<Error> {
        self.error.lock().clone()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.set(&self.core);
        let Some(thread) = self.thread.take() else { return };
        // A handler may drop its own listener on this thread, which cannot join itself.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}
