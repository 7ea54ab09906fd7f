//! Tickets: the answer to come of a submitted transaction.

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
    pub fn complete(self, result: Result<Receipt>) {
        match self {
            Completion::Waiter(waiter) => waiter.complete(result),
            Completion::Callback(callback) => callback(result),
        }
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
}

impl Waiter {
    fn complete(&self, result: Result<Receipt>) {
        let thread = {
            let mut place = self.place.lock();
            place.result = Some(result);
            place.thread.take()
        };
        if let Some(thread) = thread {
            thread.unpark();
        }
    }

    pub fn is_done(&self) -> bool {
        self.place.lock().result.is_some()
    }

    pub fn wait(&self) -> Result<Receipt> {
        loop {
            {
                let mut place = self.place.lock();
                if let Some(result) = place.result.take() {
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
