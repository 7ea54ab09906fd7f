//! Slots: a place for one answer to come, for a thread or a task that waits.

use crate::base::clock::{Clock, SystemClock};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// A place for one answer.
pub(crate) struct Oneshot<T>(Mutex<OneshotState<T>>);

enum OneshotState<T> {
    /// Nothing yet, and who is to be told.
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
    /// Puts the answer down and wakes who waits.
    pub fn put(&self, answer: T) {
        let before = std::mem::replace(&mut *self.0.lock(), OneshotState::Done(answer));
        if let OneshotState::Open(Some(waker)) = before {
            waker.wake();
        }
    }

    /// Whether the answer is there.
    pub fn is_done(&self) -> bool {
        !matches!(*self.0.lock(), OneshotState::Open(_))
    }

    /// The answer, once.
    pub fn poll(&self, context: &Context<'_>) -> Poll<T> {
        let mut state = self.0.lock();
        if let OneshotState::Open(waker) = &mut *state {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, OneshotState::Taken) {
            OneshotState::Done(answer) => Poll::Ready(answer),
            // Whoever asks again after the end waits for ever, as with any future.
            other => {
                *state = other;
                Poll::Pending
            }
        }
    }

    /// The answer to come.
    pub async fn answer(&self) -> T {
        std::future::poll_fn(|context| self.poll(context)).await
    }
}

/// A thread that waits for a future.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Parked>) {
        self.0.unpark();
    }
}

thread_local! {
    static PARKED: Waker = Waker::from(Arc::new(Parked(std::thread::current())));
}

/// What wakes this thread.
fn own_waker() -> Waker {
    // A thread that ends has none of its own any more.
    let own = PARKED.try_with(Waker::clone);
    own.unwrap_or_else(|_| Waker::from(Arc::new(Parked(std::thread::current()))))
}

/// Waits for a future in this thread: how blocking handles use what is there to be awaited.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let (waker, mut future) = (own_waker(), pin!(future));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Waits for a future in this thread, but not for longer than this.
pub(crate) fn wait_within<T>(future: impl Future<Output = T>, limit: Duration) -> Option<T> {
    let (clock, waker, mut future) = (SystemClock::new(), own_waker(), pin!(future));
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(answer);
        }
        let left = limit.checked_sub(Duration::from_micros(clock.monotonic_us()))?;
        std::thread::park_timeout(left.max(Duration::from_micros(1)));
    }
}
