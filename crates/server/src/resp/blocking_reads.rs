//! Blocking reads: one thread serves readers that are up to date, a second thread serves readers that lag
//! behind.
//!
//! ```text
//!   FEED.READ WAIT   ->  the live thread polls whenever revisions move  ->  one reply
//!   FEED.WATCH       ->      |  ^                                       ->  a push per change, until it ends
//!   a revision       ->      |  | caught up                             ->  one reply
//!   RUN.TAIL WAIT    ->      v  |                                       ->  one reply
//!            lagging: more log to scan than one slice
//!            the lagging thread scans one slice for one reader, users take turns
//! ```
//!
//! Readers of old changes therefore do not delay readers that are up to date, however many they are.
//! Readers of one user do not delay those of another user.

use super::Shared;
use super::reply::Reply;
use super::shared::FeedSlot;
use super::worker_metrics::GaugeGuard;
use crate::fair_queue::FairQueue;
use crate::memory::{Account, Kind, Reservation};
use crate::process;
use crate::security::User;
use mainstay::{
    CanonicalEvent, Code, Database, Error, Event, Feed, Fields, Glance, Reached, Revision, RunTail,
    Value,
};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest wait for a change. After it, the thread checks for new readers and for deadlines.
const PAUSE: Duration = Duration::from_millis(5);

/// The most bytes of the log that one slice scans, so that other readers get their turn.
const SLICE_BYTES: usize = 1 << 20;

/// Size of the first slice, which runs while others wait: on an event loop, or on the live thread for a
/// reader not known to be up to date.
const FIRST_SLICE_BYTES: usize = 64 << 10;

/// A reply is complete at this size, except for the rest of its last transaction.
const REPLY_BYTES: usize = 4 << 20;

/// The end of a read.
pub enum ReadEnd {
    /// The read ends at the first result or at the deadline.
    FirstResult {
        /// In microseconds of the monotonic clock.
        deadline_us: u64,
    },
    /// The read ends when the connection is gone.
    Disconnect,
}

/// The result of a read.
pub struct FeedPage {
    pub events: Vec<Event>,
    /// The position after the last change.
    pub position: Revision,
    /// True if the log continues at the position: the deadline came before the rest was scanned.
    pub more: bool,
}

/// The function and the options that turn changes into a reply.
#[derive(Clone, Copy)]
pub struct FeedFormat {
    /// Makes the reply from the result.
    pub format: fn(mainstay::Result<FeedPage>) -> Reply,
    /// Whether the reply holds the values of the changes.
    pub values: bool,
    /// Whether the reply holds the position, so that a reply without changes is useful.
    pub position: bool,
}

/// A position in the feed, and the limits of the read.
pub struct FeedRead {
    feed: Feed,
    /// The most changes in one reply.
    limit: usize,
    until: ReadEnd,
    format: FeedFormat,
    /// The subscriber, whose permissions filter the changes. Without one, nothing is delivered.
    user: Option<Arc<User>>,
    events: Vec<Event>,
    event_bytes: usize,
    /// Reservation of those bytes on the account of the reader.
    reservation: Option<Reservation>,
    /// True if the log continues after the part that was scanned.
    more: bool,
    /// True if the log was scanned to its end.
    at_end: bool,
    _slot: FeedSlot,
    /// Held so that the connection can count its subscriptions by the reference count.
    _counted: Option<Arc<()>>,
}

impl FeedRead {
    /// Creates a read from the position of `feed`.
    pub fn new(
        feed: Feed,
        limit: usize,
        until: ReadEnd,
        format: FeedFormat,
        slot: FeedSlot,
    ) -> FeedRead {
        FeedRead {
            feed,
            limit,
            until,
            format,
            user: None,
            events: Vec::new(),
            event_bytes: 0,
            reservation: None,
            more: false,
            at_end: false,
            _slot: slot,
            _counted: None,
        }
    }

    /// Sets the user whose permissions filter the changes.
    pub fn for_user(mut self, user: Option<Arc<User>>) -> FeedRead {
        self.user = user;
        self
    }

    /// Charges the memory of found changes to an account.
    pub fn charged_to(mut self, account: &Arc<Account>) -> FeedRead {
        self.reservation = Some(account.reservation(Kind::Feeds));
        self
    }

    /// Holds `by` as long as the read lasts, so that it is counted.
    pub fn counted_by(mut self, counter: Arc<()>) -> FeedRead {
        self._counted = Some(counter);
        self
    }

    /// Scans the next slice of the log. Returns the reply, or `None` if the read has to wait or continue.
    pub fn poll(&mut self, now_us: u64) -> Option<Reply> {
        self.poll_slice(SLICE_BYTES, now_us)
    }

    /// Does the same with a small slice.
    pub fn poll_briefly(&mut self, now_us: u64) -> Option<Reply> {
        self.poll_slice(FIRST_SLICE_BYTES, now_us)
    }

    fn poll_slice(&mut self, bytes: usize, now_us: u64) -> Option<Reply> {
        if let Err(error) = self.scan(bytes) {
            return Some((self.format.format)(Err(error)));
        }
        let nothing = self.events.is_empty();
        let waits = match self.until {
            // The rest of the log is scanned before an empty reply is given.
            ReadEnd::FirstResult { deadline_us } if self.more => {
                !self.format.position || now_us < deadline_us
            }
            ReadEnd::FirstResult { deadline_us } => nothing && now_us < deadline_us,
            ReadEnd::Disconnect => self.more || nothing,
        };
        (!waits).then(|| self.take_reply())
    }

    fn take_reply(&mut self) -> Reply {
        self.event_bytes = 0;
        self.reservation = self.reservation.take().map(Reservation::emptied);
        let events = std::mem::take(&mut self.events);
        let position = self.feed.position();
        (self.format.format)(Ok(FeedPage { events, position, more: self.more }))
    }

    /// Scans until enough changes are found, and includes the rest of the last transaction. A reader that
    /// continues after that revision misses nothing.
    fn scan(&mut self, mut bytes: usize) -> mainstay::Result<()> {
        let mut last = self.events.last().map_or(0, |event| event.revision);
        self.more = false;
        self.at_end = false;
        while self.wants_more() || self.feed.position() < last {
            match self.feed.glance(&mut bytes)? {
                Glance::Event(event) if self.is_hidden(&event) => {}
                Glance::Event(event) => {
                    last = event.revision;
                    self.add_event(event)?;
                }
                Glance::End => {
                    self.at_end = true;
                    break;
                }
                Glance::More => {
                    self.more = true;
                    break;
                }
            }
        }
        Ok(())
    }

    fn wants_more(&self) -> bool {
        self.events.len() < self.limit && self.event_bytes < REPLY_BYTES
    }

    fn is_hidden(&self, event: &Event) -> bool {
        !self.user.as_ref().is_some_and(|user| user.may_follow(event.contract, &event.key))
    }

    fn add_event(&mut self, mut event: Event) -> mainstay::Result<()> {
        if !self.format.values {
            event.value = None;
            event.fields = None;
        }
        let value_bytes = event.value.as_ref().map_or(0, Value::weight_bytes);
        let fields_bytes = event.fields.as_ref().map_or(0, Fields::weight_bytes);
        self.event_bytes += size_of::<Event>() + event.key.len() + value_bytes + fields_bytes;
        if let Some(reservation) = &mut self.reservation {
            reservation
                .resize(self.event_bytes)
                .map_err(|exceeded| Error::new(Code::QueueFull, exceeded.to_string()))?;
        }
        self.events.push(event);
        Ok(())
    }
}

/// A wait for a revision to become visible.
pub struct RevisionWait {
    pub db: Database,
    pub revision: Revision,
    pub deadline_us: u64,
    /// Makes the reply from whether the revision became visible in time.
    pub format: fn(mainstay::Result<()>) -> Reply,
}

impl RevisionWait {
    fn poll(&self, now_us: u64) -> Option<Reply> {
        if self.db.revision() >= self.revision {
            return Some((self.format)(Ok(())));
        }
        let message = format!("revision {} was not reached in time", self.revision);
        (now_us >= self.deadline_us)
            .then(|| (self.format)(Err(Error::new(Code::TimedOut, message))))
    }
}

/// Byte limit of a `RUN.TAIL` reply, which the event that reaches it completes. The limit exists because
/// event loops and the live thread read these replies.
const TAIL_REPLY_BYTES: usize = 256 << 10;

/// A blocking read of events of a run.
pub struct TailRead {
    db: Database,
    tail: RunTail,
    limit: usize,
    deadline_us: u64,
    format: fn(mainstay::Result<Vec<CanonicalEvent>>) -> Reply,
    /// The settled revision at the last look. Only a later one can bring new events.
    polled_at: Option<Revision>,
}

impl TailRead {
    /// Creates a read from a position in a run.
    pub fn new(
        db: Database,
        tail: RunTail,
        limit: usize,
        deadline_us: u64,
        to_reply: fn(mainstay::Result<Vec<CanonicalEvent>>) -> Reply,
    ) -> TailRead {
        TailRead { db, tail, limit, deadline_us, format: to_reply, polled_at: None }
    }

    /// Returns the reply if events are durable or the deadline has passed.
    fn poll(&mut self, now_us: u64) -> Option<Reply> {
        let is_over = now_us >= self.deadline_us;
        let settled = self.db.reached().map(Reached::settled).ok();
        if settled.is_some() && settled == self.polled_at && !is_over {
            return None;
        }
        self.polled_at = settled;
        match self.tail.glance(self.limit, TAIL_REPLY_BYTES) {
            Ok(events) if events.is_empty() && !is_over => None,
            read => Some((self.format)(read)),
        }
    }
}

/// The event that a suspended reader waits for.
pub enum BlockingRead {
    /// Changes in the feed.
    Changes(Box<FeedRead>),
    Revision(RevisionWait),
    Events(Box<TailRead>),
}

impl BlockingRead {
    /// Returns the reply, unless it has to wait. Scans at most a small slice of the log.
    pub fn poll_briefly(&mut self, now_us: u64) -> Option<Reply> {
        match self {
            BlockingRead::Changes(read) => read.poll_briefly(now_us),
            other => other.poll(now_us),
        }
    }

    /// Returns the reply, unless it has to wait.
    pub fn poll(&mut self, now_us: u64) -> Option<Reply> {
        match self {
            BlockingRead::Changes(read) => read.poll(now_us),
            BlockingRead::Revision(wait) => wait.poll(now_us),
            BlockingRead::Events(tail) => tail.poll(now_us),
        }
    }

    /// Returns whether more of the log can be scanned at once, without waiting.
    pub fn can_continue(&self) -> bool {
        matches!(self, BlockingRead::Changes(read) if read.more)
    }

    /// Returns whether the log continues, either because it was not scanned or because enough was found.
    /// The lagging thread then continues.
    fn is_lagging(&self) -> bool {
        matches!(self, BlockingRead::Changes(read) if !read.at_end)
    }

    fn continues(&self) -> bool {
        matches!(self, BlockingRead::Changes(read) if matches!(read.until, ReadEnd::Disconnect))
    }
}

/// A waiting reader.
pub struct WaitingReader {
    pub read: BlockingRead,
    /// Cleared when the connection is gone.
    pub alive: Arc<AtomicBool>,
    /// Sends a reply to the reader's connection.
    pub send_reply: Box<dyn Fn(Reply) + Send>,
}

/// A reader, counted in a gauge while it waits.
struct CountedReader {
    reader: WaitingReader,
    /// True if it was up to date at the last look.
    live: bool,
    _counted: GaugeGuard,
}

#[derive(Default)]
struct ReaderQueues {
    /// Readers for the live thread.
    arrived: Vec<CountedReader>,
    /// Readers for the lagging thread, by user, because users take turns.
    lagging: FairQueue<String, CountedReader>,
    stopped: bool,
}

/// The state that both threads share.
#[derive(Default)]
struct FeedScheduler {
    state: Mutex<ReaderQueues>,
    arrived: Condvar,
    lagging: Condvar,
}

/// The handle to the threads. They end when the last handle is dropped, because no connection is left to
/// reply to.
#[derive(Clone)]
pub struct BlockingReads {
    handle: Arc<ReadThreads>,
    shared: Arc<Shared>,
}

struct ReadThreads(Arc<FeedScheduler>);

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.0.state.lock().stopped = true;
        self.0.arrived.notify_all();
        self.0.lagging.notify_all();
    }
}

impl BlockingReads {
    pub fn start(shared: Arc<Shared>) -> std::io::Result<BlockingReads> {
        let scheduler = Arc::new(FeedScheduler::default());
        let handle = Arc::new(ReadThreads(scheduler.clone()));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        {
            let shared = shared.clone();
            let scheduler = scheduler.clone();
            thread("mainstay-feeds").spawn(move || scheduler.run_live(&shared))?;
        }
        {
            let shared = shared.clone();
            let catch_up = move || {
                process::lower_priority();
                while scheduler.run_lagging_slice(&shared).is_some() {}
            };
            thread("mainstay-feeds-lagging").spawn(catch_up)?;
        }
        Ok(BlockingReads { handle, shared })
    }

    /// Adds a waiting reader.
    pub fn add(&self, reader: WaitingReader) {
        let _counted = GaugeGuard::new(&self.shared, |metrics| &metrics.feed_readers);
        self.handle.0.enqueue(CountedReader { reader, live: false, _counted });
    }
}

impl FeedScheduler {
    fn enqueue(&self, reader: CountedReader) {
        self.state.lock().arrived.push(reader);
        self.arrived.notify_one();
    }

    /// The live thread: polls all readers that are up to date whenever revisions move.
    fn run_live(&self, shared: &Shared) {
        let mut live: Vec<CountedReader> = Vec::new();
        loop {
            let Some(arrived) = self.take_arrived(live.is_empty()) else { return };
            live.extend(arrived);
            let reached = shared.db.reached();
            let now_us = now_us(shared);
            let (still_live, lagging) =
                live.into_iter().filter_map(|it| it.poll_live(now_us)).partition(|it| it.live);
            live = still_live;
            self.enqueue_lagging(lagging);
            if let (false, Ok(reached)) = (live.is_empty(), reached) {
                // A timeout is as good as a new revision, because the readers are polled again either way.
                let _ = shared.db.wait_to_move(reached, PAUSE);
            }
        }
    }

    /// Takes the readers that have arrived. With `wait`, waits for the first one. Returns `None` at the
    /// end.
    fn take_arrived(&self, wait: bool) -> Option<Vec<CountedReader>> {
        let mut state = self.state.lock();
        while wait && state.arrived.is_empty() && !state.stopped {
            self.arrived.wait(&mut state);
        }
        (!state.stopped).then(|| std::mem::take(&mut state.arrived))
    }

    fn enqueue_lagging(&self, lagging: Vec<CountedReader>) {
        if lagging.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for reader in lagging {
            state.lagging.push(reader.user(), reader);
        }
        self.lagging.notify_one();
    }

    /// The lagging thread: scans one slice for one reader, then turns to the next user. Returns `None` at
    /// the end.
    fn run_lagging_slice(&self, shared: &Shared) -> Option<()> {
        let reader = self.next_lagging()?;
        let reader = reader.poll_lagging(now_us(shared));
        match reader {
            Some(reader) if reader.live => self.enqueue(reader),
            Some(reader) => self.enqueue_lagging(vec![reader]),
            None => {}
        }
        Some(())
    }

    fn next_lagging(&self) -> Option<CountedReader> {
        let mut state = self.state.lock();
        while !state.stopped {
            // Readers whose connection is gone are dropped now, to free their slots without waiting for a
            // turn.
            state.lagging.retain(|reader| reader.reader.alive.load(Ordering::Acquire));
            if let Some((_, reader)) = state.lagging.pop_if(|_| true) {
                return Some(reader);
            }
            self.lagging.wait(&mut state);
        }
        None
    }
}

/// Returns the time. When the server stops, it returns a time after all deadlines.
fn now_us(shared: &Shared) -> u64 {
    if shared.may_wait() { shared.ticks_us() } else { u64::MAX }
}

impl CountedReader {
    fn user(&self) -> String {
        match &self.reader.read {
            BlockingRead::Changes(read) => {
                read.user.as_ref().map_or_else(String::new, |user| user.name().to_owned())
            }
            _ => String::new(),
        }
    }

    /// Polls a reader on the live thread. Returns `None` if it is done.
    fn poll_live(self, now_us: u64) -> Option<CountedReader> {
        let briefly = !self.live;
        self.poll_with(|read| if briefly { read.poll_briefly(now_us) } else { read.poll(now_us) })
    }

    /// Does the same with a whole slice, on the lagging thread.
    fn poll_lagging(self, now_us: u64) -> Option<CountedReader> {
        self.poll_with(|read| read.poll(now_us))
    }

    fn poll_with(
        mut self,
        poll: impl FnOnce(&mut BlockingRead) -> Option<Reply>,
    ) -> Option<CountedReader> {
        let WaitingReader { read, alive, send_reply } = &mut self.reader;
        // Pairs with the `Release` store when the session is dropped or changes its user.
        if !alive.load(Ordering::Acquire) {
            return None;
        }
        let reply = poll(read);
        self.live = !read.is_lagging();
        let Some(reply) = reply else { return Some(self) };
        let failed = reply.is_error();
        send_reply(reply);
        (!failed && read.continues()).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Settings;
    use mainstay::Filter;
    use std::sync::mpsc::{Receiver, Sender, channel};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Replies with only the keys that were found.
    const KEYS: FeedFormat = FeedFormat { format: keys, values: false, position: false };

    fn keys(read: mainstay::Result<FeedPage>) -> Reply {
        let found = read.map(|found| found.events.into_iter().map(|event| Reply::text(event.key)));
        found.map_or_else(Reply::from, |keys| Reply::Array(keys.collect()))
    }

    /// The reply with this key and no other.
    fn encoded_key(key: &str) -> String {
        format!("{:?}", Reply::Array(vec![Reply::text(key)]))
    }

    struct Fixture {
        shared: Arc<Shared>,
        feeds: BlockingReads,
    }

    impl Fixture {
        /// Creates a log that takes many slices to scan.
        fn new() -> Fixture {
            let shared = Shared::new(Database::memory().unwrap(), Settings::default());
            let value = "x".repeat(64 << 10);
            for _ in 0..64 {
                shared.db.cells().set("old", value.as_str()).unwrap();
            }
            Fixture { feeds: BlockingReads::start(shared.clone()).unwrap(), shared }
        }

        /// Starts a reader of one key from a revision on. It calls `then` after each reply, before it
        /// continues.
        fn reader(
            &self,
            key: &str,
            after: Revision,
            until: ReadEnd,
            then: impl Fn() + Send + 'static,
        ) -> Receiver<String> {
            self.reader_of(100, key, after, until, then)
        }

        /// Does the same with at most `limit` changes in a reply.
        fn reader_of(
            &self,
            limit: usize,
            key: &str,
            after: Revision,
            until: ReadEnd,
            then: impl Fn() + Send + 'static,
        ) -> Receiver<String> {
            let filter = Filter { key: Some(key.to_owned()), ..Filter::default() };
            let feed = self.shared.db.watch(filter, after).unwrap();
            let user = self.shared.security.stranger();
            let slot = self.shared.reserve_feed_slot(user.as_ref()).unwrap();
            let read = FeedRead::new(feed, limit, until, KEYS, slot).for_user(user);
            let (sender, receiver) = channel();
            let send_reply = Box::new(move |reply: Reply| {
                let _ = sender.send(format!("{reply:?}"));
                then();
            });
            let alive = Arc::new(AtomicBool::new(true));
            let read = BlockingRead::Changes(Box::new(read));
            self.feeds.add(WaitingReader { read, alive, send_reply });
            receiver
        }
    }

    impl Fixture {
        /// Checks that a live reader gets a change while a lagging reader is blocked. Then unblocks the
        /// lagging reader.
        fn expect_live_reader(&self, laggard: Sender<()>) {
            let live = self.reader("new", self.shared.db.revision(), ReadEnd::Disconnect, || {});
            self.shared.db.cells().set("new", 1).unwrap();
            let reply = live.recv_timeout(PATIENCE / 2);
            drop(laggard);
            assert_eq!(reply.unwrap(), encoded_key("new"));
        }
    }

    /// The lagging reader blocks its thread until the live reader has its change.
    #[test]
    fn who_is_up_to_date_does_not_wait_for_those_who_are_behind() {
        let world = Fixture::new();
        world.shared.db.cells().set("last", 1).unwrap();
        let (let_go, gate) = channel::<()>();
        let hold = move || {
            let _ = gate.recv_timeout(PATIENCE);
        };
        let lagging = world.reader("last", 0, ReadEnd::Disconnect, hold);
        assert_eq!(
            lagging.recv_timeout(PATIENCE).unwrap(),
            encoded_key("last"),
            "it is held from here on"
        );
        world.expect_live_reader(let_go);
    }

    /// A reader that got as many changes as fit still lags while there are more.
    #[test]
    fn who_is_told_a_few_of_many_changes_is_not_up_to_date() {
        let world = Fixture::new();
        let (let_go, gate) = channel::<()>();
        let gate = parking_lot::Mutex::new((0, gate));
        let hold_the_second = move || {
            let mut gate = gate.lock();
            gate.0 += 1;
            if gate.0 == 2 {
                let _ = gate.1.recv_timeout(PATIENCE);
            }
        };
        let lagging = world.reader_of(1, "old", 0, ReadEnd::Disconnect, hold_the_second);
        for _ in 0..2 {
            assert_eq!(lagging.recv_timeout(PATIENCE).unwrap(), encoded_key("old"));
        }
        world.expect_live_reader(let_go);
    }

    #[test]
    fn who_has_caught_up_is_told_of_what_comes() {
        let world = Fixture::new();
        let reader = world.reader("new", 0, ReadEnd::Disconnect, || {});
        for _ in 0..3 {
            world.shared.db.cells().set("new", 1).unwrap();
            assert_eq!(reader.recv_timeout(PATIENCE).unwrap(), encoded_key("new"));
        }
    }

    #[test]
    fn everybody_is_answered_at_the_end_and_gives_the_seat_back() {
        let world = Fixture::new();
        let once = || ReadEnd::FirstResult { deadline_us: u64::MAX - 1 };
        let all: Vec<_> = (0..20).map(|_| world.reader("none", 0, once(), || {})).collect();
        world.shared.stop_waiting();
        for reader in all {
            assert_eq!(reader.recv_timeout(PATIENCE).unwrap(), "Array([])");
        }
    }
}
