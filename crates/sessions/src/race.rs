//! Waiting for whichever comes first.

use parking_lot::Mutex;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, Waker};

/// Which of two came first.
pub(crate) enum First<A, B> {
    This(A),
    That(B),
}

/// Waits for one of two; if both are there, it is the first. The other one is dropped.
pub(crate) async fn race<A, B>(
    this: impl Future<Output = A>,
    that: impl Future<Output = B>,
) -> First<A, B> {
    let (mut this, mut that) = (pin!(this), pin!(that));
    poll_fn(|context| match this.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(First::This(done)),
        Poll::Pending => that.as_mut().poll(context).map(First::That),
    })
    .await
}

/// Wakes all who wait for something to change.
#[derive(Default)]
pub(crate) struct Bell {
    wakers: Mutex<Vec<Waker>>,
}

impl Bell {
    /// Lets all look again.
    pub fn ring(&self) {
        let wakers = std::mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until a look, at each ring, finds something.
    pub async fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        poll_fn(|context| {
            // Before the look: a ring in between is not missed.
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
