//! Outbox relay: delivers messages at least once.
//!
//! ```text
//!   outbox --claim, for a lease--> deliver, one after another --> settle --ack, fail--> outbox
//!      ^                                                                                    |
//!      '------------- a new revision, or a message is due --- wait <--- nothing to claim ---'
//! ```
//!
//! One transaction settles the last messages and claims the next ones, so a busy relay costs one fsync per
//! batch. The messages of a relay that died stay claimed until their lease ends. Only the first message of a
//! run can be claimed. Therefore a run's messages first arrive in order, however many relays exist. A message
//! that cannot be delivered waits longer after each try and is finally dead. Other messages never wait for
//! it.

mod ack_buffer;
mod file;
mod memory;
mod settings;
mod stats;
mod thread;
mod transport;

pub use file::FileTransport;
pub use memory::MemoryTransport;
pub use settings::RelaySettings;
pub use stats::RelayStats;
pub use thread::RelayThread;
pub use transport::Transport;

use crate::threads::panic_error;
use ack_buffer::{AckBuffer, ClaimReply};
use mainstay::{
    Answering, Clock, Code, Database, Error, ErrorKind, Message, Outbox, Result, Revision,
    SystemClock,
};
use parking_lot::Mutex;
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;

/// The pause after an error of the database.
const ERROR_PAUSE: Duration = Duration::from_millis(200);
/// The longest wait on a remote database, because that wait cannot be interrupted.
const REMOTE_WAIT: Duration = Duration::from_millis(250);
/// The page size for dead messages.
const DEAD_PAGE: usize = 1_000;

/// Delivers the messages of one outbox through one transport. Clones share the relay.
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
pub struct Relay(Arc<RelayShared>);

struct RelayShared {
    db: Database,
    transport: Arc<dyn Transport>,
    settings: RelaySettings,
    stats: Mutex<RelayStats>,
    stopped: AtomicBool,
    /// The current batch size. It shrinks when deliveries take too long or batches are too large.
    batch: AtomicUsize,
}

impl Relay {
    /// Creates a relay on an embedded or a remote database. It does nothing until it is run.
    pub fn new(
        db: &Database,
        transport: Arc<dyn Transport>,
        settings: RelaySettings,
    ) -> Result<Relay> {
        settings.check()?;
        let stats = Mutex::default();
        let stopped = AtomicBool::new(false);
        let db = db.clone();
        let batch = AtomicUsize::new(settings.batch);
        Ok(Relay(Arc::new(RelayShared { db, transport, settings, stats, stopped, batch })))
    }

    /// Runs the relay on its own thread with its own runtime.
    pub fn start(&self) -> Result<RelayThread> {
        RelayThread::start(self)
    }

    /// The totals so far.
    pub fn stats(&self) -> RelayStats {
        self.0.stats.lock().clone()
    }

    /// Stops the relay after the current deliveries are finished and acknowledged.
    pub fn stop(&self) {
        // Synchronizes with the loads in `is_stopped` and in the interrupted wait: they must see the flag
        // after `interrupt`.
        self.0.stopped.store(true, Ordering::SeqCst);
        self.0.db.interrupt();
    }

    /// Delivers one batch of the messages that can be claimed now. Returns the number claimed. It needs a
    /// tokio runtime with time.
    pub async fn round(&self) -> Result<usize> {
        let reply = self.exchange(&AckBuffer::default(), true).await?;
        let claimed = reply.messages.len();
        let acks = self.deliver(reply).await;
        self.exchange(&acks, false).await.map(|_| claimed)
    }

    /// Delivers until it is [stopped](Relay::stop). It needs a tokio runtime with time. If the future is
    /// dropped, its claimed messages can be claimed again when the lease ends.
    pub async fn run(&self) {
        let mut acks = AckBuffer::default();
        while !self.is_stopped() {
            acks = match self.run_cycle(&acks).await {
                Ok(next) => next,
                Err(error) => self.pause_after_error(acks, &error).await,
            };
        }
        if let Err(error) = self.exchange(&acks, false).await {
            self.record_error(&error);
        }
    }

    /// Makes dead messages pending again, with all their tries. Returns their number.
    pub fn replay_dead(&self) -> Result<u64> {
        let outbox = self.outbox()?;
        let mut after = 0;
        let mut count = 0;
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
        // Synchronizes with the store in `stop`.
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// Settles the last messages, then delivers the next ones or waits.
    async fn run_cycle(&self, acks: &AckBuffer) -> Result<AckBuffer> {
        // Read the revision before the claim, so that any message written after the claim ends the wait.
        let db = self.0.db.clone();
        let revision = run_blocking(move || db.try_revision()).await?;
        let reply = self.exchange(acks, true).await?;
        if reply.messages.is_empty() {
            self.wait(revision, reply.due_in).await?;
        }
        Ok(self.deliver(reply).await)
    }

    /// Settles messages, claims the next ones and reads the outbox's counts, in one transaction.
    async fn exchange(&self, acks: &AckBuffer, claims: bool) -> Result<ClaimReply> {
        let batch = claims.then(|| self.0.batch.load(Ordering::Relaxed));
        let transaction = acks.transaction(&self.0.settings, batch);
        let reply = match self.0.db.submit(transaction).await {
            Ok(receipt) => ack_buffer::decode_reply(receipt)?,
            Err(error) => {
                if error.kind() == ErrorKind::TooLarge {
                    self.claim_fewer();
                }
                return Err(error);
            }
        };
        self.0.stats.lock().add_reply(&reply);
        Ok(reply)
    }

    /// Delivers messages one after another, then settles the transport.
    async fn deliver(&self, reply: ClaimReply) -> AckBuffer {
        let clock = SystemClock::new();
        let lease = self.0.settings.lease();
        let mut acks = AckBuffer::of(reply.now);
        let elapsed = || Duration::from_micros(clock.monotonic_us());
        for message in reply.messages {
            if elapsed() > lease / 2 {
                // Stop at half the lease; the next claimer delivers the rest. A message delivered late here
                // could arrive after one that another relay delivered.
                self.claim_fewer();
                break;
            }
            let delivered = self.deliver_one(&message, lease.saturating_sub(elapsed())).await;
            acks.add(message.id, delivered);
        }
        self.flush_transport(acks, lease.saturating_sub(elapsed())).await
    }

    async fn deliver_one(&self, message: &Message, limit: Duration) -> Result<()> {
        let what = || format!("transport `{}`", self.0.transport.name());
        call_transport(&what, limit, || self.0.transport.deliver(message)).await
    }

    async fn flush_transport(&self, mut acks: AckBuffer, limit: Duration) -> AckBuffer {
        if !acks.delivered.is_empty() {
            let what = || format!("transport `{}`", self.0.transport.name());
            if let Err(error) = call_transport(&what, limit, || self.0.transport.flush()).await {
                acks.fail_all(&error);
            } else {
                self.claim_more();
            }
        }
        self.0.stats.lock().add_batch(&acks);
        acks
    }

    fn claim_fewer(&self) {
        let fewer = |batch: usize| Some((batch / 2).max(1));
        // The closure always returns `Some`, so the update cannot fail.
        let _ = self.0.batch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }

    fn claim_more(&self) {
        let _ = self.0.batch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |batch| {
            Some((batch + 1).min(self.0.settings.batch))
        });
    }

    /// Waits for a new revision, for the next due message, or for the stop.
    async fn wait(&self, revision: Revision, due_in: Option<Duration>) -> Result<()> {
        let longest = due_in.map_or(self.0.settings.poll(), |due| due.min(self.0.settings.poll()));
        let relay = self.clone();
        run_blocking(move || relay.wait_for_revision(revision, longest)).await
    }

    fn wait_for_revision(&self, revision: Revision, longest: Duration) -> Result<()> {
        let db = &self.0.db;
        if db.is_here() {
            return db.wait_for_unless(revision + 1, longest, &self.0.stopped);
        }
        match db.wait_for(revision + 1, longest.min(REMOTE_WAIT)) {
            Err(error) if error.code() == Code::TimedOut => Ok(()),
            answer => answer,
        }
    }

    /// After a failed transaction, pauses and keeps the results for the next try.
    async fn pause_after_error(&self, acks: AckBuffer, error: &Error) -> AckBuffer {
        self.record_error(error);
        match error.kind() {
            ErrorKind::Closed => self.stop(),
            _ => tokio::time::sleep(ERROR_PAUSE).await,
        }
        acks
    }

    fn record_error(&self, error: &Error) {
        let mut stats = self.0.stats.lock();
        stats.errors += 1;
        stats.last_error = Some(error.to_string());
    }
}

/// Runs blocking work outside the async runtime's threads.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|error| Err(Error::new(Code::Unsupported, error.to_string())))
}

/// Calls a transport with a timeout. A panic becomes an error.
async fn call_transport<'t>(
    what: &impl Fn() -> String,
    limit: Duration,
    call: impl FnOnce() -> Answering<'t, ()>,
) -> Result<()> {
    let to_error = |panic: Box<dyn Any + Send>| Err(panic_error(&what(), &*panic));
    // `AssertUnwindSafe` is correct: state left inconsistent by a panic belongs to the transport alone.
    let mut answer = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => answer,
        Err(panic) => return to_error(panic),
    };
    let answer = poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)))
            .unwrap_or_else(|panic| Poll::Ready(to_error(panic)))
    });
    timeout(limit, answer).await.unwrap_or_else(|_| {
        let message = format!("{} was not done within the lease", what());
        Err(Error::new(Code::TimedOut, message))
    })
}
