//! The sequencer: a two-stage commit pipeline with a single writer and group commit.
//!
//! ```text
//!   enter -> queue -- take --> executor -> group (forming) -- log --> log: write, sync
//!            the caller that takes         | the next round executes     |
//!            the executor lock runs        | while the last one syncs    v
//!            everything in the queue                           publish, answer
//! ```
//!
//! - The two stages are *execute* ([`execute`]) and *log* ([`group_commit`]). Each has a lock, which
//!   any thread takes that finds it free. A caller that is alone does both stages itself, without a
//!   hand-off. Otherwise the log thread does the second.
//! - A thread that leaves a stage rechecks for work that arrived meanwhile, so that no work is left
//!   behind: a caller either takes the stage, or the thread in it sees the caller's work. This is why
//!   other modules reach the executor only through [`Sequencer::with_exec`].
//! - The durability of a transaction decides when it becomes visible and is answered. A group is
//!   published when it is written, and synced before that if any of its transactions asks for it.
//! - Answers are given with no lock held ([`callbacks`]), because a callback may submit, execute, close
//!   or panic.
//! - Without a background ([`Options::background`](crate::lifecycle::options::Options::background)) the log thread does not
//!   exist. Each caller brings everything submitted before through both stages, waiting for other
//!   callers that are in them.
//! - The log thread runs callbacks, too. Before it waits inside one, it does the work that other
//!   threads leave to it ([`Sequencer::drain`]), because no other thread would.

mod callbacks;
mod execute;
mod group_commit;
mod session_reads;

use crate::base::clock::{Clock, SystemClock};
use crate::base::fault_points::{self, InjectedFault};
use crate::base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::thread::Thread;
use crate::base::sync::{Condvar, Mutex};
use crate::commit::executor::{Executor, SharedState};
use crate::commit::prepared::PreparedTransaction;
use crate::commit::ticket::{Batch, Completion, Ticket, Waiter};
use crate::log::{Chain, LogWriter};
use execute::{QueuedWork, SubmitQueue};
use group_commit::{Group, LogStage};
use mainstay_model::{Code, Durability, Error, Receipt, Result, Revision};
use session_reads::SessionSnapshot;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Model checking runs few threads on short schedules, so limits must be small to be reached. A caller
/// that waits for room is already counted, so the limit must be at least the number of threads that
/// submit one by one. 65,536 threads never do.
const MODELS: bool = cfg!(feature = "model-checking");

/// The most transactions in flight. A further one waits until one is done.
pub(crate) const IN_FLIGHT_LIMIT: usize = if MODELS { 3 } else { 65_536 };

/// The most transactions of a batch that enter at once; far fewer than may be in flight.
const CHUNK_LIMIT: usize = if MODELS { 2 } else { 1024 };

/// The bounds of the limit for bytes that wait for the log; within them the limit is the size of a
/// write buffer. This keeps the disk busy. More would only add latency, because the next writer waits
/// for all of these bytes.
const UNWRITTEN_LIMIT_BYTES: RangeInclusive<u64> = 16 << 20..=128 << 20;

/// The most sealed write buffers. With this many, writers wait until one is flushed.
pub(crate) const SEALED_LIMIT: usize = if MODELS { 1 } else { 5 };

/// How long a writer waits for buffers whose flush fails, in microseconds.
const STUCK_US: u64 = 5_000_000;

pub struct Sequencer {
    pub state: Arc<SharedState>,
    durability: Durability,
    sync_interval: Duration,
    /// True if a log thread exists. Without one, each caller brings its work through both stages.
    background: bool,
    queue: Mutex<SubmitQueue>,
    exec: Mutex<Executor>,
    group: Mutex<Group>,
    log: Mutex<LogStage>,
    /// True while the log's holder is in fsync. The thread that ends a sync checks the queue, or wakes
    /// the log thread, which does.
    syncing: AtomicBool,
    /// The number of the group that forms.
    forming: AtomicU32,
    /// Groups that were answered, whose memory is reused.
    spares: Mutex<Vec<Group>>,
    published: AtomicU64,
    durable: AtomicU64,
    /// A sync failed, or the lock was lost: nothing is written until the database is reopened.
    failed: AtomicBool,
    /// The reason, if it was no failed sync.
    refusal: parking_lot::Mutex<Option<Error>>,
    closed: AtomicBool,
    in_flight: AtomicUsize,
    unwritten_bytes: AtomicUsize,
    unwritten_limit_bytes: usize,
    /// The log's segment is half full: the background should prepare the next one.
    wants_segment: AtomicBool,
    /// The last flush failed: waiting for room may be in vain.
    flush_failed: AtomicBool,
    /// The error, and the time since when flushes fail.
    flush_failure: parking_lot::Mutex<Option<(Error, u64)>>,
    /// The log's last write found the disk full.
    log_full: AtomicBool,
    log_full_error: parking_lot::Mutex<Option<Error>>,
    room: Mutex<()>,
    room_made: Condvar,
    log_thread: OnceLock<Thread>,
    log_idle: AtomicBool,
    /// The number of threads that wait for a revision to become visible or durable.
    listening: AtomicUsize,
    moved: Mutex<()>,
    moved_on: Condvar,
    /// Called when the background has work. Without a background, called to flush full buffers.
    on_work: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The clock of the sync interval and of stalls: the machine's. Without a background it is the
    /// database's, because no thread sleeps.
    clock: Arc<dyn Clock>,
    longest_stall_us: AtomicU64,
    /// The sessions that are read after a failed sync.
    remembered: Mutex<Option<Arc<SessionSnapshot>>>,
}

/// The options of a database that concern commits.
pub struct CommitOptions {
    pub durability: Durability,
    pub sync_interval: Duration,
    pub background: bool,
    pub clock: Arc<dyn Clock>,
    pub write_buffer_bytes: u64,
}

impl Sequencer {
    pub fn new(
        state: Arc<SharedState>,
        executor: Executor,
        writer: LogWriter,
        chain: Chain,
        options: CommitOptions,
    ) -> Sequencer {
        let clock: Arc<dyn Clock> =
            if options.background { Arc::new(SystemClock::new()) } else { options.clock };
        let (least, most) = UNWRITTEN_LIMIT_BYTES.into_inner();
        let unwritten_limit_bytes = options.write_buffer_bytes.clamp(least, most);
        let written = executor.executed();
        let log = LogStage::new(writer, written, executor.stamper.last(), chain);
        Sequencer {
            state,
            durability: options.durability,
            sync_interval: options.sync_interval,
            background: options.background,
            queue: Mutex::default(),
            exec: Mutex::new(executor),
            group: Mutex::default(),
            log: Mutex::new(log),
            syncing: AtomicBool::new(false),
            forming: AtomicU32::new(0),
            spares: Mutex::default(),
            published: AtomicU64::new(written),
            durable: AtomicU64::new(written),
            failed: AtomicBool::new(false),
            refusal: parking_lot::Mutex::new(None),
            closed: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            unwritten_bytes: AtomicUsize::new(0),
            unwritten_limit_bytes: unwritten_limit_bytes as usize,
            wants_segment: AtomicBool::new(false),
            flush_failed: AtomicBool::new(false),
            flush_failure: parking_lot::Mutex::new(None),
            log_full: AtomicBool::new(false),
            log_full_error: parking_lot::Mutex::new(None),
            room: Mutex::new(()),
            room_made: Condvar::new(),
            log_thread: OnceLock::new(),
            log_idle: AtomicBool::new(false),
            listening: AtomicUsize::new(0),
            moved: Mutex::new(()),
            moved_on: Condvar::new(),
            on_work: OnceLock::new(),
            clock,
            longest_stall_us: AtomicU64::new(0),
            remembered: Mutex::default(),
        }
    }

    /// Sets the function to call when a write buffer was sealed or a segment is half full.
    pub fn when_work(&self, tell: impl Fn() + Send + Sync + 'static) {
        // Set once, when the database is opened.
        let _ = self.on_work.set(Box::new(tell));
    }

    fn tell_workers(&self) {
        if self.background {
            self.on_work.get().inspect(|tell| tell());
        }
    }

    /// Returns whether the log's segment is half full.
    pub fn wants_segment(&self) -> bool {
        self.wants_segment.load(Ordering::Relaxed)
    }

    /// The newest revision that readers see.
    #[inline]
    pub fn published(&self) -> Revision {
        // Acquire: pairs with the store in `log_group`, so that the reader sees all effects up to this
        // revision.
        self.published.load(Ordering::Acquire)
    }

    /// The newest revision on stable storage.
    pub fn durable(&self) -> Revision {
        // Acquire: pairs with the store in `sync_log`.
        self.durable.load(Ordering::Acquire)
    }

    /// Submits a transaction and waits for its answer. Does the work itself if no other thread does it.
    pub fn execute(&self, transaction: impl Into<PreparedTransaction>) -> Result<Receipt> {
        let submitted = transaction.into();
        if session_reads::is_session_read(&submitted.transaction) {
            self.wait_to_read_sessions(submitted.transaction)
        } else {
            self.wait_on(QueuedWork::Run(submitted))
        }
    }

    /// Waits until everything submitted before is on stable storage. Never waits for room, because the
    /// flush, which makes room, calls it.
    pub fn sync(&self) -> Result<Revision> {
        self.wait_on(QueuedWork::Sync).map(|receipt| receipt.revision)
    }

    fn wait_on(&self, work: QueuedWork) -> Result<Receipt> {
        Waiter::with_seat(|waiter| self.wait_at(work, waiter))
    }

    fn wait_at(&self, work: QueuedWork, waiter: &Arc<Waiter>) -> Result<Receipt> {
        // A sync only waits for other transactions. With a background it leaves the work to the other
        // threads: the flush calls it at a lower priority than writers.
        let hands_on = !matches!(work, QueuedWork::Sync) || !self.background;
        self.enter(work, Completion::Waiter(waiter.clone()));
        if hands_on {
            self.run_log_stage_unless(waiter)
        } else {
            self.wake_log()
        }
        waiter.wait()
    }

    /// Does the log's work for a waiter that has no answer yet.
    fn run_log_stage_unless(&self, waiter: &Waiter) {
        if waiter.is_done() {
            // The transaction failed, but its round may have executed transactions of other callers.
            self.wake_log()
        } else {
            self.run_log_stage()
        }
    }

    /// Submits several transactions that do not depend on each other, and waits for all. Each has its
    /// own answer.
    pub fn execute_all(&self, transactions: Vec<PreparedTransaction>) -> Vec<Result<Receipt>> {
        if transactions.is_empty() {
            return Vec::new();
        }
        Waiter::with_seat(|waiter| {
            let batch = Batch::new(transactions.len(), waiter);
            let mut parts = transactions
                .into_iter()
                .enumerate()
                .map(|(place, transaction)| (transaction, Completion::Part(batch.clone(), place)));
            loop {
                let chunk: Vec<_> = parts.by_ref().take(CHUNK_LIMIT).collect();
                if chunk.is_empty() {
                    break;
                }
                self.enter_all(chunk);
                self.run_log_stage_unless(waiter);
            }
            batch.wait()
        })
    }

    /// Submits a transaction. The ticket receives its answer.
    pub fn submit(&self, transaction: impl Into<PreparedTransaction>) -> Ticket {
        let waiter: Arc<Waiter> = Arc::default();
        self.submit_to(transaction.into(), Completion::Waiter(waiter.clone()));
        Ticket::new(waiter)
    }

    /// Submits a transaction. The callback is called with its answer, on the thread that has it first.
    pub fn submit_with(
        &self,
        transaction: impl Into<PreparedTransaction>,
        done: impl FnOnce(Result<Receipt>) + Send + 'static,
    ) {
        self.submit_to(transaction.into(), Completion::Callback(Box::new(done)));
    }

    fn submit_to(&self, submitted: PreparedTransaction, completion: Completion) {
        self.enter(QueuedWork::Run(submitted), completion);
        self.wake_log();
    }

    /// Runs `hold` with the executor locked, then executes the work that was queued meanwhile.
    pub fn with_exec<T>(&self, hold: impl FnOnce(&mut Executor) -> T) -> T {
        let held = hold(&mut self.exec.lock());
        self.recheck_queue();
        held
    }

    /// Reads the wall clock, unless another thread holds the executor; that thread reads the clock
    /// itself.
    pub fn look_at_clock(&self) {
        if let Some(mut exec) = self.exec.try_lock() {
            exec.now();
            drop(exec);
            self.recheck_queue();
        }
    }

    /// Executes work of callers that found the executor taken.
    fn recheck_queue(&self) {
        if fault_points::is(InjectedFault::CombineOnce) {
            return;
        }
        self.combine_queued();
        self.wake_log();
    }

    /// Waits until everything executed is visible, so that a new snapshot sees it; at most 100 ms.
    pub fn settle(&self) {
        let executed = self.with_exec(|exec| exec.executed());
        if self.published() < executed {
            self.wait_until(Duration::from_millis(100), || self.published() >= executed);
        }
    }

    /// Executes the queue and waits until it is visible, so that a new snapshot sees everything the
    /// caller submitted before.
    pub fn settle_queued(&self) {
        // Inside a callback this would wait for the thread that runs the callback.
        if self.in_flight() == 0 || callbacks::is_calling() {
            return;
        }
        self.execute_queued();
        let mut executed = self.with_exec(|exec| exec.executed());
        while self.published() < executed && !self.is_closed() && !self.is_read_only() {
            self.wait_until(Duration::from_millis(100), || self.published() >= executed);
            // A full disk takes executed transactions back: they never become visible.
            executed = executed.min(self.with_exec(|exec| exec.executed()));
        }
    }

    /// Returns whether this thread may be running a caller's callback.
    pub fn is_calling(&self) -> bool {
        callbacks::is_calling()
    }

    fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(closed());
        }
        self.check_sound()
    }

    /// Fails if writes are refused. A closed database passes, because closing lets the log finish.
    #[inline]
    fn check_sound(&self) -> Result<()> {
        if self.is_read_only() { Err(self.why_refused()) } else { Ok(()) }
    }

    #[cold]
    fn why_refused(&self) -> Error {
        self.refusal.lock().clone().unwrap_or_else(|| {
            let message =
                "a sync of the log failed: nothing is written until the database is reopened";
            Error::new(Code::SyncFailed, message)
        })
    }

    /// Waits while too many transactions are in flight, then counts `more` of them. They are not
    /// counted before, because waiting callers would keep each other out.
    fn wait_for_room(&self, more: usize) -> Result<()> {
        if !self.background {
            self.make_room()?;
        }
        // A callback that submits must not wait: the answers that would make room come after it on this
        // thread.
        if callbacks::is_calling() {
            self.in_flight.fetch_add(more, Ordering::Relaxed);
            return Ok(());
        }
        let begun = self.clock.monotonic_us();
        let mut room = self.room.lock();
        let mut waited = 0;
        let is_crowded = || self.in_flight.load(Ordering::Relaxed) + more > IN_FLIGHT_LIMIT;
        while self.is_full() || is_crowded() {
            self.check_open()?;
            if let Some(stuck) = self.stuck() {
                return Err(stuck);
            }
            self.room_made.wait_for(&mut room, Duration::from_millis(10));
            waited = self.clock.monotonic_us() - begun;
            if !self.background {
                drop(room);
                self.make_room()?;
                room = self.room.lock();
            }
        }
        self.longest_stall_us.fetch_max(waited, Ordering::Relaxed);
        self.check_open()?;
        // The lock is still held, so that waiting callers are admitted one after the other.
        self.in_flight.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// Without a background: flushes full buffers on this thread. The caller must hold no lock.
    #[cold]
    fn make_room(&self) -> Result<()> {
        if !self.has_full_buffers() {
            return Ok(());
        }
        self.on_work.get().inspect(|make| make());
        // Inside a callback, a function further down this stack may be flushing. It finishes after the
        // callback.
        if self.has_full_buffers() && self.flush_failed.load(Ordering::Relaxed) {
            return Err(self.cannot_flush());
        }
        Ok(())
    }

    /// Returns an error if waiting for room is in vain. A full disk fails at once, because the caller
    /// may be an event loop with other connections to serve. Any other failure may be short. Writers
    /// wait for it [`STUCK_US`] from the first failed flush, so the wait happens once and not once per
    /// writer.
    fn stuck(&self) -> Option<Error> {
        if !self.has_full_buffers() || !self.flush_failed.load(Ordering::Relaxed) {
            return None;
        }
        let (code, since_us) = {
            let failure = self.flush_failure.lock();
            let (error, since_us) = failure.as_ref()?;
            (error.code(), *since_us)
        };
        let is_over = self.clock.monotonic_us().saturating_sub(since_us) > STUCK_US;
        (code == Code::DiskFull || is_over).then(|| self.cannot_flush())
    }

    #[cold]
    fn cannot_flush(&self) -> Error {
        let failure = self.flush_failure.lock();
        let Some((error, _)) = failure.as_ref() else { return stuck() };
        let message = format!(
            "the write buffers are full and cannot be flushed: {}; writes resume when they can",
            error.message()
        );
        let code = if error.code() == Code::DiskFull { Code::DiskFull } else { Code::QueueFull };
        Error::new(code, message)
    }

    /// Returns why a write would be refused now; `None` while writes are accepted.
    pub fn write_refusal(&self) -> Option<Error> {
        self.check_sound()
            .err()
            .or_else(|| self.stuck())
            .or_else(|| self.log_full_error.lock().clone())
    }

    /// Returns whether the log's last write found the disk full.
    pub fn is_log_full(&self) -> bool {
        self.log_full.load(Ordering::Relaxed)
    }

    /// Records whether the log accepts writes: `None` if it does.
    pub fn note_log_full(&self, error: Option<&Error>) {
        *self.log_full_error.lock() = error.cloned();
        self.log_full.store(error.is_some(), Ordering::Relaxed);
    }

    /// Returns how much of the room for unflushed writes is used, from 0 to 1.
    pub fn flush_backlog(&self) -> f64 {
        let sealed = self.state.sealed.load(Ordering::Relaxed);
        (sealed as f64 / SEALED_LIMIT as f64).min(1.0)
    }

    /// Returns whether a caller that submits now may wait: another transaction executes or is queued,
    /// or room is short.
    pub fn is_busy(&self) -> bool {
        // Does not take the lock, because a thread that takes the executor must recheck the queue when
        // it leaves.
        self.has_queued() || self.is_full() || self.exec.is_locked()
    }

    /// Waits until the flush backlog is below `backlog`. Returns early after `timeout`, if flushes
    /// fail, if the database has no background, or if it is closed.
    pub fn wait_for_flushes(&self, backlog: f64, timeout: Duration) {
        let is_vain = || !self.background || self.flush_failed.load(Ordering::Relaxed);
        let begun_us = self.clock.monotonic_us();
        let is_over = || self.clock.monotonic_us() - begun_us >= timeout.as_micros() as u64;
        let mut room = self.room.lock();
        while self.flush_backlog() >= backlog && !is_over() && !is_vain() && !self.is_closed() {
            self.room_made.wait_for(&mut room, Duration::from_millis(10));
        }
    }

    fn has_full_buffers(&self) -> bool {
        self.state.sealed.load(Ordering::Relaxed) >= SEALED_LIMIT
    }

    fn is_full(&self) -> bool {
        self.has_full_buffers()
            || self.unwritten_bytes.load(Ordering::Relaxed) >= self.unwritten_limit_bytes
    }

    /// Records the outcome of a flush and wakes the writers that wait for a buffer. If it failed, they
    /// get its error.
    pub fn buffers_flushed(&self, flushed: std::result::Result<usize, &Error>) {
        {
            let mut failure = self.flush_failure.lock();
            let since_us = failure.as_ref().map(|(_, since_us)| *since_us);
            let since_us = since_us.unwrap_or_else(|| self.clock.monotonic_us());
            *failure = flushed.err().map(|error| (error.clone(), since_us));
        }
        self.flush_failed.store(flushed.is_err(), Ordering::Relaxed);
        self.state.sealed.fetch_sub(flushed.unwrap_or(0), Ordering::Relaxed);
        drop(self.room.lock());
        self.room_made.notify_all();
    }

    /// The number of transactions in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The number of bytes that wait for the log.
    pub fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes.load(Ordering::Relaxed)
    }

    /// The longest time that a writer waited for room, in microseconds.
    pub fn longest_stall_us(&self) -> u64 {
        self.longest_stall_us.load(Ordering::Relaxed)
    }

    fn leave(&self, count: usize) {
        let before = self.in_flight.fetch_sub(count, Ordering::Relaxed);
        // A caller asks for at most `CHUNK_LIMIT` places, so below this none waits for a place. The lock
        // is not taken: a lost wake-up costs at most the 10 ms that `wait_for_room` sleeps. Callers that
        // wait for unwritten bytes rely on these 10 ms, too.
        if before + CHUNK_LIMIT > IN_FLIGHT_LIMIT {
            self.room_made.notify_all();
        }
    }

    /// Refuses writes until the database is reopened.
    #[cold]
    fn set_read_only(&self) {
        // Release: a thread that sees the flag (Acquire in `is_read_only`) also sees the reason in
        // `refusal`.
        self.failed.store(!fault_points::is(InjectedFault::LatchForgotten), Ordering::Release);
        self.tell_listeners();
    }

    /// Refuses writes until the database is reopened, with a reason. No data is known to be lost, but
    /// another process may write.
    #[cold]
    pub fn refuse_writes(&self, why: &Error) {
        self.refusal.lock().get_or_insert_with(|| why.clone());
        self.set_read_only();
    }

    /// Returns whether writes are refused because a sync failed or the lock was lost.
    pub fn is_read_only(&self) -> bool {
        // Acquire: pairs with `set_read_only`.
        self.failed.load(Ordering::Acquire)
    }

    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with the store in `close`.
        self.closed.load(Ordering::Acquire)
    }

    /// Wakes the threads that wait for a revision to become visible or durable.
    pub fn tell_listeners(&self) {
        // SeqCst, after the store of the revision: either this load sees the waiter that registered in
        // `wait_until`, or that waiter's check sees the new revision.
        if self.listening.load(Ordering::SeqCst) > 0 {
            if !fault_points::is(InjectedFault::ToldWithoutLock) {
                // A waiter holds this lock from its check to its wait, so the notification cannot fall
                // in between.
                drop(self.moved.lock());
            }
            self.moved_on.notify_all();
        }
    }

    /// Waits until `ready` returns true, which is checked whenever a revision moves. Returns false on
    /// timeout or close.
    pub fn wait_until(&self, timeout: Duration, mut ready: impl FnMut() -> bool) -> bool {
        // SeqCst, before the first check of the revision: see `tell_listeners`.
        self.listening.fetch_add(1, Ordering::SeqCst);
        let begun = self.clock.monotonic_us();
        let mut moved = self.moved.lock();
        let done = loop {
            if ready() {
                break true;
            }
            let waited = Duration::from_micros(self.clock.monotonic_us() - begun);
            let Some(left) = timeout.checked_sub(waited).filter(|left| !left.is_zero()) else {
                break false;
            };
            if self.is_closed() {
                break false;
            }
            self.moved_on.wait_for(&mut moved, left);
        };
        drop(moved);
        // SeqCst only for one order with the increment: a late decrement costs one needless
        // notification.
        self.listening.fetch_sub(1, Ordering::SeqCst);
        done
    }
}

#[cold]
fn stuck() -> Error {
    let message =
        "the write buffers are full and cannot be flushed: see the database's last failure";
    Error::new(Code::QueueFull, message)
}

fn closed() -> Error {
    Error::new(Code::Closed, "the database was closed")
}
