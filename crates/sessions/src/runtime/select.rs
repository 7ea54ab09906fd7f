//! Small async helpers: select and notify.

use parking_lot::Mutex;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

/// The future that completed first.
pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

/// Waits for the first of two futures. If both are ready, `first` wins. The other one is dropped.
pub(crate) async fn select<A, B>(
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> Either<A, B> {
    let mut first = pin!(first);
    let mut second = pin!(second);
    poll_fn(|context| match first.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Either::First(done)),
        Poll::Pending => second.as_mut().poll(context).map(Either::Second),
    })
    .await
}

/// Notifies all tasks that wait for a state change.
#[derive(Default)]
pub(crate) struct Notify {
    wakers: Mutex<Vec<Waker>>,
}

impl Notify {
    /// Makes all waiting tasks check again.
    pub fn notify_all(&self) {
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until `check` returns a value. Calls it at each notification.
    pub async fn wait_until<T>(&self, check: impl Fn() -> Option<T>) -> T {
        poll_fn(|context| {
            // Register before checking, so that a notification in between is not missed.
            self.add(context.waker());
            check().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn add(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|waiting| waiting.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}
