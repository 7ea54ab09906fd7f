//! In-flight limiter: a fair semaphore that bounds the number and bytes of requests in flight
//! (back-pressure).

use super::oneshot::Oneshot;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of requests in flight, over all connections.
const REQUEST_LIMIT: usize = 65_536;

/// Maximum number of request bytes in flight. A larger request is admitted alone.
const BYTE_LIMIT: usize = 128 << 20;

thread_local! {
    /// True on the callback thread. It is never blocked here, because the answers that would free room are
    /// queued behind its own callback.
    static CALLS_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as the callback thread.
pub(crate) fn calls_back() {
    CALLS_BACK.set(true);
}

#[derive(Default)]
pub(crate) struct InFlightLimiter(Mutex<TakenBytes>);

#[derive(Default)]
struct TakenBytes {
    requests: usize,
    bytes: usize,
    /// FIFO queue of waiting requests: their bytes and their wake-up.
    queue: VecDeque<(usize, Arc<Oneshot<()>>)>,
}

impl TakenBytes {
    fn fits(&self, bytes: usize) -> bool {
        self.requests == 0
            || (self.requests < REQUEST_LIMIT && self.bytes.saturating_add(bytes) <= BYTE_LIMIT)
    }

    fn add(&mut self, bytes: usize) {
        self.requests += 1;
        self.bytes += bytes;
    }
}

/// A permit for one request in flight. Dropping it frees its room.
pub(crate) struct InFlightPermit {
    room: Arc<InFlightLimiter>,
    bytes: usize,
}

impl InFlightLimiter {
    /// Waits for room, first come, first served.
    pub async fn enter(self: &Arc<InFlightLimiter>, bytes: usize) -> InFlightPermit {
        let turn = self.queue_up(bytes);
        // Guards a cancelled wait: if this future is dropped, room that was granted meanwhile is freed.
        let mut place = QueuePosition { room: self, bytes, turn };
        if let Some(turn) = &place.turn {
            turn.answer().await;
        }
        place.turn = None;
        InFlightPermit { room: self.clone(), bytes }
    }

    /// Takes room if it is available, or queues up.
    fn queue_up(&self, bytes: usize) -> Option<Arc<Oneshot<()>>> {
        let mut taken = self.0.lock();
        if CALLS_BACK.get() || (taken.queue.is_empty() && taken.fits(bytes)) {
            taken.add(bytes);
            return None;
        }
        let turn: Arc<Oneshot<()>> = Arc::default();
        taken.queue.push_back((bytes, turn.clone()));
        Some(turn)
    }

    fn leave(&self, bytes: usize) {
        let mut taken = self.0.lock();
        taken.requests -= 1;
        taken.bytes -= bytes;
        self.admit(taken);
    }

    /// Admits waiting requests from the front of the queue, as far as they fit.
    fn admit(&self, mut taken: parking_lot::MutexGuard<'_, TakenBytes>) {
        let mut admitted = Vec::new();
        while taken.queue.front().is_some_and(|(bytes, _)| taken.fits(*bytes)) {
            if let Some((bytes, turn)) = taken.queue.pop_front() {
                taken.add(bytes);
                admitted.push(turn);
            }
        }
        drop(taken);
        admitted.iter().for_each(|turn| turn.put(()));
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.room.leave(self.bytes);
    }
}

/// A position in the queue.
struct QueuePosition<'r> {
    room: &'r InFlightLimiter,
    bytes: usize,
    turn: Option<Arc<Oneshot<()>>>,
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        let Some(turn) = &self.turn else { return };
        let mut taken = self.room.0.lock();
        let before = taken.queue.len();
        taken.queue.retain(|(_, other)| !Arc::ptr_eq(turn, other));
        if taken.queue.len() == before {
            // It had already been admitted.

            drop(taken);
            self.room.leave(self.bytes);
        } else {
            self.room.admit(taken)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn poll(future: &mut Pin<&mut impl Future<Output = InFlightPermit>>) -> Option<InFlightPermit> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn who_does_not_fit_waits_and_comes_in_turn() {
        let room: Arc<InFlightLimiter> = Arc::default();
        let first = poll(&mut pin!(room.enter(BYTE_LIMIT - 10))).expect("there is room");
        let mut large = pin!(room.enter(20));
        let mut small = pin!(room.enter(1));
        assert!(poll(&mut large).is_none());
        assert!(poll(&mut small).is_none(), "behind the other, though it would fit");
        drop(first);
        assert!(poll(&mut large).is_some() && poll(&mut small).is_some());
    }

    #[test]
    fn whoever_gives_up_lets_the_next_in() {
        let room: Arc<InFlightLimiter> = Arc::default();
        let first = poll(&mut pin!(room.enter(BYTE_LIMIT - 10))).expect("there is room");
        let mut small = pin!(room.enter(1));
        {
            let mut large = pin!(room.enter(20));
            assert!(poll(&mut large).is_none());
            assert!(poll(&mut small).is_none());
        }
        let small = poll(&mut small).expect("nobody is before it any more");
        drop((first, small));
        let taken = room.0.lock();
        assert_eq!((taken.requests, taken.bytes), (0, 0));
    }

    #[test]
    fn what_was_granted_to_somebody_who_gave_up_is_given_back() {
        let room: Arc<InFlightLimiter> = Arc::default();
        let first = poll(&mut pin!(room.enter(BYTE_LIMIT))).expect("there is room");
        {
            let mut waiting = pin!(room.enter(20));
            assert!(poll(&mut waiting).is_none());
            drop(first);
            assert_eq!(room.0.lock().requests, 1, "it is granted");
        }
        assert_eq!(room.0.lock().requests, 0);
    }

    #[test]
    fn the_largest_goes_alone_and_requests_are_counted() {
        let room: Arc<InFlightLimiter> = Arc::default();
        drop(poll(&mut pin!(room.enter(2 * BYTE_LIMIT))).expect("it is alone"));
        let enter = |_| poll(&mut pin!(room.enter(0))).expect("there is room");
        let permits: Vec<InFlightPermit> = (0..REQUEST_LIMIT).map(enter).collect();
        assert!(poll(&mut pin!(room.enter(0))).is_none());
        drop(permits);
    }
}
