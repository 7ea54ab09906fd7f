//! Deterministic simulation: one thread with virtual time. The same seed gives the same run.
//!
//! ```text
//!   run(main) ──> a ready task, round-robin or random ──> none is ready: time advances to the next timer
//!                   main | tasks of clients: keep-alives, letters | other tasks
//! ```
//!
//! Only for tests, with the feature `simulation`.

use crate::pauses::mixed;
use crate::{Doorbell, Runtime, Task, Transport};
use mainstay::{
    Answering, ChangeKind, Contract, Database, Durability, Feed, Filter, ManualClock, Name,
    Options, Receipt, Result, Transaction,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Start time.
pub const START_US: u64 = 1_700_000_000_000_000;

/// Virtual time, and all tasks that run in it.
pub struct Simulation {
    clock: Arc<ManualClock>,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// State of the random scheduler. `None`: round-robin.
    chance: Option<u64>,
    /// Number of unique numbers handed out.
    numbers: u64,
    now_us: u64,
    timers: BTreeMap<(u64, u64), Waker>,
    timer_count: u64,
    tasks: BTreeMap<u64, Option<Task>>,
    task_count: u64,
    ready: VecDeque<u64>,
}

impl Inside {
    /// Picks a ready task.
    fn pick(&mut self) -> Option<u64> {
        let place = match &mut self.chance {
            Some(state) if self.ready.len() > 1 => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                (mixed(*state) % self.ready.len() as u64) as usize
            }
            _ => 0,
        };
        self.ready.remove(place)
    }
}

/// The task that `run` waits for.
const MAIN_TASK: u64 = 0;

impl Simulation {
    /// A simulation with round-robin scheduling.
    #[allow(clippy::new_ret_no_self, reason = "whoever runs in it shares it")]
    pub fn new() -> Arc<Simulation> {
        Arc::new(Simulation { clock: ManualClock::new(START_US), inside: Mutex::default() })
    }

    /// A simulation with random scheduling of the ready tasks.
    pub fn of(seed: u64) -> Arc<Simulation> {
        let simulation = Simulation::new();
        simulation.inside.lock().chance = Some(seed);
        simulation
    }

    /// The clock of the simulation.
    pub fn clock(&self) -> &Arc<ManualClock> {
        &self.clock
    }

    /// A database on the simulation's clock and thread.
    pub fn database(&self) -> Result<Database> {
        let options = Options::new().clock(self.clock.clone()).background(false);
        options.durability(Durability::Memory).memory()
    }

    /// Microseconds since the start.
    pub fn now_us(&self) -> u64 {
        self.inside.lock().now_us
    }

    /// A unique number.
    pub fn unique(&self) -> u64 {
        let mut inside = self.inside.lock();
        inside.numbers += 1;
        mixed(inside.numbers).max(1)
    }

    /// Runs until `main` completes. Time advances when no task is ready.
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

    /// Drops all tasks. They and the simulation refer to each other, so they would leak otherwise.
    pub fn end(&self) {
        let Inside { tasks, timers, .. } = std::mem::take(&mut *self.inside.lock());
        drop((tasks, timers));
    }

    fn waker(self: &Arc<Simulation>, task: u64) -> Waker {
        Waker::from(Arc::new(Ready { simulation: self.clone(), task }))
    }

    /// The next ready task. Advances the time until one is ready.
    fn next(&self) -> u64 {
        loop {
            let mut inside = self.inside.lock();
            if let Some(task) = inside.pick() {
                return task;
            }
            let ((due_us, _), waker) = inside.timers.pop_first().expect("everybody waits for ever");
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

    /// Spawns a task.
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

    /// A future that completes after a virtual duration.
    pub fn nap(self: &Arc<Simulation>, time: Duration) -> Task {
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

/// Adapts the simulation to the runtime interface.
pub struct Surroundings(pub Arc<Simulation>);

impl Runtime for Surroundings {
    fn now_us(&self) -> u64 {
        self.0.now_us()
    }

    fn sleep(&self, time: Duration) -> Task {
        self.0.nap(time)
    }

    fn spawn(&self, task: Task) {
        self.0.start(task);
    }

    fn unique(&self) -> u64 {
        self.0.unique()
    }
}

/// A transport to a database on the same thread. Requests execute at once, and doorbells check after each
/// of them.
pub struct Inline {
    db: Database,
    listening: Arc<Mutex<Vec<Waker>>>,
}

impl Inline {
    /// A transport to this database.
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
            let contract = Some(Contract::Sessions);
            let key = Some(session.as_str().to_owned());
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
