//! Letter notifications of an embedded database: one thread reads the feed and rings the doorbells of all
//! sessions.
//!
//! ```text
//!   feed of sessions --Sent--> by session name --> flap: the last number, and its waker
//! ```
//!
//! The thread starts with the first doorbell. If the feed fails, all doorbells get the error and the thread ends. The next
//! doorbell starts it again.

use super::Doorbell;
use crate::failure;
use mainstay::{
    Answering, ChangeKind, Code, Contract, Database, Error, Feed, Filter, Name, Reached, Result,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum sleep while nothing is written.
const GLANCE: Duration = Duration::from_secs(10);
/// Sleep while visible letters are not durable yet.
const LAG: Duration = Duration::from_millis(20);

pub(super) struct Post {
    pub db: Database,
    desk: Mutex<Desk>,
    stop: AtomicBool,
}

#[derive(Default)]
struct Desk {
    flaps: HashMap<String, Vec<Weak<Flap>>>,
    /// Set while the thread reads the feed.
    thread: Option<JoinHandle<()>>,
    is_read: bool,
}

impl Post {
    pub fn new(db: Database) -> Arc<Post> {
        Arc::new(Post { db, desk: Mutex::default(), stop: AtomicBool::new(false) })
    }

    /// Returns a doorbell for a session.
    pub fn watch(self: &Arc<Post>, session: &Name) -> Result<Box<dyn Doorbell>> {
        let flap = Arc::<Flap>::default();
        let mut desk = self.desk.lock();
        // SeqCst pairs with `close`, under the same lock.
        if self.stop.load(Ordering::SeqCst) {
            return Err(over());
        }
        if !desk.is_read {
            self.start(&mut desk)?;
        }
        let flaps = desk.flaps.entry(session.as_str().to_owned()).or_default();
        flaps.push(Arc::downgrade(&flap));
        Ok(Box::new(Bell { flap, post: self.clone(), session: session.clone() }))
    }

    /// Removes a dropped doorbell, and its session's entry if it was the last one.
    fn forget(&self, session: &Name) {
        let mut desk = self.desk.lock();
        let Some(flaps) = desk.flaps.get_mut(session.as_str()) else { return };
        flaps.retain(|flap| flap.strong_count() > 0);
        if flaps.is_empty() {
            desk.flaps.remove(session.as_str());
        }
    }

    fn start(self: &Arc<Post>, desk: &mut Desk) -> Result<()> {
        let filter = Filter { contract: Some(Contract::Sessions), ..Filter::default() };
        let feed = self.db.watch(filter, self.db.revision())?;
        let own = self.clone();
        let thread = std::thread::Builder::new().name("mainstay-post".to_owned());
        let thread =
            thread.spawn(move || own.run(feed)).map_err(|error| failure::no_thread(&error))?;
        desk.thread = Some(thread);
        desk.is_read = true;
        Ok(())
    }

    fn run(&self, mut feed: Feed) {
        let error = loop {
            // SeqCst pairs with `close`.
            if self.stop.load(Ordering::SeqCst) {
                break over();
            }
            if let Err(error) = self.round(&mut feed) {
                break error;
            }
        };
        let flaps = {
            let mut desk = self.desk.lock();
            desk.is_read = false;
            std::mem::take(&mut desk.flaps)
        };
        let all = flaps.into_values().flatten().filter_map(|flap| flap.upgrade());
        all.for_each(|flap| flap.put(Err(error.clone())));
    }

    /// Delivers the new letters and waits for more.
    fn round(&self, feed: &mut Feed) -> Result<()> {
        // Read the revisions before the feed, so that a write in between ends the wait at once.
        let Reached { visible, durable } = self.db.reached()?;
        while let Some(event) = feed.next(Duration::ZERO)? {
            if event.kind == ChangeKind::Sent {
                self.give_out(&event.key, event.counter);
            }
        }
        let time = if durable < visible { LAG } else { GLANCE };
        self.db.wait_for_unless(visible + 1, time, &self.stop)
    }

    fn give_out(&self, session: &str, number: u64) {
        let flaps: Vec<Arc<Flap>> = match self.desk.lock().flaps.get(session) {
            Some(flaps) => flaps.iter().filter_map(Weak::upgrade).collect(),
            None => return,
        };
        flaps.iter().for_each(|flap| flap.put(Ok(number)));
    }

    /// Ends the thread. All doorbells get an error.
    pub fn close(&self) {
        let thread = {
            let mut desk = self.desk.lock();
            // SeqCst pairs with the loads in `run` and `wait_for_unless`. The lock orders it with `watch`.
            self.stop.store(true, Ordering::SeqCst);
            desk.thread.take()
        };
        self.db.interrupt();
        let Some(thread) = thread else { return };
        // A doorbell's waker may drop the last handle on this thread itself, which cannot join itself.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// The mailbox of one doorbell.
#[derive(Default)]
struct Flap(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    came: Option<Result<u64>>,
    waker: Option<Waker>,
}

impl Flap {
    fn put(&self, came: Result<u64>) {
        let waker = {
            let mut inside = self.0.lock();
            // An error stays: nothing is delivered after it.
            if !matches!(inside.came, Some(Err(_))) {
                inside.came = Some(came);
            }
            inside.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

struct Bell {
    flap: Arc<Flap>,
    post: Arc<Post>,
    session: Name,
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.flap = Arc::default();
        self.post.forget(&self.session);
    }
}

impl Doorbell for Bell {
    fn next(&mut self) -> Answering<'_, u64> {
        Box::pin(poll_fn(|context| {
            let mut inside = self.flap.0.lock();
            match inside.came.take() {
                Some(came) => Poll::Ready(came),
                None => {
                    inside.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }
}

fn over() -> Error {
    Error::new(Code::Io, "the database is not listened to any more")
}
