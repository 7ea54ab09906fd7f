//! The sequencer: one writer, whole batches.
//!
//! ```text
//!   submit -> queue --combine--> executor -> group (forming) --drive--> log: write, sync
//!             whoever finds the              | the next round executes     |
//!             executor free runs             | while the last one syncs    v
//!             all that queued                                    publish, complete
//! ```
//!
//! - Two stages, each a lock that whoever finds free takes: *execute* and *log*. A caller that is
//!   alone does both itself, with no hand-off; under load the log thread keeps the second one.
//! - Whoever leaves a stage looks once more for work that came meanwhile, so none is left lying:
//!   a caller either takes the stage, or the one who holds it sees what the caller put down.
//! - Answers leave, and readers see, only what the durability asked for allows: a group is published
//!   when it is written, and synced first if any of its transactions asks for that.

use crate::clock::{Clock, SystemClock};
use crate::executor::{Executor, Round, State};
use crate::log::Writer;
use crate::ticket::{self, Completion, Ticket, Waiter};
use mainstay_model::{
    Code, Durability, Error, Receipt, Result, Revision, SmallVec, Stamp, Transaction,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// The most transactions under way at once: a further one waits until one is done.
pub(crate) const IN_FLIGHT_LIMIT: usize = 65_536;

/// The most bytes that may wait for the log.
const UNWRITTEN_LIMIT_BYTES: usize = 128 << 20;

/// The most transactions executed in one round, so that the first are not kept waiting.
const ROUND_LIMIT: usize = 1024;

/// The most sealed buffers: with one more, writers wait until one is flushed.
pub(crate) const SEALED_LIMIT: usize = 5;

thread_local! {
    /// Whether this thread is giving out answers, so that it may be running a caller's callback.
    static ANSWERING: Cell<bool> = const { Cell::new(false) };
}

/// A submitted transaction.
struct Pending {
    work: Work,
    completion: Completion,
}

#[allow(clippy::large_enum_variant, reason = "nearly every work is a transaction")]
enum Work {
    /// With the revision up to which its range guards were checked.
    Run(Transaction, Revision),
    /// Nothing but to be durable with all before it.
    Sync,
}

/// What one turn at the executor gives.
struct ExecutedRound {
    now: Stamp,
    sync: bool,
    soon: bool,
    done: SmallVec<[(Completion, Receipt); 1]>,
    failed: Vec<(Completion, Error)>,
}

impl ExecutedRound {
    fn begin(exec: &mut Executor) -> ExecutedRound {
        let now = exec.now();
        ExecutedRound { now, sync: false, soon: false, done: SmallVec::new(), failed: Vec::new() }
    }

    fn run_all(&mut self, sequencer: &Sequencer, exec: &mut Executor, batch: VecDeque<Pending>) {
        for Pending { work, completion } in batch {
            self.run(sequencer, exec, &work, completion);
        }
    }

    fn run(
        &mut self,
        sequencer: &Sequencer,
        exec: &mut Executor,
        work: &Work,
        completion: Completion,
    ) {
        let result = match work {
            Work::Run(transaction, checked) => {
                let durability = transaction.durability.unwrap_or(sequencer.durability);
                self.sync |= durability == Durability::Sync;
                self.soon |= durability == Durability::Interval;
                exec.run(transaction, *checked, self.now)
            }
            Work::Sync => {
                self.sync = true;
                Ok(empty_receipt(exec.executed(), self.now))
            }
        };
        match result {
            Ok(receipt) => self.done.push((completion, receipt)),
            Err(error) => self.failed.push((completion, error)),
        }
    }
}

/// Executed transactions that wait for the log together.
#[derive(Default)]
struct Group {
    frames: Vec<u8>,
    first: Revision,
    last: Revision,
    chain: u32,
    stamp: Stamp,
    sync: bool,
    /// Whether something in it has to be synced before long.
    soon: bool,
    waiting: Vec<(Completion, Receipt)>,
}

impl Group {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.frames.is_empty()
    }

    fn add_round(&mut self, round: &Round<'_>, stamp: Stamp) {
        if self.frames.is_empty() {
            self.first = round.first;
        }
        self.frames.extend_from_slice(round.frames);
        self.last = round.last;
        self.chain = round.chain;
        self.stamp = stamp;
    }
}

/// The second stage: the log's writer and what it has written.
struct LogStage {
    writer: Writer,
    written: Revision,
    stamp: Stamp,
    chain: u32,
    unsynced: bool,
    /// Whether something unsynced has to be synced before long.
    soon: bool,
    /// The last group's memory, to be used again.
    spare: Group,
}

pub(crate) struct Sequencer {
    pub state: Arc<State>,
    durability: Durability,
    queue: Mutex<VecDeque<Pending>>,
    pub exec: Mutex<Executor>,
    group: Mutex<Group>,
    log: Mutex<LogStage>,
    published: AtomicU64,
    durable: AtomicU64,
    /// A sync failed: nothing is written until the database is reopened.
    failed: AtomicBool,
    closed: AtomicBool,
    in_flight: AtomicUsize,
    unwritten_bytes: AtomicUsize,
    /// The log's segment is half full: the next one should be prepared.
    wants_segment: AtomicBool,
    room: Mutex<()>,
    room_made: Condvar,
    log_thread: OnceLock<Thread>,
    log_idle: AtomicBool,
    /// Whoever waits for a revision to be visible or durable.
    listening: AtomicUsize,
    moved: Mutex<()>,
    moved_on: Condvar,
    /// Told when there is work for the background.
    on_seal: OnceLock<Box<dyn Fn() + Send + Sync>>,
    clock: SystemClock,
    longest_stall_us: AtomicU64,
}

impl Sequencer {
    pub fn new(
        state: Arc<State>,
        executor: Executor,
        writer: Writer,
        chain: u32,
        durability: Durability,
    ) -> Sequencer {
        let written = executor.executed();
        let stamp = executor.stamper.last();
        let log = LogStage {
            writer,
            written,
            stamp,
            chain,
            unsynced: false,
            soon: false,
            spare: Group::default(),
        };
        Sequencer {
            state,
            durability,
            queue: Mutex::default(),
            exec: Mutex::new(executor),
            group: Mutex::default(),
            log: Mutex::new(log),
            published: AtomicU64::new(written),
            durable: AtomicU64::new(written),
            failed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            unwritten_bytes: AtomicUsize::new(0),
            wants_segment: AtomicBool::new(false),
            room: Mutex::new(()),
            room_made: Condvar::new(),
            log_thread: OnceLock::new(),
            log_idle: AtomicBool::new(false),
            listening: AtomicUsize::new(0),
            moved: Mutex::new(()),
            moved_on: Condvar::new(),
            on_seal: OnceLock::new(),
            clock: SystemClock::new(),
            longest_stall_us: AtomicU64::new(0),
        }
    }

    /// Says what to do when a buffer was sealed or a segment is half full.
    pub fn when_sealed(&self, tell: impl Fn() + Send + Sync + 'static) {
        // Set once, when the database is opened.
        let _ = self.on_seal.set(Box::new(tell));
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
    pub fn execute(&self, transaction: Transaction, checked: Revision) -> Result<Receipt> {
        self.wait_on(Work::Run(transaction, checked))
    }

    /// Waits until everything submitted before is on stable storage. It never waits for room: the
    /// flush, which makes room, asks for it.
    pub fn sync(&self) -> Result<Revision> {
        self.wait_on(Work::Sync).map(|receipt| receipt.revision)
    }

    /// Waits until all that is executed is visible, so that a new snapshot sees it.
    pub fn settle(&self) {
        let executed = self.exec.lock().executed();
        if self.published() < executed {
            self.wait_until(Duration::from_millis(100), || self.published() >= executed);
        }
    }

    fn wait_on(&self, work: Work) -> Result<Receipt> {
        let waiter: Arc<Waiter> = Arc::default();
        self.enter(work, Completion::Waiter(waiter.clone()));
        if !waiter.is_done() {
            self.drive();
        }
        waiter.wait()
    }

    /// Submits; the ticket has the answer.
    pub fn submit(&self, transaction: Transaction) -> Ticket {
        let waiter: Arc<Waiter> = Arc::default();
        self.submit_to(transaction, Completion::Waiter(waiter.clone()));
        Ticket { waiter }
    }

    /// Submits; the callback gets the answer, on whichever thread has it.
    pub fn submit_with(
        &self,
        transaction: Transaction,
        done: impl FnOnce(Result<Receipt>) + Send + 'static,
    ) {
        self.submit_to(transaction, Completion::Callback(Box::new(done)));
    }

    fn submit_to(&self, transaction: Transaction, completion: Completion) {
        self.enter(Work::Run(transaction, 0), completion);
        self.wake_log();
    }

    /// Executes work if nobody else is at it, else leaves it to whoever is. Waits while too much is
    /// under way; on a closed database the completion gets the error.
    fn enter(&self, work: Work, completion: Completion) {
        if let Err(error) = self.check_open() {
            completion.complete(Err(error));
            return;
        }
        let in_flight = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let waits = matches!(work, Work::Run(..));
        if waits && (in_flight >= IN_FLIGHT_LIMIT || self.is_full()) {
            self.wait_for_room();
        }
        let Some(mut exec) = self.exec.try_lock() else {
            self.queue.lock().push_back(Pending { work, completion });
            return self.combine();
        };
        let mut round = ExecutedRound::begin(&mut exec);
        if self.queue.lock().is_empty() {
            round.run(self, &mut exec, &work, completion);
        } else {
            let mut batch = self.take_queued();
            batch.push_back(Pending { work, completion });
            round.run_all(self, &mut exec, batch);
        }
        self.end(round, exec);
        self.combine();
    }

    fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(Error::new(Code::Closed, "the database was closed"));
        }
        self.check_sound()
    }

    fn wait_for_room(&self) {
        // A callback that submits must not wait for the answers that come behind its own.
        if ANSWERING.get() {
            return;
        }
        let begun = self.clock.monotonic_us();
        let mut room = self.room.lock();
        while self.check_open().is_ok()
            && (self.in_flight.load(Ordering::Relaxed) > IN_FLIGHT_LIMIT || self.is_full())
        {
            self.room_made.wait_for(&mut room, Duration::from_millis(10));
        }
        let stall = self.clock.monotonic_us() - begun;
        self.longest_stall_us.fetch_max(stall, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.state.sealed.load(Ordering::Relaxed) >= SEALED_LIMIT
            || self.unwritten_bytes.load(Ordering::Relaxed) >= UNWRITTEN_LIMIT_BYTES
    }

    /// Lets writers go on who waited for a buffer.
    pub fn buffers_flushed(&self, count: usize) {
        self.state.sealed.fetch_sub(count, Ordering::Relaxed);
        drop(self.room.lock());
        self.room_made.notify_all();
    }

    /// The longest time that a writer was kept waiting for room.
    pub fn longest_stall_us(&self) -> u64 {
        self.longest_stall_us.load(Ordering::Relaxed)
    }

    /// The first stage: executes what is queued, if nobody else does.
    fn combine(&self) {
        while !self.queue.lock().is_empty() {
            let Some(mut exec) = self.exec.try_lock() else { return };
            let batch = self.take_queued();
            let mut round = ExecutedRound::begin(&mut exec);
            round.run_all(self, &mut exec, batch);
            self.end(round, exec);
        }
    }

    fn take_queued(&self) -> VecDeque<Pending> {
        let mut queue = self.queue.lock();
        if queue.len() <= ROUND_LIMIT {
            return std::mem::take(&mut *queue);
        }
        queue.drain(..ROUND_LIMIT).collect()
    }

    /// Hands a round over to the log and lets the executor go; what failed is answered at once.
    fn end(&self, round: ExecutedRound, mut exec: MutexGuard<'_, Executor>) {
        let ExecutedRound { sync, soon, mut done, failed, .. } = round;
        let stamp = exec.stamper.last();
        let ((), sealed) = exec.end_round(self.durable(), |round| {
            let mut group = self.group.lock();
            if let Some(round) = &round {
                group.add_round(round, stamp);
                self.unwritten_bytes.fetch_add(round.frames.len(), Ordering::Relaxed);
            }
            group.sync |= sync;
            group.soon |= soon;
            group.waiting.extend(done.drain(..));
        });
        drop(exec);
        let count = failed.len();
        for (completion, error) in failed {
            completion.complete(Err(error));
        }
        if count > 0 {
            self.leave(count);
        }
        if sealed {
            self.tell_workers();
        }
    }

    /// Whether the log's segment is half full.
    pub fn wants_segment(&self) -> bool {
        self.wants_segment.load(Ordering::Relaxed)
    }

    /// Rings for the background: a buffer was sealed, or a segment is half full.
    fn tell_workers(&self) {
        self.on_seal.get().inspect(|tell| tell());
    }

    /// The second stage, by a caller: does the log's work if nobody else does.
    fn drive(&self) {
        if let Some(mut log) = self.log.try_lock() {
            self.log_group(&mut log);
            drop(log);
        }
        self.wake_log();
    }

    /// Wakes the log thread if it rests while there is work.
    fn wake_log(&self) {
        if !self.log_idle.load(Ordering::SeqCst) || self.group.lock().is_empty() {
            return;
        }
        if self.log_idle.swap(false, Ordering::SeqCst) {
            self.log_thread.get().inspect(|thread| thread.unpark());
        }
    }

    /// The second stage, by the log thread: until the database is closed.
    pub fn run_log(&self, sync_interval: Duration) {
        let _ = self.log_thread.set(std::thread::current());
        loop {
            {
                let mut log = self.log.lock();
                while self.log_group(&mut log) {}
            }
            self.log_idle.store(true, Ordering::SeqCst);
            if !self.group.lock().is_empty() {
                self.log_idle.store(false, Ordering::SeqCst);
                continue;
            }
            if self.is_closed() {
                return;
            }
            std::thread::park_timeout(sync_interval);
            if self.log_idle.swap(false, Ordering::SeqCst) {
                self.sync_late();
            }
        }
    }

    /// Syncs what was published unsynced, when its interval is over.
    fn sync_late(&self) {
        let mut log = self.log.lock();
        if log.soon && self.sync_log(&mut log).is_err() {
            self.latch();
        }
    }

    /// Puts everything written on stable storage.
    pub fn sync_written(&self) {
        let mut log = self.log.lock();
        if log.unsynced && self.sync_log(&mut log).is_err() {
            self.latch();
        }
    }

    fn sync_log(&self, log: &mut LogStage) -> Result<()> {
        log.writer.sync()?;
        log.unsynced = false;
        log.soon = false;
        self.durable.store(log.written, Ordering::Release);
        self.tell_listeners();
        Ok(())
    }

    /// Writes, syncs, publishes and answers one group; nothing to do: false.
    fn log_group(&self, log: &mut LogStage) -> bool {
        let mut group = std::mem::take(&mut log.spare);
        std::mem::swap(&mut *self.group.lock(), &mut group);
        if group.is_empty() {
            log.spare = group;
            return false;
        }
        match self.make_durable(log, &group) {
            Ok(()) => {
                self.published.store(log.written, Ordering::Release);
                self.tell_listeners();
                self.give_answers(&mut group.waiting);
            }
            Err(error) => self.fail(log, &mut group, &error),
        }
        self.unwritten_bytes.fetch_sub(group.frames.len(), Ordering::Relaxed);
        group.frames.clear();
        (group.sync, group.soon) = (false, false);
        if group.frames.capacity() > 4 << 20 {
            group.frames = Vec::new();
        }
        log.spare = group;
        true
    }

    fn make_durable(&self, log: &mut LogStage, group: &Group) -> Result<()> {
        self.check_sound()?;
        if !group.frames.is_empty() {
            log.writer.write(&group.frames, group.first, group.last, group.chain)?;
            (log.written, log.stamp, log.chain) = (group.last, group.stamp, group.chain);
            log.unsynced = true;
            log.soon |= group.soon;
            let wants = log.writer.wants_next();
            if wants != self.wants_segment() {
                self.wants_segment.store(wants, Ordering::Relaxed);
                self.tell_workers();
            }
        }
        if group.sync && log.unsynced {
            self.sync_log(log)?;
        }
        Ok(())
    }

    /// Closing lets the log finish; only a failed sync stops it.
    fn check_sound(&self) -> Result<()> {
        if !self.is_latched() {
            return Ok(());
        }
        let message = "a sync of the log failed: nothing is written until the database is reopened";
        Err(Error::new(Code::SyncFailed, message))
    }

    fn give_answers(&self, waiting: &mut Vec<(Completion, Receipt)>) {
        let count = waiting.len();
        let mut sleeping = Vec::new();
        let before = ANSWERING.replace(true);
        for (completion, receipt) in waiting.drain(..) {
            completion.settle(Ok(receipt), &mut sleeping);
        }
        ANSWERING.set(before);
        ticket::wake(sleeping);
        self.leave(count);
    }

    fn leave(&self, count: usize) {
        let before = self.in_flight.fetch_sub(count, Ordering::Relaxed);
        if before >= IN_FLIGHT_LIMIT {
            self.room_made.notify_all();
        }
    }

    /// Takes back what could not be written, with everything executed on top of it.
    #[cold]
    fn fail(&self, log: &mut LogStage, group: &mut Group, error: &Error) {
        let full = error.code() == Code::DiskFull;
        let mut exec = self.exec.lock();
        let mut later = std::mem::take(&mut *self.group.lock());
        self.unwritten_bytes.fetch_sub(later.frames.len(), Ordering::Relaxed);
        if full {
            // Undoing reads the catalog again; if that fails, the disk is not merely full.
            if exec.undo(log.written, log.stamp, log.chain).is_err() {
                self.latch();
            }
        } else {
            self.latch();
        }
        drop(exec);
        let outcome = if full
            || error.kind() == mainstay_model::ErrorKind::ReadOnly && !log.unsynced
        {
            error.clone()
        } else {
            let message = format!("it is not known whether this was written: {}", error.message());
            Error::new(Code::UnknownOutcome, message)
        };
        let count = group.waiting.len() + later.waiting.len();
        for (completion, _) in group.waiting.drain(..).chain(later.waiting.drain(..)) {
            completion.complete(Err(outcome.clone()));
        }
        self.leave(count);
    }

    /// Refuses writes until the database is reopened.
    #[cold]
    fn latch(&self) {
        self.failed.store(true, Ordering::Release);
        self.tell_listeners();
    }

    /// Whether writes are refused because a sync failed.
    pub fn is_latched(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Refuses new work; what is under way is finished by the log thread.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.log_idle.store(false, Ordering::SeqCst);
        self.log_thread.get().inspect(|thread| thread.unpark());
        self.tell_listeners();
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn tell_listeners(&self) {
        if self.listening.load(Ordering::SeqCst) > 0 {
            drop(self.moved.lock());
            self.moved_on.notify_all();
        }
    }

    /// Waits until `ready`, asked whenever revisions move, says so; false when the time is over.
    pub fn wait_until(&self, timeout: Duration, mut ready: impl FnMut() -> bool) -> bool {
        self.listening.fetch_add(1, Ordering::SeqCst);
        let mut moved = self.moved.lock();
        let mut left = true;
        let done = loop {
            if ready() {
                break true;
            }
            if !left || self.is_closed() {
                break false;
            }
            left = !self.moved_on.wait_for(&mut moved, timeout).timed_out();
        };
        drop(moved);
        self.listening.fetch_sub(1, Ordering::SeqCst);
        done
    }
}

fn empty_receipt(revision: Revision, stamp: Stamp) -> Receipt {
    Receipt { revision, stamp, held: true, repeated: false, answers: SmallVec::new() }
}
