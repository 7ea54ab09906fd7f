//! Workers: threads for work that would hold an event loop up.

use super::session::Job;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Work, and what is done with its reply.
struct Task {
    job: Job,
    done: Box<dyn FnOnce(super::Reply) + Send>,
}

/// Threads that do long work. They end when the last handle is dropped and all work is done.
#[derive(Clone)]
pub struct Workers {
    tasks: SyncSender<Task>,
}

impl Workers {
    /// So many threads, for which so much work may wait.
    pub fn start(count: usize, waiting_limit: usize) -> std::io::Result<Workers> {
        let (tasks, waiting) = sync_channel(waiting_limit);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..count.max(1) {
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new().name("mainstay-worker".to_owned());
            thread.spawn(move || work(&waiting))?;
        }
        Ok(Workers { tasks })
    }

    /// Has work done; gives `done` back if there is too much of it already.
    pub fn take(
        &self,
        job: Job,
        done: impl FnOnce(super::Reply) + Send + 'static,
    ) -> Result<(), Box<dyn FnOnce(super::Reply) + Send>> {
        let task = Task { job, done: Box::new(done) };
        self.tasks.try_send(task).map_err(|error| match error {
            TrySendError::Full(task) | TrySendError::Disconnected(task) => task.done,
        })
    }
}

fn work(waiting: &Mutex<Receiver<Task>>) {
    loop {
        let task = waiting.lock().recv();
        let Ok(Task { job, done }) = task else { return };
        let reply = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        done(reply.unwrap_or_else(|_| {
            super::Reply::error("ERR the command failed in a way that is a fault of the server")
        }));
    }
}
