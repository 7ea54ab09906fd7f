//! The bell: one thread for all who wait for a job or a lock of a database in this process.
//!
//! ```text
//!   who waits --enter--> queue of a type or a lock:  w1 w2 w3 ...
//!   a revision, a due time --> the bell looks how many can be served --> calls as many, from the front
//!   a turn ends (served or not, or given up) --> it looks again
//! ```
//!
//! Whoever is called tries at once. So of sixty-four who wait for one job one is woken, and a job that nobody took
//! because its turn was given up goes to the next. The thread starts when somebody waits for the first time and
//! sleeps while nobody does; it ends with the last handle.

use crate::failure;
use crate::wait;
use mainstay::{Database, Result, Revision, Stamp};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the bell sleeps at most before it looks at the time again.
const LONGEST: Duration = Duration::from_secs(3600);
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

#[derive(Default)]
struct Queues {
    all: BTreeMap<String, Queue>,
    next: u64,
    is_over: bool,
}

struct Queue {
    look: Look,
    places: BTreeMap<u64, Place>,
    /// The revision at which it was looked at; nothing: look again.
    looked: Option<Revision>,
    due: Option<Stamp>,
}

struct Place {
    until: Stamp,
    standing: Standing,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Waits,
    Called,
    Late,
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

    /// Waits in a queue until it is one's turn; nothing when the time is over.
    pub async fn turn(&self, queue: &str, until: Stamp, look: Look) -> Result<Option<Turn>> {
        self.start()?;
        let turn = self.tower.enter(queue, until, look);
        let is_called = poll_fn(|context| turn.poll(context)).await;
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
    fn poll(&self, context: &Context<'_>) -> Poll<bool> {
        let mut queues = self.tower.queues.lock();
        let queue = queues.all.get_mut(&self.queue);
        let Some(place) = queue.and_then(|queue| queue.places.get_mut(&self.number)) else {
            return Poll::Ready(false);
        };
        match place.standing {
            Standing::Waits => {
                place.waker = Some(context.waker().clone());
                Poll::Pending
            }
            standing => Poll::Ready(standing == Standing::Called),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.tower.leave(&self.queue, self.number);
    }
}

impl Tower {
    fn enter(self: &Arc<Tower>, queue: &str, until: Stamp, look: Look) -> Turn {
        let mut queues = self.queues.lock();
        queues.next += 1;
        let number = queues.next;
        let empty = || Queue { look, places: BTreeMap::new(), looked: None, due: None };
        let entered = queues.all.entry(queue.to_owned()).or_insert_with(empty);
        // What it waits for may have come since it tried.
        entered.looked = None;
        entered.places.insert(number, Place { until, standing: Standing::Waits, waker: None });
        drop(queues);
        self.stir();
        Turn { tower: self.clone(), queue: queue.to_owned(), number }
    }

    fn leave(&self, name: &str, number: u64) {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.all.get_mut(name) else { return };
        let left = queue.places.remove(&number).map(|place| place.standing);
        let mut ended = None;
        if queue.places.is_empty() {
            ended = queues.all.remove(name);
        } else if left == Some(Standing::Called) {
            queue.looked = None;
        }
        drop(queues);
        // What it looks with may hold the last handle, whose end needs the queues.
        drop(ended);
        if left == Some(Standing::Called) {
            self.stir();
        }
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
        if !self.wait_for_somebody() {
            return false;
        }
        self.stirred.store(false, Ordering::SeqCst);
        let (seen, now) = (self.db.revision(), self.db.now_us());
        let wakes_at = now.and_then(|now| {
            self.to_look_at(seen, now).into_iter().for_each(|look| self.look(look, seen));
            let timeout = self.call_late(now).map_or(LONGEST, |next| wait::between(now, next));
            self.db.wait_for_unless(seen + 1, timeout.min(LONGEST), &self.stirred)
        });
        if wakes_at.is_err() {
            self.call_everybody();
        }
        true
    }

    fn wait_for_somebody(&self) -> bool {
        let mut queues = self.queues.lock();
        while queues.all.is_empty() && !queues.is_over {
            self.entered.wait(&mut queues);
        }
        !queues.is_over
    }

    /// The queues of which something may have changed.
    fn to_look_at(&self, seen: Revision, now: Stamp) -> Vec<(String, Look, Question)> {
        let queues = self.queues.lock();
        let changed =
            |queue: &&Queue| queue.looked != Some(seen) || queue.due.is_some_and(|due| due <= now);
        let all = queues.all.iter().filter(|(_, queue)| changed(queue));
        all.map(|(name, queue)| (name.clone(), queue.look.clone(), queue.question(now))).collect()
    }

    fn look(&self, (name, look, question): (String, Look, Question), seen: Revision) {
        // Whoever comes or goes from here on makes it look again.
        if let Some(queue) = self.queues.lock().all.get_mut(&name) {
            queue.looked = Some(seen);
        }
        // Who waits for what cannot be read hears of it when it tries.
        let found = look(question).unwrap_or(Outlook { ready: usize::MAX, due: None });
        let mut wakers = Vec::new();
        if let Some(queue) = self.queues.lock().all.get_mut(&name) {
            queue.due = found.due;
            // Not those who try now: one that ended meanwhile may have taken what the look saw.
            queue.call(found.ready.saturating_sub(question.called), &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Lets those go whose time is over; gives when there is something to do next.
    fn call_late(&self, now: Stamp) -> Option<Stamp> {
        let (mut queues, mut wakers, mut next) = (self.queues.lock(), Vec::new(), None);
        for queue in queues.all.values_mut() {
            let due = queue.due;
            for place in queue.places.values_mut().filter(|place| place.waits()) {
                match place.until <= now {
                    true => wakers.extend(place.become_now(Standing::Late)),
                    false => next = earlier(next, Some(place.until)),
                }
            }
            next = earlier(next, due);
        }
        drop(queues);
        wakers.into_iter().for_each(Waker::wake);
        next
    }

    /// The database is closed or broken: everybody hears of it by trying.
    fn call_everybody(&self) {
        let (mut queues, mut wakers) = (self.queues.lock(), Vec::new());
        for queue in queues.all.values_mut() {
            queue.call(usize::MAX, &mut wakers);
        }
        drop(queues);
        wakers.into_iter().for_each(Waker::wake);
        let mut queues = self.queues.lock();
        if !queues.is_over {
            self.entered.wait_for(&mut queues, REST);
        }
    }
}

impl Queue {
    fn question(&self, now: Stamp) -> Question {
        let until = self.places.values().map(|place| place.until).max().unwrap_or(now);
        let tries = |place: &&Place| place.standing == Standing::Called;
        let called = self.places.values().filter(tries).count();
        Question { now, asked: self.places.len(), called, until, due: self.due }
    }

    /// Calls the first of those who wait.
    fn call(&mut self, count: usize, wakers: &mut Vec<Waker>) {
        for place in self.places.values_mut().filter(|place| place.waits()).take(count) {
            wakers.extend(place.become_now(Standing::Called));
        }
    }
}

impl Place {
    fn waits(&self) -> bool {
        self.standing == Standing::Waits
    }

    fn become_now(&mut self, standing: Standing) -> Option<Waker> {
        self.standing = standing;
        self.waker.take()
    }
}

fn earlier(a: Option<Stamp>, b: Option<Stamp>) -> Option<Stamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
