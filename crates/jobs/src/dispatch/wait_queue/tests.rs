//! Tests the dispatcher with probes under the test's control and a manual clock.

use super::*;
use mainstay::{Code, Durability, Fields, MAIN, ManualClock, Options};
use std::collections::BTreeMap;
// SeqCst in these tests: the counters and flags synchronize with other threads, and speed does not matter.
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

const LATER: Stamp = Stamp::MAX / 2;

struct World {
    clock: Arc<ManualClock>,
    db: Database,
    dispatcher: Arc<Dispatcher>,
    probe_counts: Arc<Mutex<BTreeMap<String, usize>>>,
    ready: Arc<AtomicUsize>,
}

/// A waiter that is polled only when the test says so.
struct TestWaiter {
    turn: Turn,
    waker: Arc<TestWaker>,
}

struct TestWaker(std::thread::Thread, AtomicBool);

impl Wake for TestWaker {
    fn wake(self: Arc<TestWaker>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

impl World {
    fn new() -> World {
        let clock = ManualClock::new(1_700_000_000_000_000);
        let options = Options::new().durability(Durability::Memory).clock(clock.clone());
        let db = options.sweep_interval(None).memory().unwrap();
        let dispatcher = Arc::new(Dispatcher::new(&db));
        World { clock, db, dispatcher, probe_counts: Arc::default(), ready: Arc::default() }
    }

    fn probe_fn(&self, queue: &str) -> ProbeFn {
        let probe_counts = self.probe_counts.clone();
        let ready = self.ready.clone();
        let queue = queue.to_owned();
        Arc::new(move |_| {
            *probe_counts.lock().entry(queue.clone()).or_default() += 1;
            Ok(Availability { ready: ready.load(Ordering::SeqCst), next_due: None })
        })
    }

    fn probe_count(&self) -> usize {
        self.probe_counts.lock().values().sum()
    }

    fn enter_with(&self, queue: &str, deadline: Stamp, probe_fn: ProbeFn) -> TestWaiter {
        self.dispatcher.start().unwrap();
        let turn = self.dispatcher.state.enter(format!("{MAIN} {queue}"), deadline, probe_fn);
        TestWaiter::of(turn)
    }

    fn enter(&self, queue: &str) -> TestWaiter {
        self.enter_with(queue, LATER, self.probe_fn(queue))
    }

    fn write(&self, key: &str) {
        self.db.records().put(key, &Fields::of([("a", "1")]).unwrap(), None).unwrap();
    }

    /// Waits until the dispatcher has examined every earlier change.
    fn wait_until_probed(&self) {
        let is_done = || {
            let queues = self.dispatcher.state.queues.lock();
            let is_examined = queues.is_empty() || queues.examined == Some(self.db.revision());
            is_examined
                && queues.is_probed()
                && !self.dispatcher.state.is_changed.load(Ordering::SeqCst)
        };
        // Twice, because the probes taken in one round are run before the next round.
        for _ in 0..2 {
            self.dispatcher.state.wake_thread();
            while !is_done() {
                std::thread::yield_now();
            }
        }
    }

    fn failed_attempt(&self) -> FailedAttempt {
        FailedAttempt { revision: self.db.revision(), at: self.db.now_us().unwrap() }
    }
}

impl TestWaiter {
    fn of(turn: Turn) -> TestWaiter {
        let waker = TestWaker(std::thread::current(), AtomicBool::new(false));
        let waiter = TestWaiter { turn, waker: Arc::new(waker) };
        // It may have been granted its turn before its waker was stored.
        if waiter.poll().is_ready() {
            waiter.waker.1.store(true, Ordering::SeqCst);
        }
        waiter
    }

    fn poll(&self) -> Poll<Result<bool>> {
        let waker = Waker::from(self.waker.clone());
        self.turn.poll(&Context::from_waker(&waker))
    }

    fn is_woken(&self) -> bool {
        self.waker.1.load(Ordering::SeqCst)
    }

    fn wait_for_wakeup(&self) {
        while !self.is_woken() {
            std::thread::park();
        }
    }

    fn requeue(self, failed_attempt: FailedAttempt) -> TestWaiter {
        TestWaiter::of(self.turn.requeue(failed_attempt))
    }
}

#[test]
fn only_queues_whose_keys_were_written_are_looked_at() {
    let world = World::new();
    let all: Vec<TestWaiter> = (0..100).map(|n| world.enter(&format!("t.{n}."))).collect();
    world.wait_until_probed();
    let before = world.probe_count();
    for n in 0..200 {
        world.write(&format!("other.{n}"));
    }
    world.wait_until_probed();
    assert_eq!(world.probe_count(), before, "what nobody waits for is no reason to look");
    world.ready.store(1, Ordering::SeqCst);
    world.write("t.7.job.with.points");
    all[7].wait_for_wakeup();
    world.wait_until_probed();
    assert!(all.iter().enumerate().all(|(n, one)| n == 7 || !one.is_woken()));
    assert_eq!(world.probe_counts.lock()["t.7."], before / 100 + 1);
}

#[test]
fn a_turn_that_is_given_up_during_the_look_is_not_forgotten() {
    let world = World::new();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let plain = world.probe_fn("t.");
    let probe_gate = gate.clone();
    // The first probe returns at once; later ones wait for the test.
    let gated: ProbeFn = Arc::new(move |probe: Probe| {
        let availability = plain(probe);
        if probe.with_turn > 0 {
            let mut is_open = probe_gate.0.lock();
            probe_gate.1.wait_while(&mut is_open, |is_open| !*is_open);
        }
        availability
    });
    world.ready.store(1, Ordering::SeqCst);
    let first = world.enter_with("t.", LATER, gated.clone());
    first.wait_for_wakeup();
    let second = world.enter_with("t.", LATER, gated);
    while world.probe_count() < 2 {
        std::thread::yield_now();
    }
    drop(first);
    *gate.0.lock() = true;
    gate.1.notify_all();
    second.wait_for_wakeup();
    assert!(matches!(second.poll(), Poll::Ready(Ok(true))));
}

#[test]
fn a_try_in_vain_is_repeated_when_something_was_written_or_after_a_pause() {
    let world = World::new();
    world.ready.store(1, Ordering::SeqCst);
    let mut waiter = world.enter("t.");
    waiter.wait_for_wakeup();
    for _ in 0..50 {
        waiter = waiter.requeue(world.failed_attempt());
        world.wait_until_probed();
        world.write("other");
        world.wait_until_probed();
        assert!(!waiter.is_woken(), "the look and the try disagree: nothing is gained by trying");
        world.write("t.1");
        waiter.wait_for_wakeup();
    }
    waiter = waiter.requeue(world.failed_attempt());
    world.wait_until_probed();
    let before = world.probe_count();
    world.wait_until_probed();
    assert_eq!(world.probe_count(), before);
    // Stamps of writes run ahead of a clock that does not advance.
    world.clock.advance(Duration::from_millis(10));
    waiter.wait_for_wakeup();
    waiter = waiter.requeue(world.failed_attempt());
    world.clock.advance(Duration::from_millis(1));
    world.wait_until_probed();
    assert!(!waiter.is_woken(), "the pause gets longer");
    world.clock.advance(Duration::from_millis(1));
    waiter.wait_for_wakeup();
}

#[test]
fn who_waits_hears_why_it_cannot_be_served() {
    let world = World::new();
    let broken: ProbeFn = Arc::new(|_| Err(Error::new(Code::CorruptData, "unreadable")));
    let waiter = world.enter_with("t.", LATER, broken);
    waiter.wait_for_wakeup();
    let Poll::Ready(Err(error)) = waiter.poll() else { panic!("it waits") };
    assert_eq!(error.code(), Code::CorruptData);
}

#[test]
fn who_was_called_and_does_not_come_keeps_nobody_else() {
    let world = World::new();
    world.ready.store(1, Ordering::SeqCst);
    let [first, second] = [(); 2].map(|()| world.enter("t."));
    first.wait_for_wakeup();
    world.wait_until_probed();
    assert!(!second.is_woken());
    world.clock.advance(Duration::from_secs(1));
    second.wait_for_wakeup();
    // It polls late and is the first in the queue again.
    assert!(first.poll().is_pending());
    drop(second);
    world.wait_until_probed();
    assert!(matches!(first.poll(), Poll::Ready(Ok(true))));
}

#[test]
fn a_call_ends_with_the_time_of_who_was_called() {
    let world = World::new();
    world.ready.store(1, Ordering::SeqCst);
    let deadline = world.db.now_us().unwrap() + 1000;
    let first = world.enter_with("t.", deadline, world.probe_fn("t."));
    first.wait_for_wakeup();
    let second = world.enter("t.");
    world.clock.advance(Duration::from_millis(1));
    second.wait_for_wakeup();
    assert!(matches!(first.poll(), Poll::Ready(Ok(false))), "it is late");
}

#[test]
fn who_tried_in_vain_keeps_its_place() {
    let world = World::new();
    world.ready.store(1, Ordering::SeqCst);
    let first = world.enter("t.");
    first.wait_for_wakeup();
    let second = world.enter("t.");
    world.ready.store(0, Ordering::SeqCst);
    let first = first.requeue(world.failed_attempt());
    world.wait_until_probed();
    world.ready.store(1, Ordering::SeqCst);
    world.write("t.1");
    first.wait_for_wakeup();
    world.wait_until_probed();
    assert!(!second.is_woken());
}

/// The shutdown is noticed at any point of the dispatcher's round. A lost wake-up would block for an hour.
#[test]
fn a_bell_ends_when_it_is_dropped() {
    let db = Options::new().durability(Durability::Memory).memory().unwrap();
    for n in 0..300 {
        let dispatcher = Dispatcher::new(&db);
        dispatcher.start().unwrap();
        let nothing: ProbeFn = Arc::new(|_| Ok(Availability { ready: 0, next_due: None }));
        let turn = dispatcher.state.enter(format!("{MAIN} t."), LATER, nothing);
        (0..n % 50).for_each(|_| std::thread::yield_now());
        drop(dispatcher);
        drop(turn);
    }
}
