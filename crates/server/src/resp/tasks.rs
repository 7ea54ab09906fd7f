//! Tasks: commands whose reply takes several steps, none of which holds a thread.
//!
//! ```text
//!   command --> Task --poll--> ready: the reply, in the same turn
//!                 ^     |
//!                 |     v not yet: its connection keeps it and rests
//!   the loop <-message- waker, which whatever is waited for has
//! ```
//!
//! A task that is dropped, because its connection is gone, waits for nothing any more.

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

/// What gives a reply in the end.
pub type Answering = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// A command that is under way.
pub struct Task {
    answering: Answering,
    /// What is said when nobody waits any longer, if it waits for others and not only for the log.
    in_vain: Option<Reply>,
}

impl Task {
    /// One that is done as soon as the log is.
    pub fn new(answering: impl Future<Output = Reply> + Send + 'static) -> Task {
        Task { answering: Box::pin(answering), in_vain: None }
    }

    /// One that waits for what others do, and for what is said where that is in vain.
    pub fn waiting(
        answering: impl Future<Output = Reply> + Send + 'static,
        in_vain: Reply,
    ) -> Task {
        Task { answering: Box::pin(answering), in_vain: Some(in_vain) }
    }

    /// Whether it waits for what others do, which may never happen.
    pub fn waits(&self) -> bool {
        self.in_vain.is_some()
    }

    /// Goes on as far as it can; the reply, if that is the end of it.
    pub fn go_on(&mut self, waker: &Waker) -> Option<Reply> {
        match self.answering.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(reply) => Some(reply),
            Poll::Pending => None,
        }
    }

    /// The reply, however long that takes.
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

/// A thread that sleeps until its task can go on.
struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A task that its connection keeps, with what has to be known to measure it.
pub struct Kept {
    task: Task,
    began_us: u64,
    told: Told,
    group: Group,
    /// Counted among those that wait for others.
    _waits: Option<Counted>,
}

impl Kept {
    /// Of a session whose last command it is.
    pub fn new(task: Task, session: &Session, told: Told) -> Kept {
        let shared = &session.shared;
        let waits = || Counted::new(shared, |figures| &figures.tasks_waiting);
        let _waits = task.waits().then(waits);
        Kept { task, began_us: shared.ticks_us(), told, group: session.group(), _waits }
    }

    /// Goes on as far as it can; the reply, if that is the end of it.
    pub fn go_on(&mut self, session: &Session, waker: &Waker) -> Option<Reply> {
        let reply = self.task.go_on(waker)?;
        // The time that somebody waited for others says nothing about the server.
        if !self.task.waits() {
            self.measure(session);
        }
        Some(reply)
    }

    /// What is said when nobody waits any longer, if it waits for others.
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
