//! FIFO wait queues with one dispatcher thread, for callers that wait for a job or a lock of an embedded database.
//!
//! ```text
//!   waiter --enter--> queue of a job type or a lock:  w1 w2 w3 ...
//!   a write to its keys, a due time --> a probe counts how many can be served --> wakes as many, from the front
//!   a turn ends (served or not, or given up) --> the queue is probed again
//! ```
//!
//! A woken waiter tries at once. So of sixty-four waiters for one job, only one is woken. If a waiter gives up its turn
//! or does not respond in time, the next one is woken. A waiter whose try failed keeps its position. The thread starts with
//! the first waiter, sleeps while the queues are empty, and ends with the last handle.

mod queue_state;
#[cfg(test)]
mod tests;

use crate::dispatch::deadline;
use crate::failure;
use mainstay::{Database, Error, Result, Revision, Stamp};
use parking_lot::{Condvar, Mutex};
use queue_state::{PendingProbe, WaitQueue, WaitQueues};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum sleep while any caller waits. A clock that was set forward is noticed after that time.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// Delay after a database error.
const ERROR_DELAY: Duration = Duration::from_millis(100);

/// Result of a probe of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Availability {
    /// How many of the waiters asked about can be served now.
    pub ready: usize,
    /// The next time when more can be served, if known. Later than now.
    pub next_due: Option<Stamp>,
}

/// Parameters of a probe of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub now: Stamp,
    /// Number of waiters, including those that try now.
    pub waiters: usize,
    /// How many of them try now. The jobs that they are about to take may still look ready.
    pub with_turn: usize,
    /// The latest deadline of the waiters. Anything due later does not matter.
    pub latest_deadline: Stamp,
    /// The due time found by the previous probe.
    pub next_due: Option<Stamp>,
}

/// Counts how many waiters can be served.
pub(crate) type ProbeFn = Arc<dyn Fn(Probe) -> Result<Availability> + Send + Sync>;

/// A try that got nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedAttempt {
    /// A lower bound of the revision that was visible when it began.
    pub revision: Revision,
    /// The time when it ended.
    pub at: Stamp,
}

/// The dispatcher; see the module.
pub(crate) struct Dispatcher {
    state: Arc<DispatcherThread>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct DispatcherThread {
    db: Database,
    queues: Mutex<WaitQueues>,
    /// Signalled when a waiter arrives at empty queues, and at shutdown.
    waiter_arrived: Condvar,
    /// True if a waiter came or left since the thread last probed.
    is_changed: AtomicBool,
}

/// A waiter's position in a queue, and once granted, the right to try. Dropping it lets the next waiter try.
pub(crate) struct Turn {
    state: Arc<DispatcherThread>,
    queue: String,
    id: u64,
}

impl Dispatcher {
    pub fn new(db: &Database) -> Dispatcher {
        let queues = Mutex::default();
        let waiter_arrived = Condvar::new();
        let state = DispatcherThread {
            db: db.clone(),
            queues,
            waiter_arrived,
            is_changed: AtomicBool::new(false),
        };
        Dispatcher { state: Arc::new(state), thread: Mutex::new(None) }
    }

    /// Waits for a turn, or returns `None` after the deadline. A waiter whose try failed passes its turn as
    /// `failed_turn` and keeps its position. Others join the end of the queue.
    pub async fn wait_for_turn(
        &self,
        failed_turn: Option<Turn>,
        attempt: FailedAttempt,
        deadline: Stamp,
        queue: impl FnOnce() -> Result<(String, ProbeFn)>,
    ) -> Result<Option<Turn>> {
        let turn = match failed_turn {
            Some(turn) => turn.requeue(attempt),
            None => {
                self.start()?;
                let (queue, probe_fn) = queue()?;
                self.state.enter(queue, deadline, probe_fn)
            }
        };
        let has_turn = poll_fn(|context| turn.poll(context)).await?;
        Ok(has_turn.then_some(turn))
    }

    fn start(&self) -> Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let state = self.state.clone();
            let run = move || while state.run_round() {};
            let builder = std::thread::Builder::new().name("mainstay-job-bell".to_owned());
            *thread = Some(builder.spawn(run).map_err(|error| failure::no_thread("bell", &error))?);
        }
        Ok(())
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.state.queues.lock().is_shut_down = true;
        self.state.wake_thread();
        let thread = self.thread.get_mut().take();
        // A task woken by the dispatcher may drop the last handle on the dispatcher thread, which cannot join
        // itself.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic has also ended the thread.
            let _ = thread.join();
        }
    }
}

impl Turn {
    /// Returns whether the waiter may try, once that is known.
    fn poll(&self, context: &Context<'_>) -> Poll<Result<bool>> {
        let (poll_result, needs_wakeup) =
            self.state.queues.lock().poll(&self.queue, self.id, context);
        if needs_wakeup {
            self.state.wake_thread();
        }
        poll_result
    }

    /// Waits again in the same position.
    fn requeue(self, attempt: FailedAttempt) -> Turn {
        self.state.queues.lock().requeue(&self.queue, self.id, attempt);
        self.state.wake_thread();
        self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (removed, needs_wakeup) = self.state.queues.lock().leave(&self.queue, self.id);
        // The queue's probe function may own the last handle. Dropping that handle locks the queues, so drop
        // it here, unlocked.
        drop(removed);
        if needs_wakeup {
            self.state.wake_thread();
        }
    }
}

impl DispatcherThread {
    fn enter(
        self: &Arc<DispatcherThread>,
        queue: String,
        deadline: Stamp,
        probe_fn: ProbeFn,
    ) -> Turn {
        let id = self.queues.lock().enter(&queue, deadline, probe_fn);
        self.wake_thread();
        Turn { state: self.clone(), queue, id }
    }

    /// Makes the dispatcher thread probe the queues again.
    fn wake_thread(&self) {
        // SeqCst pairs with the store in `run_round` and the load in `wait_for_unless`.
        self.is_changed.store(true, Ordering::SeqCst);
        // Taking the lock once ensures that the thread is already waiting, so the wake-up is not lost.
        drop(self.queues.lock());
        self.waiter_arrived.notify_all();
        self.db.interrupt();
    }

    /// One round: waits for a waiter, probes, wakes waiters, and sleeps until something changes. Returns
    /// false at shutdown.
    fn run_round(&self) -> bool {
        // Clear the flag before the probes: any later `wake_thread`, also the one at shutdown, ends the sleep.
        // SeqCst pairs with the store in `wake_thread`.
        self.is_changed.store(false, Ordering::SeqCst);
        if !self.wait_for_waiter() {
            return false;
        }
        if let Err(error) = self.probe_queues() {
            self.fail_all_waiters(&error);
        }
        true
    }

    fn wait_for_waiter(&self) -> bool {
        let mut queues = self.queues.lock();
        while queues.is_empty() && !queues.is_shut_down {
            self.waiter_arrived.wait(&mut queues);
        }
        !queues.is_shut_down
    }

    fn probe_queues(&self) -> Result<()> {
        let examined = self.db.try_revision()?;
        let now = self.db.now_us()?;
        for pending in self.take_pending_probes(examined, now)? {
            self.run_probe(pending);
        }
        let next = self.queues.lock().next_wakeup();
        let timeout = next.map_or(MAX_SLEEP, |next| deadline::remaining(now, next).min(MAX_SLEEP));
        self.db.wait_for_unless(examined + 1, timeout, &self.is_changed)
    }

    /// Takes the probes of the queues that may have changed. Any change from here on marks its queue again.
    fn take_pending_probes(&self, examined: Revision, now: Stamp) -> Result<Vec<PendingProbe>> {
        let mut queues = self.queues.lock();
        let mut wakers = Vec::new();
        let before = queues.examined.replace(examined).filter(|before| *before < examined);
        if let Some(before) = before
            && !self.db.written_records(before, examined, |branch, key| {
                queues.mark_written(branch, key, examined)
            })?
        {
            queues.mark_all_written(examined);
        }
        queues.advance_time(now, &mut wakers);
        let pending_probes = queues.take_pending_probes(now);
        drop(queues);
        wakers.into_iter().for_each(Waker::wake);
        Ok(pending_probes)
    }

    fn run_probe(&self, pending: PendingProbe) {
        let result = (pending.probe_fn)(pending.probe);
        let mut wakers = Vec::new();
        self.queues.lock().apply_probe(&pending, result, &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Fails all waiters, because the database is closed or broken.
    fn fail_all_waiters(&self, error: &Error) {
        let mut queues = self.queues.lock();
        let mut wakers = Vec::new();
        queues.all.values_mut().for_each(|queue: &mut WaitQueue| queue.fail(error, &mut wakers));
        drop(queues);
        wakers.into_iter().for_each(Waker::wake);
        let mut queues = self.queues.lock();
        if !queues.is_shut_down {
            self.waiter_arrived.wait_for(&mut queues, ERROR_DELAY);
        }
    }
}
