//! The bell: one thread for all who wait for a job or a lock of a database in this process.
//!
//! ```text
//!   who waits --enter--> queue of a type or a lock:  w1 w2 w3 ...
//!   a write to its keys, a due time --> the bell looks how many can be served --> calls as many, from the front
//!   a turn ends (served or not, or given up) --> it looks again
//! ```
//!
//! Whoever is called tries at once. So of sixty-four who wait for one job one is woken, and a job that nobody took
//! because its turn was given up goes to the next; so does one whose waiter does not come. Who tried in vain keeps
//! its place. The thread starts when somebody waits for the first time and sleeps while nobody does; it ends with
//! the last handle.

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

/// How long the bell sleeps at most while somebody waits: a clock that was set forward is noticed by then.
const GLANCE: Duration = Duration::from_secs(1);
/// How long it rests where the database cannot be waited for.
const REST: Duration = Duration::from_millis(100);

/// What a look at a queue found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// How many could be served now, of those that were asked about.
    pub ready: usize,
    /// When further ones can be served, as far as that is known; after now.
    pub due: Option<Stamp>,
}

/// What a queue is looked at for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// The moment.
    pub now: Stamp,
    /// How many wait or try.
    pub asked: usize,
    /// How many of them try: what they are about to take may be seen as ready.
    pub called: usize,
    /// When the last of them gives up: what is due later does not matter.
    pub until: Stamp,
    /// What was found due the last time.
    pub due: Option<Stamp>,
}

/// Looks how many can be served.
pub(crate) type Look = Arc<dyn Fn(Question) -> Result<Outlook> + Send + Sync>;

/// A try that got nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    /// What was visible when it began, at least.
    pub revision: Revision,
    /// When it was over.
    pub at: Stamp,
}

/// See the module.
pub(crate) struct Bell {
    tower: Arc<Tower>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Tower {
    db: Database,
    queues: Mutex<Queues>,
    /// Told when somebody comes while nobody waits, and at the end.
    entered: Condvar,
    /// Somebody came or went since the thread looked.
    stirred: AtomicBool,
}

/// A place in a queue: once called, the right to try. Dropping it lets the next one try.
pub(crate) struct Turn {
    tower: Arc<Tower>,
    queue: String,
    number: u64,
}

impl Bell {
    pub fn new(db: &Database) -> Bell {
        let (queues, entered) = (Mutex::default(), Condvar::new());
        let tower = Tower { db: db.clone(), queues, entered, stirred: AtomicBool::new(false) };
        Bell { tower: Arc::new(tower), thread: Mutex::new(None) }
    }

    /// Waits until it is one's turn; nothing when the time is over. Who has tried in vain hands the turn back in
    /// and waits in the same place, others go to the end of the queue.
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
        // A task that the bell woke may have dropped the last handle on the bell's own thread.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A bell that panicked is over as well.
            let _ = thread.join();
        }
    }
}

impl Turn {
    /// Whether it is one's turn, once that is known.
    fn poll(&self, context: &Context<'_>) -> Poll<Result<bool>> {
        let (polled, stirs) = self.tower.queues.lock().poll(&self.queue, self.number, context);
        if stirs {
            self.tower.stir();
        }
        polled
    }

    /// Waits again, in the same place.
    fn again(self, tried: Tried) -> Turn {
        self.tower.queues.lock().again(&self.queue, self.number, tried);
        self.tower.stir();
        self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (ended, stirs) = self.tower.queues.lock().leave(&self.queue, self.number);
        // What it looks with may hold the last handle, whose end needs the queues.
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

    /// Lets the thread look at the queues again.
    fn stir(&self) {
        self.stirred.store(true, Ordering::SeqCst);
        drop(self.queues.lock());
        self.entered.notify_all();
        self.db.interrupt();
    }

    /// Waits for somebody to wait, looks, calls, and sleeps until something changes; false at the end.
    fn round(&self) -> bool {
        // Before anything is looked at: whatever stirs from here on is heard, the end too.
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
        let (seen, now) = (self.db.try_revision()?, self.db.now_us()?);
        for visit in self.to_visit(seen, now)? {
            self.visit(visit);
        }
        let next = self.queues.lock().wakes_at();
        let timeout = next.map_or(GLANCE, |next| wait::between(now, next).min(GLANCE));
        self.db.wait_for_unless(seen + 1, timeout, &self.stirred)
    }

    /// The queues of which something may have changed. From here on whatever changes is looked at again.
    fn to_visit(&self, seen: Revision, now: Stamp) -> Result<Vec<Visit>> {
        let (mut queues, mut wakers) = (self.queues.lock(), Vec::new());
        if let Some(before) = queues.seen.replace(seen).filter(|before| *before < seen) {
            let mark = |branch: &str, key: &str| queues.written(branch, key, seen);
            if !self.db.written_records(before, seen, mark)? {
                queues.all_written(seen);
            }
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

    /// The database is closed or broken.
    fn fail_everybody(&self, error: &Error) {
        let (mut queues, mut wakers) = (self.queues.lock(), Vec::new());
        queues.all.values_mut().for_each(|queue: &mut Queue| queue.fail(error, &mut wakers));
        drop(queues);
        wakers.into_iter().for_each(Waker::wake);
        let mut queues = self.queues.lock();
        if !queues.is_over {
            self.entered.wait_for(&mut queues, REST);
        }
    }
}
