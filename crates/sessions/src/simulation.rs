//! Deterministic simulation: one thread with virtual time. The same seed gives the same run.
//!
//! ```text
//!   run(main) ──> a ready task, round-robin or random ──> none is ready: time advances to the next timer
//!                   main | tasks of clients: keep-alives, server messages | other tasks
//! ```
//!
//! Only for tests, with the feature `simulation`.

use crate::runtime::backoff::splitmix64;
use crate::{MessageWaker, Runtime, Task, Transport};
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
    state: Mutex<SchedulerState>,
}

#[derive(Default)]
struct SchedulerState {
    /// State of the random scheduler. `None`: round-robin.
    random_state: Option<u64>,
    /// Number of unique numbers handed out.
    unique_count: u64,
    now_us: u64,
    timers: BTreeMap<(u64, u64), Waker>,
    timer_count: u64,
    tasks: BTreeMap<u64, Option<Task>>,
    task_count: u64,
    ready: VecDeque<u64>,
}

impl SchedulerState {
    /// Picks a ready task.
    fn pick(&mut self) -> Option<u64> {
        let index = match &mut self.random_state {
            Some(random_state) if self.ready.len() > 1 => {
                *random_state = random_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                (splitmix64(*random_state) % self.ready.len() as u64) as usize
            }
            _ => 0,
        };
        self.ready.remove(index)
    }
}

/// The task that `run` waits for.
const MAIN_TASK: u64 = 0;

impl Simulation {
    /// A simulation with round-robin scheduling.
    #[allow(clippy::new_ret_no_self, reason = "whoever runs in it shares it")]
    pub fn new() -> Arc<Simulation> {
        Arc::new(Simulation { clock: ManualClock::new(START_US), state: Mutex::default() })
    }

    /// A simulation with random scheduling of the ready tasks.
    pub fn of(seed: u64) -> Arc<Simulation> {
        let simulation = Simulation::new();
        simulation.state.lock().random_state = Some(seed);
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
        self.state.lock().now_us
    }

    /// A unique number.
    pub fn unique(&self) -> u64 {
        let mut state = self.state.lock();
        state.unique_count += 1;
        splitmix64(state.unique_count).max(1)
    }

    /// Runs until `main` completes. Time advances when no task is ready.
    pub fn run<T>(self: &Arc<Simulation>, main: impl Future<Output = T>) -> T {
        let mut main = pin!(main);
        let waker = self.waker(MAIN_TASK);
        self.state.lock().ready.push_back(MAIN_TASK);
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
        let SchedulerState { tasks, timers, .. } = std::mem::take(&mut *self.state.lock());
        drop((tasks, timers));
    }

    fn waker(self: &Arc<Simulation>, task: u64) -> Waker {
        Waker::from(Arc::new(TaskWaker { simulation: self.clone(), task }))
    }

    /// The next ready task. Advances the time until one is ready.
    fn next(&self) -> u64 {
        loop {
            let mut state = self.state.lock();
            if let Some(task) = state.pick() {
                return task;
            }
            let ((due_us, _), waker) = state.timers.pop_first().expect("everybody waits for ever");
            let elapsed = due_us.saturating_sub(state.now_us);
            state.now_us += elapsed;
            drop(state);
            self.clock.advance(Duration::from_micros(elapsed));
            waker.wake();
        }
    }

    fn poll(self: &Arc<Simulation>, task: u64) {
        let future = self.state.lock().tasks.get_mut(&task).and_then(Option::take);
        let Some(mut future) = future else { return };
        let waker = self.waker(task);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => drop(self.state.lock().tasks.remove(&task)),
            Poll::Pending => drop(self.state.lock().tasks.insert(task, Some(future))),
        }
    }

    /// Spawns a task.
    pub fn spawn(self: &Arc<Simulation>, task: impl Future<Output = ()> + Send + 'static) {
        self.start(Box::pin(task));
    }

    fn start(&self, task: Task) {
        let mut state = self.state.lock();
        state.task_count += 1;
        let number = state.task_count;
        state.tasks.insert(number, Some(task));
        state.ready.push_back(number);
    }

    /// A future that completes after a virtual duration.
    pub fn sleep(self: &Arc<Simulation>, time: Duration) -> Task {
        let simulation = self.clone();
        let mut timer_id = None;
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        let due_us = self.state.lock().now_us + us;
        Box::pin(poll_fn(move |context| {
            let mut state = simulation.state.lock();
            if state.now_us >= due_us {
                return Poll::Ready(());
            }
            state.timer_count += 1;
            let timer = *timer_id.get_or_insert(state.timer_count);
            let previous = state.timers.insert((due_us, timer), context.waker().clone());
            drop((state, previous));
            Poll::Pending
        }))
    }
}

struct TaskWaker {
    simulation: Arc<Simulation>,
    task: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<TaskWaker>) {
        let mut state = self.simulation.state.lock();
        if !state.ready.contains(&self.task) {
            state.ready.push_back(self.task);
        }
    }
}

/// Adapts the simulation to the runtime interface.
pub struct SimulatedRuntime(pub Arc<Simulation>);

impl Runtime for SimulatedRuntime {
    fn now_us(&self) -> u64 {
        self.0.now_us()
    }

    fn sleep(&self, time: Duration) -> Task {
        self.0.sleep(time)
    }

    fn spawn(&self, task: Task) {
        self.0.start(task);
    }

    fn unique(&self) -> u64 {
        self.0.unique()
    }
}

/// A transport to a database on the same thread. Requests execute at once, and message wakers check after each
/// of them.
pub struct InlineTransport {
    db: Database,
    waiting: Arc<Mutex<Vec<Waker>>>,
}

impl InlineTransport {
    /// A transport to this database.
    pub fn new(db: &Database) -> InlineTransport {
        InlineTransport { db: db.clone(), waiting: Arc::default() }
    }
}

impl Transport for InlineTransport {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        Box::pin(async move {
            let answer = self.db.execute(transaction);
            self.db.sync()?;
            let waiting = std::mem::take(&mut *self.waiting.lock());
            waiting.into_iter().for_each(Waker::wake);
            answer
        })
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn MessageWaker>> {
        Box::pin(async move {
            let contract = Some(Contract::Sessions);
            let key = Some(session.as_str().to_owned());
            let filter = Filter { contract, key, ..Filter::default() };
            let feed = self.db.watch(filter, self.db.revision())?;
            Ok(Box::new(SimulatedMessageWaker { feed, waiting: self.waiting.clone() })
                as Box<dyn MessageWaker>)
        })
    }
}

struct SimulatedMessageWaker {
    feed: Feed,
    waiting: Arc<Mutex<Vec<Waker>>>,
}

impl MessageWaker for SimulatedMessageWaker {
    fn next(&mut self) -> Answering<'_, u64> {
        Box::pin(poll_fn(|context| {
            while let Some(event) = self.feed.next(Duration::ZERO)? {
                if event.kind == ChangeKind::Sent {
                    return Poll::Ready(Ok(event.counter));
                }
            }
            self.waiting.lock().push(context.waker().clone());
            Poll::Pending
        }))
    }
}
