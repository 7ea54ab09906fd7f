//! Tickets: the answer to come of a submitted transaction.
//!
//! ```text
//!   one sync answers many: the log puts all answers down, then wakes a few threads,
//!   and each thread that wakes wakes some of the others
//!
//!        log --> t1 --> t3 --> t7        so the next sync starts after a handful of wake-ups,
//!           \       \-> t6               not after all of them
//!            \-> t2 --> t5
//! ```

use mainstay_model::{Receipt, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::Thread;

/// Who is told when a transaction is done.
pub(crate) enum Completion {
    Waiter(Arc<Waiter>),
    Callback(Box<dyn FnOnce(Result<Receipt>) + Send>),
}

impl Completion {
    /// Tells one.
    pub fn complete(self, result: Result<Receipt>) {
        let mut sleeping = Vec::new();
        self.settle(result, &mut sleeping);
        wake(sleeping);
    }

    /// Puts the answer down; whoever sleeps is added to those to be woken.
    pub fn settle(self, result: Result<Receipt>, sleeping: &mut Vec<Arc<Waiter>>) {
        match self {
            Completion::Callback(callback) => callback(result),
            Completion::Waiter(waiter) => {
                if waiter.put(result) {
                    sleeping.push(waiter);
                }
            }
        }
    }
}

/// Wakes sleepers whose answers were put down, with their own help.
pub(crate) fn wake(mut sleeping: Vec<Arc<Waiter>>) {
    while let Some(waiter) = sleeping.pop() {
        let half = sleeping.split_off(sleeping.len() / 2);
        sleeping.extend(waiter.wake(half));
    }
}

/// A place for one answer, and the thread that waits for it.
#[derive(Default)]
pub(crate) struct Waiter {
    place: Mutex<Place>,
}

#[derive(Default)]
struct Place {
    result: Option<Result<Receipt>>,
    thread: Option<Thread>,
    /// Others to wake on the way out.
    others: Vec<Arc<Waiter>>,
}

impl Waiter {
    /// Puts the answer down; says whether its thread sleeps.
    fn put(&self, result: Result<Receipt>) -> bool {
        let mut place = self.place.lock();
        place.result = Some(result);
        place.thread.is_some()
    }

    /// Wakes the thread and gives it others to wake; gives them back if it has gone already.
    fn wake(&self, others: Vec<Arc<Waiter>>) -> Vec<Arc<Waiter>> {
        let thread = {
            let mut place = self.place.lock();
            if place.result.is_none() {
                return others;
            }
            place.others = others;
            place.thread.take()
        };
        if let Some(thread) = thread {
            thread.unpark();
        }
        Vec::new()
    }

    pub fn is_done(&self) -> bool {
        self.place.lock().result.is_some()
    }

    pub fn wait(&self) -> Result<Receipt> {
        loop {
            {
                let mut place = self.place.lock();
                if let Some(result) = place.result.take() {
                    let others = std::mem::take(&mut place.others);
                    drop(place);
                    wake(others);
                    return result;
                }
                place.thread = Some(std::thread::current());
            }
            std::thread::park();
        }
    }
}

/// The answer to come of a submitted transaction.
pub struct Ticket {
    pub(crate) waiter: Arc<Waiter>,
}

impl Ticket {
    /// Waits until the transaction is durable, or has failed.
    pub fn wait(self) -> Result<Receipt> {
        self.waiter.wait()
    }

    /// Whether the answer is there.
    pub fn is_done(&self) -> bool {
        self.waiter.is_done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_model::SmallVec;

    fn receipt(revision: u64) -> Receipt {
        let answers = SmallVec::new();
        Receipt { revision, stamp: 0, held: true, repeated: false, answers }
    }

    #[test]
    fn everyone_gets_the_own_answer_however_they_sleep() {
        for round in 0..200 {
            let waiters: Vec<Arc<Waiter>> = (0..17).map(|_| Arc::default()).collect();
            std::thread::scope(|scope| {
                for (i, waiter) in waiters.iter().enumerate() {
                    scope.spawn(move || {
                        if (i + round) % 3 == 0 {
                            std::thread::yield_now();
                        }
                        assert_eq!(waiter.wait().unwrap().revision, i as u64);
                    });
                }
                let mut sleeping = Vec::new();
                for (i, waiter) in waiters.iter().enumerate() {
                    let completion = Completion::Waiter(waiter.clone());
                    completion.settle(Ok(receipt(i as u64)), &mut sleeping);
                }
                wake(sleeping);
            });
        }
    }
}
