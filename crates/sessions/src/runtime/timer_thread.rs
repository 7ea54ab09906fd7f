//! Single-threaded runtime: timers and background tasks for all sessions of a client.
//!
//! ```text
//!   sleep ---> timers, by their due time ----\
//!                                             >-- the thread: wakes, polls, sleeps until the next is due
//!   spawn, wakers ---> tasks that are ready -/
//! ```

use crate::failure;
use crate::runtime::{Runtime, Task};
use mainstay::{Clock, Result, SystemClock};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// A runtime of one thread. It ends with the last handle.
pub struct TimerThread {
    shared: Arc<TimerState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct TimerState {
    clock: SystemClock,
    work: Mutex<WorkQueue>,
    wake: Condvar,
}

#[derive(Default)]
struct WorkQueue {
    ready: VecDeque<Arc<BackgroundTask>>,
    /// Keyed by due time, and a number that makes the key unique.
    timers: BTreeMap<(u64, u64), Waker>,
    timer_count: u64,
    /// The end of the thread's current sleep. A timer that is due later needs no wake-up.
    sleeping_until_us: u64,
    is_shut_down: bool,
}

impl TimerThread {
    /// Starts the thread.
    pub fn start() -> Result<Arc<TimerThread>> {
        let clock = SystemClock::new();
        let work = Mutex::default();
        let wake = Condvar::new();
        let shared = Arc::new(TimerState { clock, work, wake });
        let state = shared.clone();
        let thread = std::thread::Builder::new().name("mainstay-sessions".to_owned());
        let thread =
            thread.spawn(move || state.run()).map_err(|error| failure::no_thread(&error))?;
        Ok(Arc::new(TimerThread { shared, thread: Mutex::new(Some(thread)) }))
    }
}

impl Runtime for TimerThread {
    fn now_us(&self) -> u64 {
        self.shared.clock.monotonic_us()
    }

    fn sleep(&self, time: Duration) -> Task {
        let due_us = self.now_us().saturating_add(micros(time));
        Box::pin(Sleep { shared: self.shared.clone(), due_us, timer: None })
    }

    fn spawn(&self, task: Task) {
        let future = Mutex::new(Some(task));
        let shared = Arc::downgrade(&self.shared);
        Arc::new(BackgroundTask { future, is_queued: AtomicBool::new(false), shared }).wake();
    }
}

impl Drop for TimerThread {
    fn drop(&mut self) {
        let work = {
            let mut work = self.shared.work.lock();
            std::mem::replace(&mut *work, WorkQueue { is_shut_down: true, ..WorkQueue::default() })
        };
        self.shared.wake.notify_one();
        // Unlocked, because dropping futures removes their timers.
        drop(work);
        let Some(thread) = self.thread.lock().take() else { return };
        // A task may drop the last handle on this thread itself, which cannot join itself and ends anyway.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

impl TimerState {
    fn run(&self) {
        while let Some(next) = self.next() {
            match next {
                WorkItem::Poll(task) => task.poll(),
                WorkItem::Wake(wakers) => wakers.into_iter().for_each(Waker::wake),
            }
        }
    }

    /// The next work item; waits for one. `None` at shutdown.
    fn next(&self) -> Option<WorkItem> {
        let mut work = self.work.lock();
        loop {
            if work.is_shut_down {
                return None;
            }
            let now_us = self.clock.monotonic_us();
            let due = work.due(now_us);
            if !due.is_empty() {
                return Some(WorkItem::Wake(due));
            }
            if let Some(task) = work.ready.pop_front() {
                return Some(WorkItem::Poll(task));
            }
            let until_us = work.timers.keys().next().map(|(due_us, _)| *due_us);
            work.sleeping_until_us = until_us.unwrap_or(u64::MAX);
            match until_us {
                Some(until_us) => {
                    let remaining = Duration::from_micros(until_us.saturating_sub(now_us));
                    self.wake.wait_for(&mut work, remaining);
                }
                None => self.wake.wait(&mut work),
            }
            work.sleeping_until_us = 0;
        }
    }
}

impl WorkQueue {
    /// Removes and returns the wakers of the due timers.
    fn due(&mut self, now_us: u64) -> Vec<Waker> {
        let later = self.timers.split_off(&(now_us + 1, 0));
        std::mem::replace(&mut self.timers, later).into_values().collect()
    }
}

enum WorkItem {
    Wake(Vec<Waker>),
    Poll(Arc<BackgroundTask>),
}

/// A spawned task.
struct BackgroundTask {
    future: Mutex<Option<Task>>,
    is_queued: AtomicBool,
    shared: Weak<TimerState>,
}

impl BackgroundTask {
    fn poll(self: &Arc<BackgroundTask>) {
        // Cleared before the poll: SeqCst pairs with `wake`, so a wake-up during the poll queues the task again.
        self.is_queued.store(false, Ordering::SeqCst);
        let waker = Waker::from(self.clone());
        let mut slot = self.future.lock();
        let Some(future) = slot.as_mut() else { return };
        let mut context = Context::from_waker(&waker);
        // A panicking task ends; the others continue.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        if !matches!(polled, Ok(Poll::Pending)) {
            *slot = None;
        }
    }
}

impl Wake for BackgroundTask {
    fn wake(self: Arc<BackgroundTask>) {
        let Some(shared) = self.shared.upgrade() else { return };
        // SeqCst pairs with `poll`. The swap queues the task only once.
        if self.is_queued.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut work = shared.work.lock();
        if !work.is_shut_down {
            work.ready.push_back(self);
            drop(work);
            shared.wake.notify_one();
        }
    }
}

/// A sleep future.
struct Sleep {
    shared: Arc<TimerState>,
    due_us: u64,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.clock.monotonic_us() >= self.due_us {
            return Poll::Ready(());
        }
        let previous = self.set_timer(context.waker().clone());
        drop(previous);
        Poll::Pending
    }
}

impl Sleep {
    /// Sets or resets the timer. Returns the previous waker, to be dropped unlocked.
    fn set_timer(&mut self, waker: Waker) -> Option<Waker> {
        let shared = self.shared.clone();
        let mut work = shared.work.lock();
        if work.is_shut_down {
            return Some(waker);
        }
        let timer = *self.timer.get_or_insert_with(|| {
            work.timer_count += 1;
            work.timer_count
        });
        let previous = work.timers.insert((self.due_us, timer), waker);
        let sleeps_too_long = self.due_us < work.sleeping_until_us;
        drop(work);
        if sleeps_too_long {
            shared.wake.notify_one();
        }
        previous
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(timer) = self.timer else { return };
        let waker = self.shared.work.lock().timers.remove(&(self.due_us, timer));
        drop(waker);
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::remote::wait;
    use std::sync::mpsc::channel;

    #[test]
    fn who_sleeps_is_woken_in_the_order_of_time() {
        let runtime = TimerThread::start().unwrap();
        let (sender, receiver) = channel();
        for ms in [30, 10, 20] {
            let sleep = runtime.sleep(Duration::from_millis(ms));
            let sender = sender.clone();
            runtime.spawn(Box::pin(async move {
                sleep.await;
                sender.send(ms).unwrap();
            }));
        }
        assert_eq!(receiver.iter().take(3).collect::<Vec<_>>(), [10, 20, 30]);
    }

    #[test]
    fn a_task_that_panics_ends_alone() {
        let runtime = TimerThread::start().unwrap();
        runtime.spawn(Box::pin(async { panic!("on purpose") }));
        wait(runtime.sleep(Duration::from_millis(1)));
    }

    #[test]
    fn tasks_end_with_the_last_handle() {
        let runtime = TimerThread::start().unwrap();
        let handle = Arc::new(());
        let sleep = runtime.sleep(Duration::from_secs(3600));
        let task_handle = handle.clone();
        runtime.spawn(Box::pin(async move {
            sleep.await;
            drop(task_handle);
        }));
        wait(runtime.sleep(Duration::from_millis(1)));
        drop(runtime);
        assert_eq!(Arc::strong_count(&handle), 1);
    }
}
