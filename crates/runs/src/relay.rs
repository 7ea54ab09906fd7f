//! The relay: sends the messages of an outbox, each at least once.
//!
//! ```text
//!   outbox --claim, for a lease--> deliver, one behind the other --> settle --ack, fail--> outbox
//!      ^                                                                                    |
//!      '------------- a revision, or something is due --- wait <--- nothing to claim -------'
//! ```
//!
//! What became of the last messages and the claim of the next ones is one transaction, so a busy relay costs one
//! sync a batch. A relay that dies leaves its messages claimed: they are claimed again when their lease is over. Of
//! a run only the first message can be claimed, so its messages arrive for the first time in their order, however
//! many relays there are. One that cannot be delivered waits longer each time and is dead in the end, and its
//! neighbours never wait for it.

mod figures;
mod file;
mod memory;
mod owed;
mod settings;
mod thread;
mod transport;

pub use figures::RelayFigures;
pub use file::FileTransport;
pub use memory::MemoryTransport;
pub use settings::RelaySettings;
pub use thread::RelayThread;
pub use transport::Transport;

use crate::worker::panicked;
use mainstay::{
    Answering, Clock, Code, Database, Error, ErrorKind, Message, Outbox, Result, Revision,
    SystemClock,
};
use owed::{Owed, Taken};
use parking_lot::Mutex;
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;

/// How long a relay rests when the database refused it.
const REST: Duration = Duration::from_millis(200);
/// The longest wait for a served database, which cannot be interrupted.
const SLICE: Duration = Duration::from_millis(250);
/// How many dead messages are looked at together.
const DEAD_PAGE: usize = 1_000;

/// Sends the messages of one outbox through one transport. Clones are the same relay.
///
/// ```
/// use mainstay::Database;
/// use mainstay_runs::relay::{MemoryTransport, Relay, RelaySettings};
/// let db = Database::memory()?;
/// let transport = MemoryTransport::new();
/// let relay = Relay::new(&db, transport.clone(), RelaySettings::default())?.start()?;
///
/// db.outbox().put("orders.done", "order-7", Some("order-7"))?;
/// assert_eq!(transport.wait_for(1)[0].subject, "orders.done");
/// assert_eq!(relay.stop().delivered, 1);
/// assert_eq!(db.outbox().state()?.pending, 0);
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Relay(Arc<Inner>);

struct Inner {
    db: Database,
    transport: Arc<dyn Transport>,
    settings: RelaySettings,
    figures: Mutex<RelayFigures>,
    stopped: AtomicBool,
    /// How many messages are claimed together: fewer where they take too long or are too large.
    batch: AtomicUsize,
}

impl Relay {
    /// A relay on a database of this process or on a served one. It does nothing until it is run.
    pub fn new(
        db: &Database,
        transport: Arc<dyn Transport>,
        settings: RelaySettings,
    ) -> Result<Relay> {
        settings.check()?;
        let (figures, stopped) = (Mutex::default(), AtomicBool::new(false));
        let (db, batch) = (db.clone(), AtomicUsize::new(settings.batch));
        Ok(Relay(Arc::new(Inner { db, transport, settings, figures, stopped, batch })))
    }

    /// Runs it on a thread of its own, with a runtime of its own.
    pub fn start(&self) -> Result<RelayThread> {
        RelayThread::start(self)
    }

    /// What it has done so far.
    pub fn figures(&self) -> RelayFigures {
        self.0.figures.lock().clone()
    }

    /// Lets it end once what it is delivering is delivered and acknowledged.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        self.0.db.interrupt();
    }

    /// Delivers what can be claimed now, one batch of it; says how many messages were claimed. It needs a
    /// tokio runtime with time.
    pub async fn round(&self) -> Result<usize> {
        let taken = self.exchange(&Owed::default(), true).await?;
        let claimed = taken.messages.len();
        let owed = self.deliver(taken).await;
        self.exchange(&owed, false).await.map(|_| claimed)
    }

    /// Delivers until it is [stopped](Relay::stop). It needs a tokio runtime with time. A future that is dropped leaves
    /// what it had claimed to whoever comes when the lease is over.
    pub async fn run(&self) {
        let mut owed = Owed::default();
        while !self.is_stopped() {
            owed = match self.turn(&owed).await {
                Ok(next) => next,
                Err(error) => self.rest(owed, &error).await,
            };
        }
        if let Err(error) = self.exchange(&owed, false).await {
            self.note(&error);
        }
    }

    /// Makes dead messages wait again, with all their tries; says how many.
    pub fn replay_dead(&self) -> Result<u64> {
        let (outbox, mut after, mut count) = (self.outbox()?, 0, 0);
        loop {
            let dead = outbox.dead(after, DEAD_PAGE)?;
            let Some(last) = dead.last() else { return Ok(count) };
            after = last.id;
            for message in dead {
                count += u64::from(outbox.replay(message.id)?);
            }
        }
    }

    fn outbox(&self) -> Result<Outbox> {
        Ok(self.0.db.branch(&self.0.settings.branch)?.outbox())
    }

    fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// Tells what became of the last messages, and delivers the next ones or waits for some.
    async fn turn(&self, owed: &Owed) -> Result<Owed> {
        // Before the claim: whatever is written behind it is heard.
        let db = self.0.db.clone();
        let seen = aside(move || db.try_revision()).await?;
        let taken = self.exchange(owed, true).await?;
        if taken.messages.is_empty() {
            self.wait(seen, taken.due_in).await?;
        }
        Ok(self.deliver(taken).await)
    }

    /// One transaction: what became of messages, the claim of the next, and a look at all.
    async fn exchange(&self, owed: &Owed, claims: bool) -> Result<Taken> {
        let batch = claims.then(|| self.0.batch.load(Ordering::Relaxed));
        let transaction = owed.transaction(&self.0.settings, batch);
        let taken = match self.0.db.submit(transaction).await {
            Ok(receipt) => owed::read(receipt)?,
            Err(error) => {
                if error.kind() == ErrorKind::TooLarge {
                    self.claim_fewer();
                }
                return Err(error);
            }
        };
        self.0.figures.lock().exchanged(&taken);
        Ok(taken)
    }

    /// Delivers messages one behind the other and lets them stay.
    async fn deliver(&self, taken: Taken) -> Owed {
        let (clock, lease, mut owed) =
            (SystemClock::new(), self.0.settings.lease(), Owed::of(taken.now));
        let passed = || Duration::from_micros(clock.monotonic_us());
        for message in taken.messages {
            if passed() > lease / 2 {
                // Whoever claims it next delivers it: here it might come behind one that was sent elsewhere.
                self.claim_fewer();
                break;
            }
            let delivered = self.deliver_one(&message, lease.saturating_sub(passed())).await;
            owed.add(message.id, delivered);
        }
        self.settle(owed, lease.saturating_sub(passed())).await
    }

    async fn deliver_one(&self, message: &Message, within: Duration) -> Result<()> {
        let what = || format!("transport `{}`", self.0.transport.name());
        let call = || self.0.transport.deliver(message);
        guarded(&what, within, call).await
    }

    async fn settle(&self, mut owed: Owed, within: Duration) -> Owed {
        if !owed.delivered.is_empty() {
            let what = || format!("transport `{}`", self.0.transport.name());
            if let Err(error) = guarded(&what, within, || self.0.transport.settle()).await {
                owed.fail_all(&error);
            } else {
                self.claim_more();
            }
        }
        self.0.figures.lock().delivered(&owed);
        owed
    }

    fn claim_fewer(&self) {
        let fewer = |batch: usize| Some((batch / 2).max(1));
        // The function always gives a number.
        let _ = self.0.batch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }

    fn claim_more(&self) {
        let more = |batch: usize| Some((batch + 1).min(self.0.settings.batch));
        let _ = self.0.batch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Waits for a revision, for something to be due, or for the end.
    async fn wait(&self, seen: Revision, due_in: Option<Duration>) -> Result<()> {
        let longest = due_in.map_or(self.0.settings.poll(), |due| due.min(self.0.settings.poll()));
        let relay = self.clone();
        aside(move || relay.wait_here_or_there(seen, longest)).await
    }

    fn wait_here_or_there(&self, seen: Revision, longest: Duration) -> Result<()> {
        let db = &self.0.db;
        if db.is_here() {
            return db.wait_for_unless(seen + 1, longest, &self.0.stopped);
        }
        match db.wait_for(seen + 1, longest.min(SLICE)) {
            Err(error) if error.code() == Code::TimedOut => Ok(()),
            answer => answer,
        }
    }

    /// The database did not do as told: what is owed is told again.
    async fn rest(&self, owed: Owed, error: &Error) -> Owed {
        self.note(error);
        match error.kind() {
            ErrorKind::Closed => self.stop(),
            _ => tokio::time::sleep(REST).await,
        }
        owed
    }

    fn note(&self, error: &Error) {
        let mut figures = self.0.figures.lock();
        figures.errors += 1;
        figures.last_error = Some(error.to_string());
    }
}

/// Does what blocks, beside the runtime's own work.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::new(Code::Unsupported, error.to_string())))
}

/// What a transport says, within a time; a panic is an error as well.
async fn guarded<'t>(
    what: &impl Fn() -> String,
    within: Duration,
    call: impl FnOnce() -> Answering<'t, ()>,
) -> Result<()> {
    let caught = |panic: Box<dyn Any + Send>| Err(panicked(&what(), &*panic));
    // What a panic left half done is the transport's own.
    let mut answer = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => answer,
        Err(panic) => return caught(panic),
    };
    let answer = poll_fn(|context| {
        let poll = || answer.as_mut().poll(context);
        catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|panic| Poll::Ready(caught(panic)))
    });
    timeout(within, answer).await.unwrap_or_else(|_| {
        let message = format!("{} was not done within the lease", what());
        Err(Error::new(Code::TimedOut, message))
    })
}
