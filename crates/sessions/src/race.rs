//! Small async helpers: select and notify.

use parking_lot::Mutex;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

/// The future that completed first.
pub(crate) enum First<A, B> {
    This(A),
    That(B),
}

/// Waits for the first of two futures. If both are ready, `this` wins. The other one is dropped.
pub(crate) async fn race<A, B>(
    this: impl Future<Output = A>,
    that: impl Future<Output = B>,
) -> First<A, B> {
    let mut this = pin!(this);
    let mut that = pin!(that);
    poll_fn(|context| match this.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(First::This(done)),
        Poll::Pending => that.as_mut().poll(context).map(First::That),
    })
    .await
}

/// Notifies all tasks that wait for a state change.
#[derive(Default)]
pub(crate) struct Bell {
    wakers: Mutex<Vec<Waker>>,
}

impl Bell {
    /// Makes all waiting tasks check again.
    pub fn ring(&self) {
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until `look` returns a value. Calls it at each ring.
    pub async fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        poll_fn(|context| {
            // Register before looking, so that a ring in between is not missed.
            self.add(context.waker());
            look().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn add(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}
