//! One-shot slot: one value passed to a waiting thread or task.

use mainstay_model::{Clock, SystemClock};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// A slot for one value, passed to a waiting thread or task.
pub struct Oneshot<T>(Mutex<OneshotState<T>>);

enum OneshotState<T> {
    /// Empty, with the waker of the waiting task.
    Open(Option<Waker>),
    Done(T),
    Taken,
}

impl<T> Default for Oneshot<T> {
    fn default() -> Oneshot<T> {
        Oneshot(Mutex::new(OneshotState::Open(None)))
    }
}

impl<T> Oneshot<T> {
    /// Stores the value and wakes the waiting task.
    pub fn put(&self, answer: T) {
        let before = std::mem::replace(&mut *self.0.lock(), OneshotState::Done(answer));
        if let OneshotState::Open(Some(waker)) = before {
            waker.wake();
        }
    }

    /// Returns whether the value has been stored.
    pub fn is_done(&self) -> bool {
        !matches!(*self.0.lock(), OneshotState::Open(_))
    }

    /// Takes the value, once.
    pub fn poll(&self, context: &Context<'_>) -> Poll<T> {
        let mut state = self.0.lock();
        if let OneshotState::Open(waker) = &mut *state {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, OneshotState::Taken) {
            OneshotState::Done(answer) => Poll::Ready(answer),
            // Polling again after the value was taken stays pending forever, like any completed future.
            other => {
                *state = other;
                Poll::Pending
            }
        }
    }

    /// Waits for the value.
    pub async fn answer(&self) -> T {
        std::future::poll_fn(|context| self.poll(context)).await
    }
}

/// Waker that unparks a thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Parked>) {
        self.0.unpark();
    }
}

thread_local! {
    static PARKED: Waker = Waker::from(Arc::new(Parked(std::thread::current())));
}

/// The waker of this thread.
fn own_waker() -> Waker {
    // The thread-local waker is already destroyed if this thread is exiting.
    let own = PARKED.try_with(Waker::clone);
    own.unwrap_or_else(|_| Waker::from(Arc::new(Parked(std::thread::current()))))
}

/// Blocks this thread until a future completes. The blocking handles use it to call the async client.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = own_waker();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Blocks this thread until a future completes, for at most `limit`.
pub(crate) fn wait_within<T>(future: impl Future<Output = T>, limit: Duration) -> Option<T> {
    let clock = SystemClock::new();
    let waker = own_waker();
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(answer);
        }
        let left = limit.checked_sub(Duration::from_micros(clock.monotonic_us()))?;
        std::thread::park_timeout(left.max(Duration::from_micros(1)));
    }
}
