//! Tests the bell with looks under the test's control and a manual clock.

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
    bell: Arc<Bell>,
    looks: Arc<Mutex<BTreeMap<String, usize>>>,
    ready: Arc<AtomicUsize>,
}

/// A waiter that is polled only when the test says so.
struct Waiter {
    turn: Turn,
    call: Arc<Call>,
}

struct Call(std::thread::Thread, AtomicBool);

impl Wake for Call {
    fn wake(self: Arc<Call>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

impl World {
    fn new() -> World {
        let clock = ManualClock::new(1_700_000_000_000_000);
        let options = Options::new().durability(Durability::Memory).clock(clock.clone());
        let db = options.sweep_interval(None).memory().unwrap();
        let bell = Arc::new(Bell::new(&db));
        World { clock, db, bell, looks: Arc::default(), ready: Arc::default() }
    }

    fn look(&self, queue: &str) -> Look {
        let looks = self.looks.clone();
        let ready = self.ready.clone();
        let queue = queue.to_owned();
        Arc::new(move |_| {
            *looks.lock().entry(queue.clone()).or_default() += 1;
            Ok(Outlook { ready: ready.load(Ordering::SeqCst), due: None })
        })
    }

    fn looks(&self) -> usize {
        self.looks.lock().values().sum()
    }

    fn enter_with(&self, queue: &str, until: Stamp, look: Look) -> Waiter {
        self.bell.start().unwrap();
        let turn = self.bell.tower.enter(format!("{MAIN} {queue}"), until, look);
        Waiter::of(turn)
    }

    fn enter(&self, queue: &str) -> Waiter {
        self.enter_with(queue, LATER, self.look(queue))
    }

    fn write(&self, key: &str) {
        self.db.records().put(key, &Fields::of([("a", "1")]).unwrap(), None).unwrap();
    }

    /// Waits until the bell has looked at every earlier change.
    fn settle(&self) {
        let is_settled = || {
            let queues = self.bell.tower.queues.lock();
            let is_seen = queues.is_empty() || queues.seen == Some(self.db.revision());
            is_seen && queues.is_looked_at() && !self.bell.tower.stirred.load(Ordering::SeqCst)
        };
        // Twice, because the looks taken in one round are made before the next round.
        for _ in 0..2 {
            self.bell.tower.stir();
            while !is_settled() {
                std::thread::yield_now();
            }
        }
    }

    fn tried(&self) -> Tried {
        Tried { revision: self.db.revision(), at: self.db.now_us().unwrap() }
    }
}

impl Waiter {
    fn of(turn: Turn) -> Waiter {
        let call = Call(std::thread::current(), AtomicBool::new(false));
        let waiter = Waiter { turn, call: Arc::new(call) };
        // It may have been called before its waker was stored.
        if waiter.poll().is_ready() {
            waiter.call.1.store(true, Ordering::SeqCst);
        }
        waiter
    }

    fn poll(&self) -> Poll<Result<bool>> {
        let waker = Waker::from(self.call.clone());
        self.turn.poll(&Context::from_waker(&waker))
    }

    fn is_woken(&self) -> bool {
        self.call.1.load(Ordering::SeqCst)
    }

    fn wait_for_call(&self) {
        while !self.is_woken() {
            std::thread::park();
        }
    }

    fn again(self, tried: Tried) -> Waiter {
        Waiter::of(self.turn.again(tried))
    }
}

#[test]
fn only_queues_whose_keys_were_written_are_looked_at() {
    let world = World::new();
    let all: Vec<Waiter> = (0..100).map(|n| world.enter(&format!("t.{n}."))).collect();
    world.settle();
    let before = world.looks();
    for n in 0..200 {
        world.write(&format!("other.{n}"));
    }
    world.settle();
    assert_eq!(world.looks(), before, "what nobody waits for is no reason to look");
    world.ready.store(1, Ordering::SeqCst);
    world.write("t.7.job.with.points");
    all[7].wait_for_call();
    world.settle();
    assert!(all.iter().enumerate().all(|(n, one)| n == 7 || !one.is_woken()));
    assert_eq!(world.looks.lock()["t.7."], before / 100 + 1);
}

#[test]
fn a_turn_that_is_given_up_during_the_look_is_not_forgotten() {
    let world = World::new();
    let looking = Arc::new((Mutex::new(false), Condvar::new()));
    let plain = world.look("t.");
    let gate = looking.clone();
    // The first look returns at once; later ones wait for the test.
    let held: Look = Arc::new(move |question: Question| {
        let found = plain(question);
        if question.called > 0 {
            let mut is_open = gate.0.lock();
            gate.1.wait_while(&mut is_open, |is_open| !*is_open);
        }
        found
    });
    world.ready.store(1, Ordering::SeqCst);
    let first = world.enter_with("t.", LATER, held.clone());
    first.wait_for_call();
    let second = world.enter_with("t.", LATER, held);
    while world.looks() < 2 {
        std::thread::yield_now();
    }
    drop(first);
    *looking.0.lock() = true;
    looking.1.notify_all();
    second.wait_for_call();
    assert!(matches!(second.poll(), Poll::Ready(Ok(true))));
}

#[test]
fn a_try_in_vain_is_repeated_when_something_was_written_or_after_a_pause() {
    let world = World::new();
    world.ready.store(1, Ordering::SeqCst);
    let mut waiter = world.enter("t.");
    waiter.wait_for_call();
    for _ in 0..50 {
        waiter = waiter.again(world.tried());
        world.settle();
        world.write("other");
        world.settle();
        assert!(!waiter.is_woken(), "the look and the try disagree: nothing is gained by trying");
        world.write("t.1");
        waiter.wait_for_call();
    }
    waiter = waiter.again(world.tried());
    world.settle();
    let before = world.looks();
    world.settle();
    assert_eq!(world.looks(), before);
    // Stamps of writes run ahead of a clock that does not advance.
    world.clock.advance(Duration::from_millis(10));
    waiter.wait_for_call();
    waiter = waiter.again(world.tried());
    world.clock.advance(Duration::from_millis(1));
    world.settle();
    assert!(!waiter.is_woken(), "the pause gets longer");
    world.clock.advance(Duration::from_millis(1));
    waiter.wait_for_call();
}

#[test]
fn who_waits_hears_why_it_cannot_be_served() {
    let world = World::new();
    let broken: Look = Arc::new(|_| Err(Error::new(Code::CorruptData, "unreadable")));
    let waiter = world.enter_with("t.", LATER, broken);
    waiter.wait_for_call();
    let Poll::Ready(Err(error)) = waiter.poll() else { panic!("it waits") };
    assert_eq!(error.code(), Code::CorruptData);
}

#[test]
fn who_was_called_and_does_not_come_keeps_nobody_else() {
    let world = World::new();
    world.ready.store(1, Ordering::SeqCst);
    let [first, second] = [(); 2].map(|()| world.enter("t."));
    first.wait_for_call();
    world.settle();
    assert!(!second.is_woken());
    world.clock.advance(Duration::from_secs(1));
    second.wait_for_call();
    // It polls late and is the first in the queue again.
    assert!(first.poll().is_pending());
    drop(second);
    world.settle();
    assert!(matches!(first.poll(), Poll::Ready(Ok(true))));
}

#[test]
fn a_call_ends_with_the_time_of_who_was_called() {
    let world = World::new();
    world.ready.store(1, Ordering::SeqCst);
    let until = world.db.now_us().unwrap() + 1000;
    let first = world.enter_with("t.", until, world.look("t."));
    first.wait_for_call();
    let second = world.enter("t.");
    world.clock.advance(Duration::from_millis(1));
    second.wait_for_call();
    assert!(matches!(first.poll(), Poll::Ready(Ok(false))), "it is late");
}

#[test]
fn who_tried_in_vain_keeps_its_place() {
    let world = World::new();
    world.ready.store(1, Ordering::SeqCst);
    let first = world.enter("t.");
    first.wait_for_call();
    let second = world.enter("t.");
    world.ready.store(0, Ordering::SeqCst);
    let first = first.again(world.tried());
    world.settle();
    world.ready.store(1, Ordering::SeqCst);
    world.write("t.1");
    first.wait_for_call();
    world.settle();
    assert!(!second.is_woken());
}

/// The shutdown is noticed at any point of the dispatcher's round. A lost wake-up would block for an hour.
#[test]
fn a_bell_ends_when_it_is_dropped() {
    let db = Options::new().durability(Durability::Memory).memory().unwrap();
    for n in 0..300 {
        let bell = Bell::new(&db);
        bell.start().unwrap();
        let nothing: Look = Arc::new(|_| Ok(Outlook { ready: 0, due: None }));
        let turn = bell.tower.enter(format!("{MAIN} t."), LATER, nothing);
        (0..n % 50).for_each(|_| std::thread::yield_now());
        drop(bell);
        drop(turn);
    }
}
