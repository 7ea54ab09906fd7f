//! Tickets: futures for the answers of submitted transactions.
//!
//! ```text
//!   one sync answers many: the log stores all answers, then wakes the waiters of their group by one call
//! ```

use crate::base::fault_points::{self, InjectedFault};
use crate::base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::base::sync::{Mutex, thread_local};
use crate::commit::wakeup::{self, Bell, WakeSet};
use mainstay_model::{Receipt, Result, SmallVec};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The function that is called with the answer of a transaction.
pub(crate) type Callback = Box<dyn FnOnce(Result<Receipt>) + Send>;

/// The receiver of a transaction's answer.
pub(crate) enum Completion {
    Waiter(Arc<Waiter>),
    Callback(Callback),
    /// One slot of a batch of answers that are waited for together.
    Part(Arc<Batch>, usize),
}

impl Completion {
    /// Sets the group whose event count the answer will signal.
    pub fn expect_at(&self, bell: u32) {
        match self {
            Completion::Waiter(waiter) => waiter.bell.store(bell, Ordering::Relaxed),
            // The last group of a batch is the one that the waiter sleeps for.
            Completion::Part(batch, _) => batch.waiter.bell.store(bell, Ordering::Relaxed),
            Completion::Callback(_) => {}
        }
    }
}

/// Waiters that sleep although their answers have arrived; they are woken together.
#[derive(Default)]
pub(crate) struct Sleepers {
    chime: WakeSet,
    /// Tasks, and threads that slept before their group was known.
    alone: Vec<Arc<Waiter>>,
}

impl Sleepers {
    /// Stores an answer. If the waiter sleeps, adds it to those to be woken.
    pub fn settle(&mut self, waiter: Arc<Waiter>, result: Result<Receipt>) {
        match waiter.put(result) {
            OPEN | DONE => {}
            ALONE | POLLED => self.alone.push(waiter),
            asleep => self.chime.add(asleep - ASLEEP),
        }
    }

    /// Stores one answer of a batch. The last one may wake the waiter.
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

/// No answer yet, and no thread sleeps.
const OPEN: u32 = 0;
/// The answer has arrived.
const DONE: u32 = 1;
/// A thread sleeps at the waiter's own event count.
const ALONE: u32 = 2;
/// A thread sleeps at event count `state - ASLEEP`, which its group shares.
const ASLEEP: u32 = 3;
/// A task waits and has left its waker.
const POLLED: u32 = u32::MAX;

/// The group is not known yet.
const NO_BELL: u32 = u32::MAX;

/// A slot for one answer, and the thread or task that waits for it.
pub(crate) struct Waiter {
    state: AtomicU32,
    /// The index of the event count of the transaction's group.
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
    /// A thread reuses the same waiter for one answer after the other.
    static SEAT: Cell<Option<Arc<Waiter>>> = const { Cell::new(None) };

    /// The work that this thread must do before it may sleep, if other threads rely on it.
    static DUTY: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
}

/// Sets the work that this thread must do before it may sleep.
pub(crate) fn before_sleep(duty: impl Fn() + 'static) {
    DUTY.with(|kept| *kept.borrow_mut() = Some(Box::new(duty)));
}

/// Does the work set by `before_sleep`. A thread that ends has none any more.
fn do_duty() {
    let _ = DUTY.try_with(|duty| duty.borrow().as_ref().inspect(|duty| duty()).is_some());
}

impl Waiter {
    /// Runs `wait` with this thread's own waiter.
    pub fn with_seat<T>(wait: impl FnOnce(&Arc<Waiter>) -> T) -> T {
        // A callback that waits finds the thread's waiter in use and gets a new one. So does a thread
        // that ends.
        let seat = SEAT.try_with(Cell::take).ok().flatten().unwrap_or_default();
        seat.state.store(OPEN, Ordering::Relaxed);
        seat.bell.store(NO_BELL, Ordering::Relaxed);
        let waited = wait(&seat);
        // While a thread ends its local storage is destroyed, so the waiter is dropped.
        let _ = SEAT.try_with(|kept| kept.set(Some(seat)));
        waited
    }

    /// Stores the answer and returns the state before.
    fn put(&self, result: Result<Receipt>) -> u32 {
        *self.result.lock() = Some(result);
        // From here on the waiting thread may take the answer and reuse the waiter. SeqCst: releases
        // the answer to `is_done`, and acquires the state that `poll` or `sleep` has set.
        self.state.swap(DONE, Ordering::SeqCst)
    }

    pub fn is_done(&self) -> bool {
        // Acquire: pairs with the swap in `put`.
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

    /// Returns the answer, or stores the task's waker for it.
    fn poll(&self, context: &Context<'_>) -> Poll<Result<Receipt>> {
        // The waker is stored before the state changes, so that the thread that answers finds it.
        // SeqCst: either this exchange comes first and `put` sees `POLLED`, or the answer is seen
        // below.
        *self.waker.lock() = Some(context.waker().clone());
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        let before = self.state.compare_exchange(OPEN, POLLED, order.0, order.1);
        match (before, self.is_done()) {
            (_, true) => self.result.lock().take().map_or(Poll::Pending, Poll::Ready),
            _ => Poll::Pending,
        }
    }

    /// Wakes the task or the thread that waits here and not at a group's event count.
    fn wake(&self) {
        let task = self.waker.lock().take();
        match task {
            Some(task) => task.wake(),
            None => self.own.ring(),
        }
    }

    /// Removes the task's waker, because a thread will wait instead.
    fn unpoll(&self) {
        *self.waker.lock() = None;
        // Fails if no task had polled, or if the answer arrived. SeqCst as in `poll`.
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.state.compare_exchange(POLLED, OPEN, order.0, order.1);
    }

    fn sleep(&self) {
        let bell = self.bell.load(Ordering::Relaxed);
        let (asleep, at) = match bell {
            NO_BELL => (ALONE, &self.own),
            bell => (ASLEEP + bell, wakeup::get(bell)),
        };
        // The epoch is read before the state says that a thread sleeps, so that a wake-up after that is
        // noticed. SeqCst: `put` then either sees the sleeper, or has stored the answer and the
        // exchange fails.
        let rung = at.rung();
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        if self.state.compare_exchange(OPEN, asleep, order.0, order.1).is_ok() {
            let rung = if fault_points::is(InjectedFault::RungReadLate) { at.rung() } else { rung };
            at.wait(rung);
            // Fails if the answer arrived, which is the usual case.
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
    /// A batch of `count` answers, at least one.
    pub fn new(count: usize, waiter: &Arc<Waiter>) -> Arc<Batch> {
        let answers = Mutex::new((0..count).map(|_| None).collect());
        Arc::new(Batch { answers, left: AtomicUsize::new(count), waiter: waiter.clone() })
    }

    /// Stores one answer. After the last one, returns the waiter.
    fn put(&self, place: usize, result: Result<Receipt>) -> Option<Arc<Waiter>> {
        if let Some(answer) = self.answers.lock().get_mut(place) {
            *answer = Some(result);
        }
        // AcqRel: the thread that counts down to zero comes after all others have stored their answers.
        let last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        last.then(|| self.waiter.clone())
    }

    /// Waits for all answers.
    pub fn wait(&self) -> Vec<Result<Receipt>> {
        // The waiter's own result is empty: the outcomes are in the answers.
        let _ = self.waiter.wait();
        std::mem::take(&mut *self.answers.lock()).into_iter().flatten().collect()
    }
}

/// A placeholder receipt for the waiter of a batch; its content is not used.
fn nothing() -> Receipt {
    let answers = SmallVec::new();
    Receipt { revision: 0, stamp: 0, held: true, repeated: false, answers }
}

/// A future for the answer of a submitted transaction.
pub struct Ticket(Arc<Waiter>);

impl Ticket {
    pub(crate) fn new(waiter: Arc<Waiter>) -> Ticket {
        Ticket(waiter)
    }

    /// Waits until the transaction is durable, or has failed.
    pub fn wait(self) -> Result<Receipt> {
        self.0.unpoll();
        self.0.wait()
    }

    /// Returns whether the answer has arrived.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

/// A ticket can be awaited on any async runtime.
impl Future for Ticket {
    type Output = Result<Receipt>;

    fn poll(self: Pin<&mut Ticket>, context: &mut Context<'_>) -> Poll<Result<Receipt>> {
        self.0.poll(context)
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
