//! Callbacks of callers, on a thread of their own: they may execute and wait, which the reader, who
//! would bring the answer, must not.

use super::room;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};

type Job = Box<dyn FnOnce() + Send>;

/// The way to the thread, which is started when it is needed and ends with this.
#[derive(Default)]
pub(crate) struct Calls(Mutex<Option<Sender<Job>>>);

impl Calls {
    /// Has something called, behind all that came before it.
    pub fn post(&self, job: Job) {
        let mut way = self.0.lock();
        let sender = match way.take().map_or_else(start, Ok) {
            Ok(sender) => sender,
            // Without a thread to be had, the caller's answer comes from here.
            Err(_) => return job(),
        };
        // The thread lives for as long as this does.
        let _ = sender.send(job);
        *way = Some(sender);
    }
}

fn start() -> std::io::Result<Sender<Job>> {
    let (sender, jobs) = channel::<Job>();
    let thread = std::thread::Builder::new().name("mainstay-calls".to_owned());
    thread.spawn(move || {
        room::calls_back();
        for job in jobs {
            // The panic was reported when it happened; it harms nobody else.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    })?;
    Ok(sender)
}
