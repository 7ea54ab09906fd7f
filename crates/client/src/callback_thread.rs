//! Callback thread: runs user callbacks off the reader thread. Callbacks may block for an answer, which
//! only the reader thread can deliver.
//!
//! ```text
//!   reader --(permit, job)--> queue --> thread: returns the permit, runs the job
//! ```

use super::in_flight_limit::{self, InFlightPermit};
use parking_lot::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SendError, Sender, channel};

pub(crate) type CallbackJob = Box<dyn FnOnce() + Send>;

/// A queued job keeps its in-flight permit until its turn comes, so the limits of in-flight requests also
/// bound the queue.
type Waiting = (Option<InFlightPermit>, CallbackJob);

/// Sender to the callback thread, which is started on first use and ends when this is dropped.
#[derive(Default)]
pub(crate) struct CallbackThread(Mutex<Option<Sender<Waiting>>>);

impl CallbackThread {
    /// Queues a callback behind all earlier ones.
    pub fn post(&self, permit: Option<InFlightPermit>, job: CallbackJob) {
        self.post_by(start, (permit, job));
    }

    fn post_by(&self, start: impl FnOnce() -> io::Result<Sender<Waiting>>, waiting: Waiting) {
        // If no thread can be spawned, run the job here. No lock is held, because the job may post another
        // one.
        if let Err(waiting) = self.hand_over(start, waiting) {
            run(waiting);
        }
    }

    /// Sends a job to the thread, or returns it if no thread can be started.
    fn hand_over(
        &self,
        start: impl FnOnce() -> io::Result<Sender<Waiting>>,
        waiting: Waiting,
    ) -> Result<(), Waiting> {
        let mut way = self.0.lock();
        let Ok(sender) = way.take().map_or_else(start, Ok) else { return Err(waiting) };
        let sent = sender.send(waiting).map_err(|SendError(back)| back);
        *way = Some(sender);
        sent
    }
}

fn start() -> io::Result<Sender<Waiting>> {
    let (sender, jobs) = channel::<Waiting>();
    let thread = std::thread::Builder::new().name("mainstay-calls".to_owned());
    thread.spawn(move || {
        in_flight_limit::calls_back();
        jobs.into_iter().for_each(run);
    })?;
    Ok(sender)
}

fn run((permit, job): Waiting) {
    drop(permit);
    // The panic hook has already reported the panic. Other callbacks must still run.
    let _ = catch_unwind(AssertUnwindSafe(job));
}

#[cfg(test)]
mod tests {
    use super::super::in_flight_limit::InFlightLimiter;
    use super::super::oneshot::wait;
    use super::*;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    #[test]
    fn what_waits_to_be_called_keeps_its_room() {
        let (calls, room): (CallbackThread, Arc<InFlightLimiter>) = Default::default();
        let (open, gate) = mpsc::channel::<()>();
        calls.post(None, Box::new(move || assert!(gate.recv().is_err())));
        calls.post(Some(wait(room.enter(1))), Box::new(|| {}));
        // This request fits only if nothing else is in flight.
        let mut largest = pin!(room.enter(usize::MAX));
        let poll = largest.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending(), "the second job still waits");
        drop(open);
        drop(wait(largest));
    }

    #[test]
    fn without_a_thread_the_caller_calls_and_holds_no_lock() {
        let calls: Arc<CallbackThread> = Arc::default();
        let (inside, (done, called)) = (calls.clone(), mpsc::channel());
        calls.post_by(
            || Err(io::ErrorKind::OutOfMemory.into()),
            (None, Box::new(move || done.send(inside.0.try_lock().is_some()).unwrap())),
        );
        assert_eq!(called.try_recv(), Ok(true));
    }
}
