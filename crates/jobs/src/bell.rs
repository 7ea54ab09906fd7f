//! The bell: FIFO wait queues with one dispatcher thread, for callers that wait for a job or a lock of an embedded database.
//!
//! ```text
//!   waiter --enter--> queue of a job type or a lock:  w1 w2 w3 ...
//!   a write to its keys, a due time --> the bell counts how many can be served --> wakes as many, from the front
//!   a turn ends (served or not, or given up) --> the bell counts again
//! ```
//!
//! A woken waiter tries at once. So of sixty-four waiters for one job, only one is woken. If a waiter gives up its turn
//! or does not respond in time, the next one is woken. A waiter whose try failed keeps its place. The thread starts with
//! the first waiter, sleeps while the queues are empty, and ends with the last handle.

mod queue;
#[cfg(test)]
mod tests;

use crate::failure;
use crate::wait;
use mainstay::{Database, Error, Result, Revision, Stamp};
use parking_lot::{Condvar, Mutex};
use queue::{Queue, Queues, Visit};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum sleep while any caller waits. A clock that was set forward is noticed after that time.
const GLANCE: Duration = Duration::from_secs(1);
/// Delay after a database error.
const REST: Duration = Duration::from_millis(100);

/// Result of a look at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// How many of the waiters asked about can be served now.
    pub ready: usize,
    /// The next time when more can be served, if known. Later than now.
    pub due: Option<Stamp>,
}

/// Parameters of a look at a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub now: Stamp,
    /// Number of waiters, including those that try now.
    pub asked: usize,
    /// How many of them try now. The jobs that they are about to take may still look ready.
    pub called: usize,
    /// The latest deadline of the waiters. Anything due later does not matter.
    pub until: Stamp,
    /// The due time found by the previous look.
    pub due: Option<Stamp>,
}

/// Counts how many waiters can be served.
pub(crate) type Look = Arc<dyn Fn(Question) -> Result<Outlook> + Send + Sync>;

/// A try that got nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    /// A lower bound of the revision that was visible when it began.
    pub revision: Revision,
    /// The time when it ended.
    pub at: Stamp,
}

/// The dispatcher; see the module.
pub(crate) struct Bell {
    tower: Arc<Tower>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Tower {
    db: Database,
    queues: Mutex<Queues>,
    /// Signalled when a waiter arrives at empty queues, and at shutdown.
    entered: Condvar,
    /// True if a waiter came or left since the thread last looked.
    stirred: AtomicBool,
}

/// A place in a queue, and once called, the right to try. Dropping it lets the next waiter try.
pub(crate) struct Turn {
    tower: Arc<Tower>,
    queue: String,
    number: u64,
}

impl Bell {
    pub fn new(db: &Database) -> Bell {
        let queues = Mutex::default();
        let entered = Condvar::new();
        let tower = Tower { db: db.clone(), queues, entered, stirred: AtomicBool::new(false) };
        Bell { tower: Arc::new(tower), thread: Mutex::new(None) }
    }

    /// Waits for a turn, or returns `None` after the deadline. A waiter whose try failed passes its turn as
    /// `held` and keeps its place. Others join the end of the queue.
    pub async fn turn(
        &self,
        held: Option<Turn>,
        tried: Tried,
        until: Stamp,
        queue: impl FnOnce() -> Result<(String, Look)>,
    ) -> Result<Option<Turn>> {
        let turn = match held {
            Some(turn) => turn.again(tried),
            None => {
                self.start()?;
                let (queue, look) = queue()?;
                self.tower.enter(queue, until, look)
            }
        };
        let is_called = poll_fn(|context| turn.poll(context)).await?;
        Ok(is_called.then_some(turn))
    }

    fn start(&self) -> Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let tower = self.tower.clone();
            let run = move || while tower.round() {};
            let started = std::thread::Builder::new().name("mainstay-job-bell".to_owned());
            *thread = Some(started.spawn(run).map_err(|error| failure::no_thread("bell", &error))?);
        }
        Ok(())
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.tower.queues.lock().is_over = true;
        self.tower.stir();
        let thread = self.thread.get_mut().take();
        // A task woken by the bell may drop the last handle on the bell's own thread, which cannot join
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
        let (polled, stirs) = self.tower.queues.lock().poll(&self.queue, self.number, context);
        if stirs {
            self.tower.stir();
        }
        polled
    }

    /// Waits again in the same place.
    fn again(self, tried: Tried) -> Turn {
        self.tower.queues.lock().again(&self.queue, self.number, tried);
        self.tower.stir();
        self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (ended, stirs) = self.tower.queues.lock().leave(&self.queue, self.number);
        // The queue's look function may own the last handle. Dropping that handle locks the queues, so drop
        // it here, unlocked.
        drop(ended);
        if stirs {
            self.tower.stir();
        }
    }
}

impl Tower {
    fn enter(self: &Arc<Tower>, queue: String, until: Stamp, look: Look) -> Turn {
        let number = self.queues.lock().enter(&queue, until, look);
        self.stir();
        Turn { tower: self.clone(), queue, number }
    }

    /// Makes the dispatcher thread look at the queues again.
    fn stir(&self) {
        // SeqCst pairs with the store in `round` and the load in `wait_for_unless`.
        self.stirred.store(true, Ordering::SeqCst);
        // Taking the lock once ensures that the thread is already waiting, so the wake-up is not lost.
        drop(self.queues.lock());
        self.entered.notify_all();
        self.db.interrupt();
    }

    /// One round: waits for a waiter, looks, wakes waiters, and sleeps until something changes. Returns
    /// false at shutdown.
    fn round(&self) -> bool {
        // Clear the flag before looking: any later `stir`, also the one at shutdown, ends the sleep. SeqCst
        // pairs with the store in `stir`.
        self.stirred.store(false, Ordering::SeqCst);
        if !self.wait_for_somebody() {
            return false;
        }
        if let Err(error) = self.look_around() {
            self.fail_everybody(&error);
        }
        true
    }

    fn wait_for_somebody(&self) -> bool {
        let mut queues = self.queues.lock();
        while queues.is_empty() && !queues.is_over {
            self.entered.wait(&mut queues);
        }
        !queues.is_over
    }

    fn look_around(&self) -> Result<()> {
        let seen = self.db.try_revision()?;
        let now = self.db.now_us()?;
        for visit in self.to_visit(seen, now)? {
            self.visit(visit);
        }
        let next = self.queues.lock().wakes_at();
        let timeout = next.map_or(GLANCE, |next| wait::between(now, next).min(GLANCE));
        self.db.wait_for_unless(seen + 1, timeout, &self.stirred)
    }

    /// The queues that may have changed. Any change from here on marks its queue again.
    fn to_visit(&self, seen: Revision, now: Stamp) -> Result<Vec<Visit>> {
        let mut queues = self.queues.lock();
        let mut wakers = Vec::new();
        let before = queues.seen.replace(seen).filter(|before| *before < seen);
        if let Some(before) = before
            && !self
                .db
                .written_records(before, seen, |branch, key| queues.written(branch, key, seen))?
        {
            queues.all_written(seen);
        }
        queues.pass(now, &mut wakers);
        let visits = queues.visits(now);
        drop(queues);
        wakers.into_iter().for_each(Waker::wake);
        Ok(visits)
    }

    fn visit(&self, visit: Visit) {
        let found = (visit.look)(visit.question);
        let mut wakers = Vec::new();
        self.queues.lock().visited(&visit, found, &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Fails all waiters, because the database is closed or broken.
    fn fail_everybody(&self, error: &Error) {
        let mut queues = self.queues.lock();
        let mut wakers = Vec::new();
        queues.all.values_mut().for_each(|queue: &mut Queue| queue.fail(error, &mut wakers));
        drop(queues);
        wakers.into_iter().for_each(Waker::wake);
        let mut queues = self.queues.lock();
        if !queues.is_over {
            self.entered.wait_for(&mut queues, REST);
        }
    }
}
