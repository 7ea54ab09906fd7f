//! A world in one thread, whose time passes when everybody waits for it: the same seed gives the same run.

use super::*;
use mainstay::{Answering, ChangeKind, Contract, Feed, Filter};
use mainstay_sessions::{Doorbell, Runtime, Task, Transport};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

/// Time, and all that runs in it.
pub struct Simulation {
    clock: Arc<ManualClock>,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    now_us: u64,
    timers: BTreeMap<(u64, u64), Waker>,
    timer_count: u64,
    tasks: BTreeMap<u64, Option<Task>>,
    task_count: u64,
    ready: VecDeque<u64>,
}

/// The task that is waited for.
const MAIN_TASK: u64 = 0;

impl Simulation {
    pub fn new() -> Arc<Simulation> {
        let clock = ManualClock::new(START_US);
        Arc::new(Simulation { clock, inside: Mutex::default() })
    }

    /// A database in this world's time.
    pub fn database(&self) -> Database {
        memory(&self.clock)
    }

    /// Runs until this is done. Time passes when nothing else can be done.
    pub fn run<T>(self: &Arc<Simulation>, main: impl Future<Output = T>) -> T {
        let mut main = pin!(main);
        let waker = self.waker(MAIN_TASK);
        self.inside.lock().ready.push_back(MAIN_TASK);
        loop {
            match self.next() {
                MAIN_TASK => {
                    if let Poll::Ready(done) = main.as_mut().poll(&mut Context::from_waker(&waker))
                    {
                        return done;
                    }
                }
                task => self.poll(task),
            }
        }
    }

    /// Ends everything that runs: it holds on to its world, as the world does to it.
    pub fn end(&self) {
        let Inside { tasks, timers, .. } = std::mem::take(&mut *self.inside.lock());
        drop((tasks, timers));
    }

    fn waker(self: &Arc<Simulation>, task: u64) -> Waker {
        Waker::from(Arc::new(Ready { simulation: self.clone(), task }))
    }

    /// Who is next; passes the time until somebody is.
    fn next(&self) -> u64 {
        loop {
            let mut inside = self.inside.lock();
            if let Some(task) = inside.ready.pop_front() {
                return task;
            }
            let (due_us, timer) = *inside.timers.keys().next().expect("everybody waits for ever");
            let waker = inside.timers.remove(&(due_us, timer)).unwrap();
            let passed = due_us.saturating_sub(inside.now_us);
            inside.now_us += passed;
            drop(inside);
            self.clock.advance(Duration::from_micros(passed));
            waker.wake();
        }
    }

    fn poll(self: &Arc<Simulation>, task: u64) {
        let taken = self.inside.lock().tasks.get_mut(&task).and_then(Option::take);
        let Some(mut future) = taken else { return };
        let waker = self.waker(task);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => drop(self.inside.lock().tasks.remove(&task)),
            Poll::Pending => drop(self.inside.lock().tasks.insert(task, Some(future))),
        }
    }

    /// Runs beside what is waited for.
    pub fn beside(self: &Arc<Simulation>, task: impl Future<Output = ()> + Send + 'static) {
        self.start(Box::pin(task));
    }

    fn start(&self, task: Task) {
        let mut inside = self.inside.lock();
        inside.task_count += 1;
        let number = inside.task_count;
        inside.tasks.insert(number, Some(task));
        inside.ready.push_back(number);
    }

    /// The future for a moment of this world.
    fn nap(self: &Arc<Simulation>, time: Duration) -> Task {
        let world = self.clone();
        let mut set = None;
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        let due_us = self.inside.lock().now_us + us;
        Box::pin(poll_fn(move |context| {
            let mut inside = world.inside.lock();
            if inside.now_us >= due_us {
                return Poll::Ready(());
            }
            inside.timer_count += 1;
            let timer = *set.get_or_insert(inside.timer_count);
            let before = inside.timers.insert((due_us, timer), context.waker().clone());
            drop((inside, before));
            Poll::Pending
        }))
    }
}

struct Ready {
    simulation: Arc<Simulation>,
    task: u64,
}

impl Wake for Ready {
    fn wake(self: Arc<Ready>) {
        let mut inside = self.simulation.inside.lock();
        if !inside.ready.contains(&self.task) {
            inside.ready.push_back(self.task);
        }
    }
}

/// The world as clients have it.
pub struct Surroundings(pub Arc<Simulation>);

impl Runtime for Surroundings {
    fn now_us(&self) -> u64 {
        self.0.inside.lock().now_us
    }

    fn sleep(&self, time: Duration) -> Task {
        self.0.nap(time)
    }

    fn spawn(&self, task: Task) {
        self.0.start(task);
    }
}

/// The way to a database in this thread: what is asked is answered at once, and bells look after each of it.
pub struct Inline {
    db: Database,
    listening: Arc<Mutex<Vec<Waker>>>,
}

impl Inline {
    pub fn new(db: &Database) -> Inline {
        Inline { db: db.clone(), listening: Arc::default() }
    }
}

impl Transport for Inline {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        Box::pin(async move {
            let answer = self.db.execute(transaction);
            self.db.sync()?;
            let listening = std::mem::take(&mut *self.listening.lock());
            listening.into_iter().for_each(Waker::wake);
            answer
        })
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn Doorbell>> {
        Box::pin(async move {
            let (contract, key) = (Some(Contract::Sessions), Some(session.as_str().to_owned()));
            let filter = Filter { contract, key, ..Filter::default() };
            let feed = self.db.watch(filter, self.db.revision())?;
            Ok(Box::new(Bell { feed, listening: self.listening.clone() }) as Box<dyn Doorbell>)
        })
    }
}

struct Bell {
    feed: Feed,
    listening: Arc<Mutex<Vec<Waker>>>,
}

impl Doorbell for Bell {
    fn next(&mut self) -> Answering<'_, u64> {
        Box::pin(poll_fn(|context| {
            while let Some(event) = self.feed.next(Duration::ZERO)? {
                if event.kind == ChangeKind::Sent {
                    return Poll::Ready(Ok(event.counter));
                }
            }
            self.listening.lock().push(context.waker().clone());
            Poll::Pending
        }))
    }
}
