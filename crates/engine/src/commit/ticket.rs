//! Tickets: the answer to come of a submitted transaction.
//!
//! ```text
//!   one sync answers many: the log puts all answers down, then rings the bell of their group once
//! ```

use crate::base::fault_points::{self, InjectedFault};
use crate::base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::base::sync::{Mutex, thread_local};
use crate::commit::wakeup::{self, Bell, WakeSet};
use crate::remote::SubmittedRequest;
use mainstay_model::{Receipt, Result, SmallVec};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What is called with the answer of a transaction.
pub(crate) type Callback = Box<dyn FnOnce(Result<Receipt>) + Send>;

/// Who is told when a transaction is done.
pub(crate) enum Completion {
    Waiter(Arc<Waiter>),
    Callback(Callback),
    /// A place in answers that are waited for together.
    Part(Arc<Batch>, usize),
}

impl Completion {
    /// Says at which bell the answer will be rung.
    pub fn expect_at(&self, bell: u32) {
        match self {
            Completion::Waiter(waiter) => waiter.bell.store(bell, Ordering::Relaxed),
            // The last group of a batch is the one that is waited for.
            Completion::Part(batch, _) => batch.waiter.bell.store(bell, Ordering::Relaxed),
            Completion::Callback(_) => {}
        }
    }
}

/// Those who sleep although their answers are there.
#[derive(Default)]
pub(crate) struct Sleepers {
    chime: WakeSet,
    /// Who slept before the group was known, and tasks.
    alone: Vec<Arc<Waiter>>,
}

impl Sleepers {
    /// Puts an answer down; whoever sleeps is added to those to be woken.
    pub fn settle(&mut self, waiter: Arc<Waiter>, result: Result<Receipt>) {
        match waiter.put(result) {
            OPEN | DONE => {}
            ALONE | POLLED => self.alone.push(waiter),
            asleep => self.chime.add(asleep - ASLEEP),
        }
    }

    /// Puts an answer of a batch down; with the last one there is somebody to wake.
    pub fn settle_part(&mut self, batch: &Batch, place: usize, result: Result<Receipt>) {
        if let Some(waiter) = batch.put(place, result) {
            self.settle(waiter, Ok(nothing()));
        }
    }

    pub fn wake(self) {
        self.chime.ring();
        self.alone.iter().for_each(|waiter| waiter.wake());
    }
}

/// No answer yet, and nobody sleeps.
const OPEN: u32 = 0;
/// The answer is there.
const DONE: u32 = 1;
/// Somebody sleeps at the waiter's own bell.
const ALONE: u32 = 2;
/// Somebody sleeps at the group's bell `state - ASLEEP`.
const ASLEEP: u32 = 3;
/// A task is to be told, by its waker.
const POLLED: u32 = u32::MAX;

/// No bell is known yet.
const NO_BELL: u32 = u32::MAX;

/// A place for one answer, and who waits for it.
pub(crate) struct Waiter {
    state: AtomicU32,
    /// The bell of the group that the transaction is in.
    bell: AtomicU32,
    own: Bell,
    waker: Mutex<Option<Waker>>,
    result: Mutex<Option<Result<Receipt>>>,
}

impl Default for Waiter {
    fn default() -> Waiter {
        Waiter {
            state: AtomicU32::new(OPEN),
            bell: AtomicU32::new(NO_BELL),
            own: Bell::new(),
            waker: Mutex::new(None),
            result: Mutex::new(None),
        }
    }
}

thread_local! {
    /// A thread waits for one answer after the other at the same place.
    static SEAT: Cell<Option<Arc<Waiter>>> = const { Cell::new(None) };

    /// What this thread has to do before it may sleep, if others rely on it.
    static DUTY: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
}

/// Says what this thread has to do before it may sleep.
pub(crate) fn before_sleep(duty: impl Fn() + 'static) {
    DUTY.with(|kept| *kept.borrow_mut() = Some(Box::new(duty)));
}

/// A thread that ends has no duty any more.
fn do_duty() {
    let _ = DUTY.try_with(|duty| duty.borrow().as_ref().inspect(|duty| duty()).is_some());
}

impl Waiter {
    /// Lends this thread's own place.
    pub fn with_seat<T>(wait: impl FnOnce(&Arc<Waiter>) -> T) -> T {
        // A callback that waits finds the seat taken and gets another, and so does a thread that ends.
        let seat = SEAT.try_with(Cell::take).ok().flatten().unwrap_or_default();
        seat.state.store(OPEN, Ordering::Relaxed);
        seat.bell.store(NO_BELL, Ordering::Relaxed);
        let waited = wait(&seat);
        // At a thread's end there is nobody to keep it for.
        let _ = SEAT.try_with(|kept| kept.set(Some(seat)));
        waited
    }

    /// Puts the answer down; gives the state before.
    fn put(&self, result: Result<Receipt>) -> u32 {
        *self.result.lock() = Some(result);
        // The place may be used again from here on.
        self.state.swap(DONE, Ordering::SeqCst)
    }

    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == DONE
    }

    pub fn wait(&self) -> Result<Receipt> {
        if !self.is_done() {
            do_duty();
        }
        loop {
            if self.is_done()
                && let Some(result) = self.result.lock().take()
            {
                return result;
            }
            self.sleep();
        }
    }

    /// The answer, or the promise to tell the task of it.
    fn poll(&self, context: &Context<'_>) -> Poll<Result<Receipt>> {
        // Put down before the state says so: who then answers finds it.
        *self.waker.lock() = Some(context.waker().clone());
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        let before = self.state.compare_exchange(OPEN, POLLED, order.0, order.1);
        match (before, self.is_done()) {
            (_, true) => self.result.lock().take().map_or(Poll::Pending, Poll::Ready),
            _ => Poll::Pending,
        }
    }

    /// Wakes the task or the thread that waits here alone.
    fn wake(&self) {
        let task = self.waker.lock().take();
        match task {
            Some(task) => task.wake(),
            None => self.own.ring(),
        }
    }

    /// No task is to be told any more: a thread will wait.
    fn unpoll(&self) {
        *self.waker.lock() = None;
        // Fails if none was, or if the answer came.
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.state.compare_exchange(POLLED, OPEN, order.0, order.1);
    }

    fn sleep(&self) {
        let bell = self.bell.load(Ordering::Relaxed);
        let (asleep, at) = match bell {
            NO_BELL => (ALONE, &self.own),
            bell => (ASLEEP + bell, wakeup::get(bell)),
        };
        // Looked at before the state says that somebody sleeps: who then rings is noticed.
        let rung = at.rung();
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        if self.state.compare_exchange(OPEN, asleep, order.0, order.1).is_ok() {
            let rung = if fault_points::is(InjectedFault::RungReadLate) { at.rung() } else { rung };
            at.wait(rung);
            // Fails if the answer came, which is what is hoped for.
            let _ = self.state.compare_exchange(asleep, OPEN, order.0, order.1);
        }
    }
}

/// Answers that are waited for together.
pub(crate) struct Batch {
    answers: Mutex<Vec<Option<Result<Receipt>>>>,
    left: AtomicUsize,
    waiter: Arc<Waiter>,
}

impl Batch {
    /// A batch of so many, at least one.
    pub fn new(count: usize, waiter: &Arc<Waiter>) -> Arc<Batch> {
        let answers = Mutex::new((0..count).map(|_| None).collect());
        Arc::new(Batch { answers, left: AtomicUsize::new(count), waiter: waiter.clone() })
    }

    /// Puts one answer down; the last one gives whom to tell.
    fn put(&self, place: usize, result: Result<Receipt>) -> Option<Arc<Waiter>> {
        if let Some(answer) = self.answers.lock().get_mut(place) {
            *answer = Some(result);
        }
        let last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        last.then(|| self.waiter.clone())
    }

    /// Waits for all answers.
    pub fn wait(&self) -> Vec<Result<Receipt>> {
        // What it says is in the answers.
        let _ = self.waiter.wait();
        std::mem::take(&mut *self.answers.lock()).into_iter().flatten().collect()
    }
}

/// A receipt that nobody looks at.
fn nothing() -> Receipt {
    let answers = SmallVec::new();
    Receipt { revision: 0, stamp: 0, held: true, repeated: false, answers }
}

/// The answer to come of a submitted transaction.
pub struct Ticket(Origin);

enum Origin {
    Here(Arc<Waiter>),
    There(SubmittedRequest),
}

impl Ticket {
    pub(crate) fn here(waiter: Arc<Waiter>) -> Ticket {
        Ticket(Origin::Here(waiter))
    }

    pub(crate) fn there(submitted: SubmittedRequest) -> Ticket {
        Ticket(Origin::There(submitted))
    }

    /// Waits until the transaction is durable, or has failed.
    pub fn wait(self) -> Result<Receipt> {
        match self.0 {
            Origin::Here(waiter) => {
                waiter.unpoll();
                waiter.wait()
            }
            Origin::There(submitted) => submitted.wait(),
        }
    }

    /// Whether the answer is there.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Origin::Here(waiter) => waiter.is_done(),
            Origin::There(submitted) => submitted.is_done(),
        }
    }
}

/// A ticket can be awaited, on any runtime.
impl Future for Ticket {
    type Output = Result<Receipt>;

    fn poll(self: Pin<&mut Ticket>, context: &mut Context<'_>) -> Poll<Result<Receipt>> {
        match &self.0 {
            Origin::Here(waiter) => waiter.poll(context),
            Origin::There(submitted) => submitted.poll(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(revision: u64) -> Receipt {
        let answers = SmallVec::new();
        Receipt { revision, stamp: 0, held: true, repeated: false, answers }
    }

    #[test]
    fn everyone_gets_the_own_answer_however_they_sleep() {
        for round in 0..200_u32 {
            let waiters: Vec<Arc<Waiter>> = (0..17).map(|_| Arc::default()).collect();
            std::thread::scope(|scope| {
                for (i, waiter) in waiters.iter().enumerate() {
                    scope.spawn(move || {
                        if (i + round as usize).is_multiple_of(3) {
                            std::thread::yield_now();
                        }
                        assert_eq!(waiter.wait().unwrap().revision, i as u64);
                    });
                }
                let mut sleepers = Sleepers::default();
                for (i, waiter) in waiters.iter().enumerate() {
                    let completion = Completion::Waiter(waiter.clone());
                    if i.is_multiple_of(2) {
                        completion.expect_at(wakeup::of_group(round));
                    }
                    sleepers.settle(waiter.clone(), Ok(receipt(i as u64)));
                }
                sleepers.wake();
            });
        }
    }
}
