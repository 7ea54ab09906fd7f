//! Sessions for those who wait.

use crate::asynchronous::AsyncSession;
use crate::core::{Core, Standing};
use crate::failure;
use crate::figures::Figures;
use crate::letters::{Letter, Stop};
use crate::request::Request;
use mainstay::remote::wait;
use mainstay::{Error, Name, Receipt, Result, SessionInfo, Stamp, Transaction};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A session of a client. Clones share it, and any number of threads may use it at once; dropping the last one ends
/// nothing at the database, where the session lives until its lease is over.
///
/// ```
/// use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
/// use mainstay_sessions::Client;
///
/// let db = Database::memory()?;
/// let session = Client::here(&db)?.open(SessionOptions::new())?;
/// let add = CellCommand::Incr { name: Name::new("visits")?, by: 1.into() };
/// session.execute(Transaction::new().step(add))?; // once, whatever is lost on the way
/// assert_eq!(db.cells().get("visits")?, Some(1.into()));
/// assert!(session.close()?);
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Session(pub(crate) Arc<Core>);

impl Session {
    /// Its name.
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// What was known of it when it was opened.
    pub fn info(&self) -> Option<SessionInfo> {
        self.0.state.lock().info.clone()
    }

    /// The epoch that began when this client took it, the last time if it was opened anew: another client has another one. To
    /// go on after a crash, write down that [of each request](Request::epoch).
    pub fn epoch(&self) -> Stamp {
        self.0.state.lock().epoch
    }

    /// Whether it is there, as far as its client has heard.
    pub fn is_live(&self) -> bool {
        self.0.state.lock().standing == Standing::Live
    }

    /// What its client has done so far.
    pub fn figures(&self) -> Figures {
        self.0.tally.figures()
    }

    /// The same session, to be awaited.
    pub fn to_async(&self) -> AsyncSession {
        AsyncSession(self.0.clone())
    }

    /// Executes a transaction exactly once, however often it has to be sent, and gives its answer. Errors are answers, too:
    /// whoever wants to try again after a `Conflict` executes it anew.
    ///
    /// Without an answer for as long as the settings say: `Unavailable`, if it was not executed; `UnknownOutcome`, if it
    /// may have been. The latter can be [asked for again](Session::ask_again). A session that is gone: `SessionExpired`,
    /// if it was not executed; `UnknownOutcome`, if it may have been, and [`Session::reopen`] goes on.
    pub fn execute(&self, transaction: Transaction) -> Result<Receipt> {
        wait(self.0.execute(transaction, self.0.usual_deadline()))
    }

    /// The same, for at most so long; nothing: for ever.
    pub fn execute_within(
        &self,
        transaction: Transaction,
        time: Option<Duration>,
    ) -> Result<Receipt> {
        wait(self.0.execute(transaction, self.0.deadline(time)))
    }

    /// Gives a transaction its number; it is sent when its answer is asked for. Waits while the window is full.
    pub fn request(&self, transaction: Transaction) -> Result<Request> {
        let asked = wait(self.0.take_number(transaction, self.0.usual_deadline()))?;
        Ok(Request::new(&self.0, asked))
    }

    /// The numbers of requests that got no answer in time. They keep their place in the window; when it is full, the oldest
    /// is given up.
    pub fn unanswered(&self) -> Vec<u64> {
        self.0.unanswered()
    }

    /// Asks again for what got no answer in time: it is executed now, or was executed before.
    pub fn ask_again(&self, number: u64) -> Result<Receipt> {
        wait(self.0.ask_again(number, self.0.usual_deadline()))
    }

    /// Gives up what got no answer in time: it was executed, or is not executed any more once the database has heard the
    /// next word of this client. Says whether it had no answer.
    pub fn give_up(&self, number: u64) -> bool {
        self.0.give_up(number)
    }

    /// Says that the client is there, and which answers it has got. That happens by itself, too.
    pub fn keep_alive(&self) -> Result<()> {
        wait(self.0.keep_alive(self.0.usual_deadline()))
    }

    /// Has requests of the server handled by a thread, in order and each once, until the listener goes or the session is
    /// closed. A letter is acknowledged when the handler has returned; one whose handler fails, or panics, is brought
    /// again after a pause, and the others wait behind it.
    ///
    /// ```
    /// use mainstay::{Database, SessionOptions};
    /// use mainstay_sessions::Client;
    /// use std::sync::mpsc::channel;
    ///
    /// let db = Database::memory()?;
    /// let session = Client::here(&db)?.open(SessionOptions::new().name("worker-1"))?;
    /// let (tell, told) = channel();
    /// let listener = session.listen(move |letter| {
    ///     tell.send(letter.payload.to_vec()).unwrap();
    ///     Ok(())
    /// })?;
    /// db.sessions().send("worker-1", "stop")?;
    /// assert_eq!(told.recv().unwrap(), b"stop");
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn listen(
        &self,
        mut handle: impl FnMut(Letter) -> Result<()> + Send + 'static,
    ) -> Result<Listener> {
        let (core, stop) = (self.0.clone(), Stop::default());
        core.begin_listening()?;
        let (own, stopping) = (core.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("mainstay-letters".to_owned());
        let handle = move |letter| std::future::ready(handle(letter));
        let end = Arc::<Mutex<Option<Error>>>::default();
        let ended = end.clone();
        let listening = move || *ended.lock() = wait(own.listen(&stopping, handle)).err();
        let thread = thread.spawn(listening).map_err(|error| {
            core.state.lock().is_listening = false;
            failure::no_thread(&error)
        })?;
        Ok(Listener { core, stop, end, thread: Some(thread) })
    }

    /// Opens the next session of the same name where this one is gone; does nothing where it is not. What was without an
    /// answer is not executed any more once this returns.
    pub fn reopen(&self) -> Result<()> {
        wait(self.0.open())
    }

    /// Ends it, here and at the database; says whether it was there.
    pub fn close(&self) -> Result<bool> {
        wait(self.0.close())
    }
}

/// A thread that handles requests of the server. When it goes, the letter that is being handled is handled to the end.
pub struct Listener {
    core: Arc<Core>,
    stop: Stop,
    end: Arc<Mutex<Option<Error>>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Why it handles no more: the client may not have what is sent to it. Over a server, listening needs the right to read
    /// the feed. Nothing while it goes on, or when the session was closed.
    pub fn failure(&self) -> Option<Error> {
        self.end.lock().clone()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.set(&self.core);
        let Some(thread) = self.thread.take() else { return };
        // A handler may drop its own listener.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}
