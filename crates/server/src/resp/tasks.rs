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

use super::reply::Reply;
use super::session::Session;
use super::slow_log::Told;
use super::table::Group;
use super::work::Counted;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// A future that resolves to the reply.
pub type Answering = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A command in progress.
pub struct Task {
    answering: Answering,
    /// The reply if the wait is ended early; `None` if the task waits only for the write-ahead log.
    in_vain: Option<Reply>,
}

impl Task {
    /// Creates a task that waits only for the write-ahead log.
    pub fn new(answering: impl Future<Output = Reply> + Send + 'static) -> Task {
        Task { answering: Box::pin(answering), in_vain: None }
    }

    /// Creates a task that waits for actions of other clients. `in_vain` is its reply if the wait is ended
    /// early.
    pub fn waiting(
        answering: impl Future<Output = Reply> + Send + 'static,
        in_vain: Reply,
    ) -> Task {
        Task { answering: Box::pin(answering), in_vain: Some(in_vain) }
    }

    /// Returns whether it waits for actions of other clients, which may never happen.
    pub fn waits(&self) -> bool {
        self.in_vain.is_some()
    }

    /// Polls the task. Returns the reply if it is complete.
    pub fn go_on(&mut self, waker: &Waker) -> Option<Reply> {
        match self.answering.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(reply) => Some(reply),
            Poll::Pending => None,
        }
    }

    /// Blocks the thread until the reply is known.
    pub fn wait(mut self) -> Reply {
        let waker = Waker::from(Arc::new(Sleeper(std::thread::current())));
        loop {
            match self.go_on(&waker) {
                Some(reply) => return reply,
                None => std::thread::park(),
            }
        }
    }
}

/// A waker that unparks a sleeping thread.
struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A task stored by its connection, with the data for its metrics.
pub struct Kept {
    task: Task,
    began_us: u64,
    told: Told,
    group: Group,
    /// Counts the task in the gauge of waiting tasks.
    _waits: Option<Counted>,
}

impl Kept {
    /// Creates it for a session whose last command is the task.
    pub fn new(task: Task, session: &Session, told: Told) -> Kept {
        let shared = &session.shared;
        let _waits = task.waits().then(|| Counted::new(shared, |figures| &figures.tasks_waiting));
        Kept { task, began_us: shared.ticks_us(), told, group: session.group(), _waits }
    }

    /// Polls the task. Returns the reply if it is complete.
    pub fn go_on(&mut self, session: &Session, waker: &Waker) -> Option<Reply> {
        let reply = self.task.go_on(waker)?;
        // A wait for other clients says nothing about the speed of the server.
        if !self.task.waits() {
            self.measure(session);
        }
        Some(reply)
    }

    /// Returns the reply for a wait that is ended early, if the task waits for other clients.
    pub fn in_vain(&self) -> Option<&Reply> {
        self.task.in_vain.as_ref()
    }

    fn measure(&self, session: &Session) {
        let shared = &session.shared;
        let took_us = shared.ticks_us().saturating_sub(self.began_us);
        session.tally.took(self.group, took_us);
        if shared.slow_log.is_slow(took_us) {
            session.note_slow(std::iter::once(self.told), took_us);
        }
    }
}
