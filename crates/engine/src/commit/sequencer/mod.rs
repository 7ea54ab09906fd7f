//! The sequencer: one writer, whole batches.
//!
//! ```text
//!   enter -> queue --combine--> executor -> group (forming) --drive--> log: write, sync
//!            whoever finds the              | the next round executes     |
//!            executor free runs             | while the last one syncs    v
//!            all that queued                                    publish, answer
//! ```
//!
//! - Two stages, each a lock that whoever finds free takes: *execute* ([`execute`]) and *log*
//!   ([`group_commit`]). A caller that is alone does both itself, with no hand-off; else the log
//!   thread does the second.
//! - Whoever leaves a stage looks once more for work that came meanwhile, so none is left lying:
//!   a caller either takes the stage, or the one who holds it sees what the caller put down. That is
//!   why the executor is reached through [`Sequencer::with_exec`] alone.
//! - Answers leave, and readers see, only what the durability asked for allows: a group is published
//!   when it is written, and synced first if any of its transactions asks for that.
//! - Answers are given with no lock held ([`callbacks`]): a callback may submit, execute, close or panic.
//! - Without a background ([`Options::background`](crate::Options::background)) there is no log thread: whoever calls brings what was submitted before
//!   through both stages, waiting for others who are at them.
//! - The log thread runs callbacks, too. Before it waits in one, it does what others leave to it
//!   ([`Sequencer::drain`]): nobody else would.

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

/// Models have few threads and take short ways: limits have to be near to be met. Whoever waits for room is counted, so
/// there is room for as many as wait one by one, which 65,536 threads never do.
const MODELS: bool = cfg!(feature = "model-checking");

/// The most transactions under way at once: a further one waits until one is done.
pub(crate) const IN_FLIGHT_LIMIT: usize = if MODELS { 3 } else { 65_536 };

/// How many transactions of a batch enter at once; far fewer than may be under way.
const CHUNK_LIMIT: usize = if MODELS { 2 } else { 1024 };

/// The most bytes that may wait for the log, as many as a write buffer has, are within this: enough to keep the disk at work, and
/// no more than it writes in an instant, because whoever writes next waits for all of them.
const UNWRITTEN_LIMIT_BYTES: RangeInclusive<u64> = 16 << 20..=128 << 20;

/// The most sealed buffers: with one more, writers wait until one is flushed.
pub(crate) const SEALED_LIMIT: usize = if MODELS { 1 } else { 5 };

/// How long a writer waits for buffers that cannot be flushed.
const STUCK_US: u64 = 5_000_000;

pub(crate) struct Sequencer {
    pub state: Arc<SharedState>,
    durability: Durability,
    sync_interval: Duration,
    /// There is a log thread. Without one, whoever calls sees its work through.
    background: bool,
    queue: Mutex<SubmitQueue>,
    exec: Mutex<Executor>,
    group: Mutex<Group>,
    log: Mutex<LogStage>,
    /// Whoever has the log is syncing it. Who ends a sync looks at the queue, or wakes the log
    /// thread, which does.
    syncing: AtomicBool,
    /// The number of the group that forms.
    forming: AtomicU32,
    /// Groups that were answered, whose memory is used again.
    spares: Mutex<Vec<Group>>,
    published: AtomicU64,
    durable: AtomicU64,
    /// A sync failed, or the lock was lost: nothing is written until the database is reopened.
    failed: AtomicBool,
    /// Why, where it was no sync.
    refusal: parking_lot::Mutex<Option<Error>>,
    closed: AtomicBool,
    in_flight: AtomicUsize,
    unwritten_bytes: AtomicUsize,
    unwritten_limit_bytes: usize,
    /// The log's segment is half full: the next one should be prepared.
    wants_segment: AtomicBool,
    /// The last flush failed: waiting for room may be in vain.
    flush_failed: AtomicBool,
    /// Why, and since when flushes fail.
    flush_failure: parking_lot::Mutex<Option<(Error, u64)>>,
    /// The log's last write found the disk full.
    log_full: AtomicBool,
    log_full_error: parking_lot::Mutex<Option<Error>>,
    room: Mutex<()>,
    room_made: Condvar,
    log_thread: OnceLock<Thread>,
    log_idle: AtomicBool,
    /// Whoever waits for a revision to be visible or durable.
    listening: AtomicUsize,
    moved: Mutex<()>,
    moved_on: Condvar,
    /// Told when there is work for the background; without one, asked for room when buffers are full.
    on_work: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// What the sync interval and stalls go by: the machine's, or, where nobody waits, the database's.
    clock: Arc<dyn Clock>,
    longest_stall_us: AtomicU64,
    /// What is told of sessions after a failed sync.
    remembered: Mutex<Option<Arc<SessionSnapshot>>>,
}

/// The options of a database that concern commits.
pub(crate) struct CommitOptions {
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

    /// Says what to do when a buffer was sealed or a segment is half full.
    pub fn when_work(&self, tell: impl Fn() + Send + Sync + 'static) {
        // Set once, when the database is opened.
        let _ = self.on_work.set(Box::new(tell));
    }

    fn tell_workers(&self) {
        if self.background {
            self.on_work.get().inspect(|tell| tell());
        }
    }

    /// Whether the log's segment is half full.
    pub fn wants_segment(&self) -> bool {
        self.wants_segment.load(Ordering::Relaxed)
    }

    /// The newest revision that readers see.
    #[inline]
    pub fn published(&self) -> Revision {
        self.published.load(Ordering::Acquire)
    }

    /// The newest revision on stable storage.
    pub fn durable(&self) -> Revision {
        self.durable.load(Ordering::Acquire)
    }

    /// Submits and waits; does the work itself where nobody else is at it.
    pub fn execute(&self, transaction: impl Into<PreparedTransaction>) -> Result<Receipt> {
        let submitted = transaction.into();
        match session_reads::is_session_read(&submitted.transaction) {
            true => self.wait_to_read_sessions(submitted.transaction),
            false => self.wait_on(QueuedWork::Run(submitted)),
        }
    }

    /// Waits until everything submitted before is on stable storage. It never waits for room: the
    /// flush, which makes room, asks for it.
    pub fn sync(&self) -> Result<Revision> {
        self.wait_on(QueuedWork::Sync).map(|receipt| receipt.revision)
    }

    fn wait_on(&self, work: QueuedWork) -> Result<Receipt> {
        Waiter::with_seat(|waiter| self.wait_at(work, waiter))
    }

    fn wait_at(&self, work: QueuedWork, waiter: &Arc<Waiter>) -> Result<Receipt> {
        // Who only waits for the others leaves the work to them, if there are any: the flush runs behind writers.
        let hands_on = !matches!(work, QueuedWork::Sync) || !self.background;
        self.enter(work, Completion::Waiter(waiter.clone()));
        match hands_on {
            true => self.run_log_stage_unless(waiter),
            false => self.wake_log(),
        }
        waiter.wait()
    }

    /// Does the log's work for somebody who has no answer yet.
    fn run_log_stage_unless(&self, waiter: &Waiter) {
        match waiter.is_done() {
            // It failed, but its round may have executed what others wait for.
            true => self.wake_log(),
            false => self.run_log_stage(),
        }
    }

    /// Submits several, side by side, and waits for all; each has its own answer.
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

    /// Submits; the ticket has the answer.
    pub fn submit(&self, transaction: impl Into<PreparedTransaction>) -> Ticket {
        let waiter: Arc<Waiter> = Arc::default();
        self.submit_to(transaction.into(), Completion::Waiter(waiter.clone()));
        Ticket::here(waiter)
    }

    /// Submits; the callback gets the answer, on whichever thread has it.
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

    /// Holds the executor for a moment, then does what came meanwhile.
    pub fn with_exec<T>(&self, hold: impl FnOnce(&mut Executor) -> T) -> T {
        let held = hold(&mut self.exec.lock());
        self.recheck_queue();
        held
    }

    /// Looks at the wall clock, unless a transaction that is executed right now does.
    pub fn look_at_clock(&self) {
        if let Some(mut exec) = self.exec.try_lock() {
            exec.now();
            drop(exec);
            self.recheck_queue();
        }
    }

    /// Does what was queued by those who found the executor taken.
    fn recheck_queue(&self) {
        if fault_points::is(InjectedFault::CombineOnce) {
            return;
        }
        self.combine_queued();
        self.wake_log();
    }

    /// Waits until all that is executed is visible, so that a new snapshot sees it.
    pub fn settle(&self) {
        let executed = self.with_exec(|exec| exec.executed());
        if self.published() < executed {
            self.wait_until(Duration::from_millis(100), || self.published() >= executed);
        }
    }

    /// Executes what is queued and waits until it is visible, so that a new snapshot sees what a caller submitted before.
    pub fn settle_queued(&self) {
        // In a callback that would wait for the thread that it runs on.
        if self.in_flight() == 0 || callbacks::is_calling() {
            return;
        }
        self.execute_queued();
        self.settle();
    }

    /// Whether this thread may be running a caller's callback.
    pub fn is_calling(&self) -> bool {
        callbacks::is_calling()
    }

    fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(closed());
        }
        self.check_sound()
    }

    /// Closing lets the log finish; only a failed sync stops it.
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

    /// Waits while too much is under way, then counts so many more in. They do not count before:
    /// those who wait would keep each other out.
    fn wait_for_room(&self, more: usize) -> Result<()> {
        if !self.background {
            self.make_room()?;
        }
        // A callback that submits must not wait for the answers that come behind its own.
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
        // The lock is still held, so those who waited come in one after the other.
        self.in_flight.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// Where there is no background: has full buffers flushed, by this thread. No lock may be held.
    #[cold]
    fn make_room(&self) -> Result<()> {
        if !self.has_full_buffers() {
            return Ok(());
        }
        self.on_work.get().inspect(|make| make());
        // In a callback somebody further down may be flushing, who is done when it returns.
        if self.has_full_buffers() && self.flush_failed.load(Ordering::Relaxed) {
            return Err(self.cannot_flush());
        }
        Ok(())
    }

    /// Why waiting for room would be in vain. A full disk is told at once: whoever waits may be an event loop that has others to
    /// serve. What else keeps flushes from succeeding may be over in a moment, but it is waited for only once, not by each writer.
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

    /// Why a write would be refused now; nothing while writes are taken.
    pub fn write_refusal(&self) -> Option<Error> {
        let log_full = || self.log_full_error.lock().clone();
        self.check_sound().err().or_else(|| self.stuck()).or_else(log_full)
    }

    /// Whether the log's last write found the disk full.
    pub fn is_log_full(&self) -> bool {
        self.log_full.load(Ordering::Relaxed)
    }

    /// Notes whether the log takes writes: nothing when it does.
    pub fn note_log_full(&self, error: Option<&Error>) {
        *self.log_full_error.lock() = error.cloned();
        self.log_full.store(error.is_some(), Ordering::Relaxed);
    }

    /// How much of the room for unflushed writes is used, from 0 to 1.
    pub fn flush_backlog(&self) -> f64 {
        let sealed = self.state.sealed.load(Ordering::Relaxed);
        (sealed as f64 / SEALED_LIMIT as f64).min(1.0)
    }

    /// Whether somebody else is being executed or waits for it, or there is no room: who submits now may wait.
    pub fn is_busy(&self) -> bool {
        // Only looked at: whoever takes the executor has to look for work when it lets go.
        self.has_queued() || self.is_full() || self.exec.is_locked()
    }

    /// Waits until less of the room for unflushed writes is used than this, but not for longer than told, nor for flushes that fail
    /// or that nobody makes.
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

    /// Lets writers go on who waited for a buffer, or tells them why the flush failed.
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

    /// Transactions under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Bytes that wait for the log.
    pub fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes.load(Ordering::Relaxed)
    }

    /// The longest time that a writer was kept waiting for room.
    pub fn longest_stall_us(&self) -> u64 {
        self.longest_stall_us.load(Ordering::Relaxed)
    }

    fn leave(&self, count: usize) {
        let before = self.in_flight.fetch_sub(count, Ordering::Relaxed);
        if before + CHUNK_LIMIT > IN_FLIGHT_LIMIT {
            self.room_made.notify_all();
        }
    }

    /// Refuses writes until the database is reopened.
    #[cold]
    fn set_read_only(&self) {
        self.failed.store(!fault_points::is(InjectedFault::LatchForgotten), Ordering::Release);
        self.tell_listeners();
    }

    /// Refuses writes until the database is reopened, and says why: nothing is known to be lost, but others may write.
    #[cold]
    pub fn refuse_writes(&self, why: &Error) {
        self.refusal.lock().get_or_insert_with(|| why.clone());
        self.set_read_only();
    }

    /// Whether writes are refused because a sync failed or the lock was lost.
    pub fn is_read_only(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Lets those look again who wait for revisions to move.
    pub fn tell_listeners(&self) {
        if self.listening.load(Ordering::SeqCst) > 0 {
            if !fault_points::is(InjectedFault::ToldWithoutLock) {
                drop(self.moved.lock());
            }
            self.moved_on.notify_all();
        }
    }

    /// Waits until `ready`, asked whenever revisions move, says so; false when the time is over.
    pub fn wait_until(&self, timeout: Duration, mut ready: impl FnMut() -> bool) -> bool {
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
