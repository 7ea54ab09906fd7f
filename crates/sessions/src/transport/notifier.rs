//! Notifications of server messages in an embedded database: one thread reads the feed and notifies the message
//! wakers of all sessions.
//!
//! ```text
//!   feed of sessions --Sent--> by session name --> slot: the last number, and its waker
//! ```
//!
//! The thread starts with the first message waker. If the feed fails, all message wakers get the error and the thread
//! ends. The next message waker starts it again.

use super::MessageWaker;
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
const IDLE_SLEEP: Duration = Duration::from_secs(10);
/// Sleep while visible server messages are not durable yet.
const DURABILITY_DELAY: Duration = Duration::from_millis(20);

pub(super) struct Notifier {
    pub db: Database,
    subscriptions: Mutex<Subscriptions>,
    stop: AtomicBool,
}

#[derive(Default)]
struct Subscriptions {
    slots: HashMap<String, Vec<Weak<NotificationSlot>>>,
    /// Set while the thread reads the feed.
    thread: Option<JoinHandle<()>>,
    is_running: bool,
}

impl Notifier {
    pub fn new(db: Database) -> Arc<Notifier> {
        Arc::new(Notifier { db, subscriptions: Mutex::default(), stop: AtomicBool::new(false) })
    }

    /// Returns a message waker for a session.
    pub fn watch(self: &Arc<Notifier>, session: &Name) -> Result<Box<dyn MessageWaker>> {
        let slot = Arc::<NotificationSlot>::default();
        let mut subscriptions = self.subscriptions.lock();
        // SeqCst pairs with `close`, under the same lock.
        if self.stop.load(Ordering::SeqCst) {
            return Err(closed());
        }
        if !subscriptions.is_running {
            self.start(&mut subscriptions)?;
        }
        let slots = subscriptions.slots.entry(session.as_str().to_owned()).or_default();
        slots.push(Arc::downgrade(&slot));
        Ok(Box::new(LocalMessageWaker { slot, notifier: self.clone(), session: session.clone() }))
    }

    /// Removes a dropped message waker, and its session's entry if it was the last one.
    fn unsubscribe(&self, session: &Name) {
        let mut subscriptions = self.subscriptions.lock();
        let Some(slots) = subscriptions.slots.get_mut(session.as_str()) else { return };
        slots.retain(|slot| slot.strong_count() > 0);
        if slots.is_empty() {
            subscriptions.slots.remove(session.as_str());
        }
    }

    fn start(self: &Arc<Notifier>, subscriptions: &mut Subscriptions) -> Result<()> {
        let filter = Filter { contract: Some(Contract::Sessions), ..Filter::default() };
        let feed = self.db.watch(filter, self.db.revision())?;
        let notifier = self.clone();
        let thread = std::thread::Builder::new().name("mainstay-post".to_owned());
        let thread =
            thread.spawn(move || notifier.run(feed)).map_err(|error| failure::no_thread(&error))?;
        subscriptions.thread = Some(thread);
        subscriptions.is_running = true;
        Ok(())
    }

    fn run(&self, mut feed: Feed) {
        let error = loop {
            // SeqCst pairs with `close`.
            if self.stop.load(Ordering::SeqCst) {
                break closed();
            }
            if let Err(error) = self.run_round(&mut feed) {
                break error;
            }
        };
        let slots = {
            let mut subscriptions = self.subscriptions.lock();
            subscriptions.is_running = false;
            std::mem::take(&mut subscriptions.slots)
        };
        let all = slots.into_values().flatten().filter_map(|slot| slot.upgrade());
        all.for_each(|slot| slot.put(Err(error.clone())));
    }

    /// Delivers the new server messages and waits for more.
    fn run_round(&self, feed: &mut Feed) -> Result<()> {
        // Read the revisions before the feed, so that a write in between ends the wait at once.
        let Reached { visible, durable } = self.db.reached()?;
        while let Some(event) = feed.next(Duration::ZERO)? {
            if event.kind == ChangeKind::Sent {
                self.deliver(&event.key, event.counter);
            }
        }
        let timeout = if durable < visible { DURABILITY_DELAY } else { IDLE_SLEEP };
        self.db.wait_for_unless(visible + 1, timeout, &self.stop)
    }

    fn deliver(&self, session: &str, number: u64) {
        let slots: Vec<Arc<NotificationSlot>> = match self.subscriptions.lock().slots.get(session) {
            Some(slots) => slots.iter().filter_map(Weak::upgrade).collect(),
            None => return,
        };
        slots.iter().for_each(|slot| slot.put(Ok(number)));
    }

    /// Ends the thread. All message wakers get an error.
    pub fn close(&self) {
        let thread = {
            let mut subscriptions = self.subscriptions.lock();
            // SeqCst pairs with the loads in `run` and `wait_for_unless`. The lock orders it with `watch`.
            self.stop.store(true, Ordering::SeqCst);
            subscriptions.thread.take()
        };
        self.db.interrupt();
        let Some(thread) = thread else { return };
        // A listening task may drop the last handle on this thread itself, which cannot join itself.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// The notification slot of one message waker.
#[derive(Default)]
struct NotificationSlot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    notification: Option<Result<u64>>,
    waker: Option<Waker>,
}

impl NotificationSlot {
    fn put(&self, notification: Result<u64>) {
        let waker = {
            let mut state = self.0.lock();
            // An error stays: nothing is delivered after it.
            if !matches!(state.notification, Some(Err(_))) {
                state.notification = Some(notification);
            }
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

struct LocalMessageWaker {
    slot: Arc<NotificationSlot>,
    notifier: Arc<Notifier>,
    session: Name,
}

impl Drop for LocalMessageWaker {
    fn drop(&mut self) {
        self.slot = Arc::default();
        self.notifier.unsubscribe(&self.session);
    }
}

impl MessageWaker for LocalMessageWaker {
    fn next(&mut self) -> Answering<'_, u64> {
        Box::pin(poll_fn(|context| {
            let mut state = self.slot.0.lock();
            match state.notification.take() {
                Some(notification) => Poll::Ready(notification),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }
}

fn closed() -> Error {
    Error::new(Code::Io, "the database is not listened to any more")
}
