//! Tasks: asynchronous commands of several steps, polled by the event loop so that none of them blocks a
//! thread.
//!
//! ```text
//!   command --> Task --poll--> ready: the reply, in the same turn
//!                 ^     |
//!                 |     v pending: the connection stores the task and is suspended
//!   the loop <-message- waker, held by the event that the task waits for
//! ```
//!
//! A task is dropped when its connection is gone. It then waits for nothing.

use super::connection_state::ConnectionState;
use super::reply::Reply;
use super::slow_log::CommandSummary;
use super::table::Group;
use super::worker_metrics::GaugeGuard;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// A future that resolves to the reply.
pub type ReplyFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A command in progress.
pub struct Task {
    future: ReplyFuture,
    /// The reply if the wait is ended early; `None` if the task waits only for the write-ahead log.
    early_reply: Option<Reply>,
}

impl Task {
    /// Creates a task that waits only for the write-ahead log.
    pub fn new(future: impl Future<Output = Reply> + Send + 'static) -> Task {
        Task { future: Box::pin(future), early_reply: None }
    }

    /// Creates a task that waits for actions of other clients. `early_reply` is its reply if the wait is ended
    /// early.
    pub fn waiting(
        future: impl Future<Output = Reply> + Send + 'static,
        early_reply: Reply,
    ) -> Task {
        Task { future: Box::pin(future), early_reply: Some(early_reply) }
    }

    /// Returns whether it waits for actions of other clients, which may never happen.
    pub fn waits(&self) -> bool {
        self.early_reply.is_some()
    }

    /// Polls the task. Returns the reply if it is complete.
    pub fn poll(&mut self, waker: &Waker) -> Option<Reply> {
        match self.future.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(reply) => Some(reply),
            Poll::Pending => None,
        }
    }

    /// Blocks the thread until the reply is known.
    pub fn wait(mut self) -> Reply {
        let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
        loop {
            match self.poll(&waker) {
                Some(reply) => return reply,
                None => std::thread::park(),
            }
        }
    }
}

/// A waker that unparks a sleeping thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A task stored by its connection, with the data for its metrics.
pub struct RunningTask {
    task: Task,
    began_us: u64,
    summary: CommandSummary,
    group: Group,
    /// Counts the task in the gauge of waiting tasks.
    _gauge: Option<GaugeGuard>,
}

impl RunningTask {
    /// Creates it for a session whose last command is the task.
    pub fn new(task: Task, state: &ConnectionState, summary: CommandSummary) -> RunningTask {
        let shared = &state.shared;
        let _gauge =
            task.waits().then(|| GaugeGuard::new(shared, |metrics| &metrics.tasks_waiting));
        RunningTask { task, began_us: shared.ticks_us(), summary, group: state.group(), _gauge }
    }

    /// Polls the task. Returns the reply if it is complete.
    pub fn poll(&mut self, state: &ConnectionState, waker: &Waker) -> Option<Reply> {
        let reply = self.task.poll(waker)?;
        // A wait for other clients says nothing about the speed of the server.
        if !self.task.waits() {
            self.measure(state);
        }
        Some(reply)
    }

    /// Returns the reply for a wait that is ended early, if the task waits for other clients.
    pub fn early_reply(&self) -> Option<&Reply> {
        self.task.early_reply.as_ref()
    }

    fn measure(&self, state: &ConnectionState) {
        let shared = &state.shared;
        let took_us = shared.ticks_us().saturating_sub(self.began_us);
        state.counters.record_duration(self.group, took_us);
        if shared.slow_log.is_slow(took_us) {
            state.log_slow(std::iter::once(self.summary), took_us);
        }
    }
}
