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
use super::shared::FeedSeat;
use super::work::Counted;
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
const LOOK_BYTES: usize = 1 << 20;

/// Size of the first slice, which runs while others wait: on an event loop, or on the live thread for a
/// reader not known to be up to date.
const FIRST_LOOK_BYTES: usize = 64 << 10;

/// A reply is complete at this size, except for the rest of its last transaction.
const REPLY_BYTES: usize = 4 << 20;

/// The end of a read.
pub enum Until {
    /// The read ends at the first result or at the deadline.
    Once {
        /// In microseconds of the monotonic clock.
        deadline_us: u64,
    },
    /// The read ends when the connection is gone.
    Gone,
}

/// The result of a read.
pub struct Found {
    pub events: Vec<Event>,
    /// The position after the last change.
    pub position: Revision,
    /// True if the log continues at the position: the deadline came before the rest was scanned.
    pub more: bool,
}

/// The function and the options that turn changes into a reply.
#[derive(Clone, Copy)]
pub struct Telling {
    /// Makes the reply from the result.
    pub shape: fn(mainstay::Result<Found>) -> Reply,
    /// Whether the reply holds the values of the changes.
    pub values: bool,
    /// Whether the reply holds the position, so that a reply without changes is useful.
    pub place: bool,
}

/// A position in the feed, and the limits of the read.
pub struct Reading {
    feed: Feed,
    /// The most changes in one reply.
    limit: usize,
    until: Until,
    telling: Telling,
    /// The subscriber, whose permissions filter the changes. Without one, nothing is delivered.
    user: Option<Arc<User>>,
    found: Vec<Event>,
    found_bytes: usize,
    /// Reservation of those bytes on the account of the reader.
    held: Option<Reservation>,
    /// True if the log continues after the part that was scanned.
    more: bool,
    /// True if the log was scanned to its end.
    at_end: bool,
    _seat: FeedSeat,
    /// Held so that the connection can count its subscriptions by the reference count.
    _counted: Option<Arc<()>>,
}

impl Reading {
    /// Creates a read from the position of `feed`.
    pub fn new(
        feed: Feed,
        limit: usize,
        until: Until,
        telling: Telling,
        seat: FeedSeat,
    ) -> Reading {
        Reading {
            feed,
            limit,
            until,
            telling,
            user: None,
            found: Vec::new(),
            found_bytes: 0,
            held: None,
            more: false,
            at_end: false,
            _seat: seat,
            _counted: None,
        }
    }

    /// Sets the user whose permissions filter the changes.
    pub fn told_to(mut self, user: Option<Arc<User>>) -> Reading {
        self.user = user;
        self
    }

    /// Charges the memory of found changes to an account.
    pub fn paid_by(mut self, account: &Arc<Account>) -> Reading {
        self.held = Some(account.reservation(Kind::Feeds));
        self
    }

    /// Holds `by` as long as the read lasts, so that it is counted.
    pub fn counted(mut self, by: Arc<()>) -> Reading {
        self._counted = Some(by);
        self
    }

    /// Scans the next slice of the log. Returns the reply, or `None` if the read has to wait or continue.
    pub fn look(&mut self, now_us: u64) -> Option<Reply> {
        self.look_at(LOOK_BYTES, now_us)
    }

    /// Does the same with a small slice.
    pub fn look_briefly(&mut self, now_us: u64) -> Option<Reply> {
        self.look_at(FIRST_LOOK_BYTES, now_us)
    }

    fn look_at(&mut self, bytes: usize, now_us: u64) -> Option<Reply> {
        if let Err(error) = self.look_through(bytes) {
            return Some((self.telling.shape)(Err(error)));
        }
        let nothing = self.found.is_empty();
        let waits = match self.until {
            // The rest of the log is scanned before an empty reply is given.
            Until::Once { deadline_us } if self.more => !self.telling.place || now_us < deadline_us,
            Until::Once { deadline_us } => nothing && now_us < deadline_us,
            Until::Gone => self.more || nothing,
        };
        (!waits).then(|| self.tell())
    }

    fn tell(&mut self) -> Reply {
        self.found_bytes = 0;
        self.held = self.held.take().map(Reservation::emptied);
        let events = std::mem::take(&mut self.found);
        let position = self.feed.position();
        (self.telling.shape)(Ok(Found { events, position, more: self.more }))
    }

    /// Scans until enough changes are found, and includes the rest of the last transaction. A reader that
    /// continues after that revision misses nothing.
    fn look_through(&mut self, mut bytes: usize) -> mainstay::Result<()> {
        let mut last = self.found.last().map_or(0, |event| event.revision);
        self.more = false;
        self.at_end = false;
        while self.wants_more() || self.feed.position() < last {
            match self.feed.glance(&mut bytes)? {
                Glance::Event(event) if self.hides(&event) => {}
                Glance::Event(event) => {
                    last = event.revision;
                    self.keep(event)?;
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
        self.found.len() < self.limit && self.found_bytes < REPLY_BYTES
    }

    fn hides(&self, event: &Event) -> bool {
        !self.user.as_ref().is_some_and(|user| user.may_follow(event.contract, &event.key))
    }

    fn keep(&mut self, mut event: Event) -> mainstay::Result<()> {
        if !self.telling.values {
            event.value = None;
            event.fields = None;
        }
        let value_bytes = event.value.as_ref().map_or(0, Value::weight_bytes);
        let fields_bytes = event.fields.as_ref().map_or(0, Fields::weight_bytes);
        self.found_bytes += size_of::<Event>() + event.key.len() + value_bytes + fields_bytes;
        if let Some(held) = &mut self.held {
            held.resize(self.found_bytes)
                .map_err(|exceeded| Error::new(Code::QueueFull, exceeded.to_string()))?;
        }
        self.found.push(event);
        Ok(())
    }
}

/// A wait for a revision to become visible.
pub struct Arrival {
    pub db: Database,
    pub revision: Revision,
    pub deadline_us: u64,
    /// Makes the reply from whether the revision became visible in time.
    pub shape: fn(mainstay::Result<()>) -> Reply,
}

impl Arrival {
    fn look(&self, now_us: u64) -> Option<Reply> {
        if self.db.revision() >= self.revision {
            return Some((self.shape)(Ok(())));
        }
        let message = format!("revision {} was not reached in time", self.revision);
        (now_us >= self.deadline_us).then(|| (self.shape)(Err(Error::new(Code::TimedOut, message))))
    }
}

/// Byte limit of a `RUN.TAIL` reply, which the event that reaches it completes. The limit exists because
/// event loops and the live thread read these replies.
const FOLLOWING_BYTES: usize = 256 << 10;

/// A blocking read of events of a run.
pub struct Following {
    db: Database,
    tail: RunTail,
    limit: usize,
    deadline_us: u64,
    shape: fn(mainstay::Result<Vec<CanonicalEvent>>) -> Reply,
    /// The settled revision at the last look. Only a later one can bring new events.
    looked: Option<Revision>,
}

impl Following {
    /// Creates a read from a position in a run.
    pub fn new(
        db: Database,
        tail: RunTail,
        limit: usize,
        deadline_us: u64,
        shape: fn(mainstay::Result<Vec<CanonicalEvent>>) -> Reply,
    ) -> Following {
        Following { db, tail, limit, deadline_us, shape, looked: None }
    }

    /// Returns the reply if events are durable or the deadline has passed.
    fn look(&mut self, now_us: u64) -> Option<Reply> {
        let is_over = now_us >= self.deadline_us;
        let settled = self.db.reached().map(Reached::settled).ok();
        if settled.is_some() && settled == self.looked && !is_over {
            return None;
        }
        self.looked = settled;
        match self.tail.glance(self.limit, FOLLOWING_BYTES) {
            Ok(events) if events.is_empty() && !is_over => None,
            read => Some((self.shape)(read)),
        }
    }
}

/// The event that a suspended reader waits for.
pub enum Awaited {
    /// Changes in the feed.
    Changes(Box<Reading>),
    Revision(Arrival),
    Events(Box<Following>),
}

impl Awaited {
    /// Returns the reply, unless it has to wait. Scans at most a small slice of the log.
    pub fn look_briefly(&mut self, now_us: u64) -> Option<Reply> {
        match self {
            Awaited::Changes(reading) => reading.look_briefly(now_us),
            other => other.look(now_us),
        }
    }

    /// Returns the reply, unless it has to wait.
    pub fn look(&mut self, now_us: u64) -> Option<Reply> {
        match self {
            Awaited::Changes(reading) => reading.look(now_us),
            Awaited::Revision(arrival) => arrival.look(now_us),
            Awaited::Events(following) => following.look(now_us),
        }
    }

    /// Returns whether more of the log can be scanned at once, without waiting.
    pub fn is_at_it(&self) -> bool {
        matches!(self, Awaited::Changes(reading) if reading.more)
    }

    /// Returns whether the log continues, either because it was not scanned or because enough was found.
    /// The lagging thread then continues.
    fn lags(&self) -> bool {
        matches!(self, Awaited::Changes(reading) if !reading.at_end)
    }

    fn goes_on(&self) -> bool {
        matches!(self, Awaited::Changes(reading) if matches!(reading.until, Until::Gone))
    }
}

/// A waiting reader.
pub struct Reader {
    pub awaited: Awaited,
    /// Cleared when the connection is gone.
    pub alive: Arc<AtomicBool>,
    /// Sends a reply to the reader's connection.
    pub tell: Box<dyn Fn(Reply) + Send>,
}

/// A reader, counted in a gauge while it waits.
struct Waiting {
    reader: Reader,
    /// True if it was up to date at the last look.
    live: bool,
    _counted: Counted,
}

#[derive(Default)]
struct State {
    /// Readers for the live thread.
    arrived: Vec<Waiting>,
    /// Readers for the lagging thread, by user, because users take turns.
    lagging: FairQueue<String, Waiting>,
    ended: bool,
}

/// The state that both threads share.
#[derive(Default)]
struct Board {
    state: Mutex<State>,
    arrived: Condvar,
    lagging: Condvar,
}

/// The handle to the threads. They end when the last handle is dropped, because no connection is left to
/// reply to.
#[derive(Clone)]
pub struct Feeds {
    handle: Arc<Handle>,
    shared: Arc<Shared>,
}

struct Handle(Arc<Board>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.arrived.notify_all();
        self.0.lagging.notify_all();
    }
}

impl Feeds {
    pub fn start(shared: Arc<Shared>) -> std::io::Result<Feeds> {
        let board = Arc::new(Board::default());
        let handle = Arc::new(Handle(board.clone()));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        {
            let shared = shared.clone();
            let board = board.clone();
            thread("mainstay-feeds").spawn(move || board.follow(&shared))?;
        }
        {
            let shared = shared.clone();
            let catch_up = move || {
                process::lower_priority();
                while board.catch_up(&shared).is_some() {}
            };
            thread("mainstay-feeds-lagging").spawn(catch_up)?;
        }
        Ok(Feeds { handle, shared })
    }

    /// Adds a waiting reader.
    pub fn take(&self, reader: Reader) {
        let _counted = Counted::new(&self.shared, |figures| &figures.feed_readers);
        self.handle.0.arrive(Waiting { reader, live: false, _counted });
    }
}

impl Board {
    fn arrive(&self, waiting: Waiting) {
        self.state.lock().arrived.push(waiting);
        self.arrived.notify_one();
    }

    /// The live thread: polls all readers that are up to date whenever revisions move.
    fn follow(&self, shared: &Shared) {
        let mut live: Vec<Waiting> = Vec::new();
        loop {
            let Some(arrived) = self.arrived(live.is_empty()) else { return };
            live.extend(arrived);
            let reached = shared.db.reached();
            let now_us = now_us(shared);
            let (kept, behind) =
                live.into_iter().filter_map(|it| it.looked_at(now_us)).partition(|it| it.live);
            live = kept;
            self.fall_behind(behind);
            if let (false, Ok(reached)) = (live.is_empty(), reached) {
                // A timeout is as good as a new revision, because the readers are polled again either way.
                let _ = shared.db.wait_to_move(reached, PAUSE);
            }
        }
    }

    /// Takes the readers that have arrived. With `wait`, waits for the first one. Returns `None` at the
    /// end.
    fn arrived(&self, wait: bool) -> Option<Vec<Waiting>> {
        let mut state = self.state.lock();
        while wait && state.arrived.is_empty() && !state.ended {
            self.arrived.wait(&mut state);
        }
        (!state.ended).then(|| std::mem::take(&mut state.arrived))
    }

    fn fall_behind(&self, behind: Vec<Waiting>) {
        if behind.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for waiting in behind {
            state.lagging.push(waiting.user(), waiting);
        }
        self.lagging.notify_one();
    }

    /// The lagging thread: scans one slice for one reader, then turns to the next user. Returns `None` at
    /// the end.
    fn catch_up(&self, shared: &Shared) -> Option<()> {
        let waiting = self.next_lagging()?;
        let waiting = waiting.caught_up(now_us(shared));
        match waiting {
            Some(waiting) if waiting.live => self.arrive(waiting),
            Some(waiting) => self.fall_behind(vec![waiting]),
            None => {}
        }
        Some(())
    }

    fn next_lagging(&self) -> Option<Waiting> {
        let mut state = self.state.lock();
        while !state.ended {
            // Readers whose connection is gone are dropped now, to free their slots without waiting for a
            // turn.
            state.lagging.retain(|waiting| waiting.reader.alive.load(Ordering::Acquire));
            if let Some((_, waiting)) = state.lagging.pop_if(|_| true) {
                return Some(waiting);
            }
            self.lagging.wait(&mut state);
        }
        None
    }
}

/// Returns the time. When the server stops, it returns a time after all deadlines.
fn now_us(shared: &Shared) -> u64 {
    if shared.waits() { shared.ticks_us() } else { u64::MAX }
}

impl Waiting {
    fn user(&self) -> String {
        match &self.reader.awaited {
            Awaited::Changes(reading) => {
                reading.user.as_ref().map_or_else(String::new, |user| user.name().to_owned())
            }
            _ => String::new(),
        }
    }

    /// Polls a reader on the live thread. Returns `None` if it is done.
    fn looked_at(self, now_us: u64) -> Option<Waiting> {
        let briefly = !self.live;
        self.told(
            |awaited| {
                if briefly { awaited.look_briefly(now_us) } else { awaited.look(now_us) }
            },
        )
    }

    /// Does the same with a whole slice, on the lagging thread.
    fn caught_up(self, now_us: u64) -> Option<Waiting> {
        self.told(|awaited| awaited.look(now_us))
    }

    fn told(mut self, look: impl FnOnce(&mut Awaited) -> Option<Reply>) -> Option<Waiting> {
        let Reader { awaited, alive, tell } = &mut self.reader;
        // Pairs with the `Release` store when the session is dropped or changes its user.
        if !alive.load(Ordering::Acquire) {
            return None;
        }
        let reply = look(awaited);
        self.live = !awaited.lags();
        let Some(reply) = reply else { return Some(self) };
        let failed = reply.is_error();
        tell(reply);
        (!failed && awaited.goes_on()).then_some(self)
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
    const KEYS: Telling = Telling { shape: keys, values: false, place: false };

    fn keys(read: mainstay::Result<Found>) -> Reply {
        let found = read.map(|found| found.events.into_iter().map(|event| Reply::text(event.key)));
        found.map_or_else(Reply::from, |keys| Reply::Array(keys.collect()))
    }

    /// The reply with this key and no other.
    fn told(key: &str) -> String {
        format!("{:?}", Reply::Array(vec![Reply::text(key)]))
    }

    struct World {
        shared: Arc<Shared>,
        feeds: Feeds,
    }

    impl World {
        /// Creates a log that takes many slices to scan.
        fn new() -> World {
            let shared = Shared::new(Database::memory().unwrap(), Settings::default());
            let value = "x".repeat(64 << 10);
            for _ in 0..64 {
                shared.db.cells().set("old", value.as_str()).unwrap();
            }
            World { feeds: Feeds::start(shared.clone()).unwrap(), shared }
        }

        /// Starts a reader of one key from a revision on. It calls `then` after each reply, before it
        /// continues.
        fn reader(
            &self,
            key: &str,
            after: Revision,
            until: Until,
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
            until: Until,
            then: impl Fn() + Send + 'static,
        ) -> Receiver<String> {
            let filter = Filter { key: Some(key.to_owned()), ..Filter::default() };
            let feed = self.shared.db.watch(filter, after).unwrap();
            let user = self.shared.security.stranger();
            let seat = self.shared.feed_seat(user.as_ref()).unwrap();
            let reading = Reading::new(feed, limit, until, KEYS, seat).told_to(user);
            let (sender, receiver) = channel();
            let tell = Box::new(move |reply: Reply| {
                let _ = sender.send(format!("{reply:?}"));
                then();
            });
            let alive = Arc::new(AtomicBool::new(true));
            let awaited = Awaited::Changes(Box::new(reading));
            self.feeds.take(Reader { awaited, alive, tell });
            receiver
        }
    }

    impl World {
        /// Checks that a live reader gets a change while a lagging reader is blocked. Then unblocks the
        /// lagging reader.
        fn expect_live_reader(&self, laggard: Sender<()>) {
            let live = self.reader("new", self.shared.db.revision(), Until::Gone, || {});
            self.shared.db.cells().set("new", 1).unwrap();
            let reply = live.recv_timeout(PATIENCE / 2);
            drop(laggard);
            assert_eq!(reply.unwrap(), told("new"));
        }
    }

    /// The lagging reader blocks its thread until the live reader has its change.
    #[test]
    fn who_is_up_to_date_does_not_wait_for_those_who_are_behind() {
        let world = World::new();
        world.shared.db.cells().set("last", 1).unwrap();
        let (let_go, gate) = channel::<()>();
        let hold = move || {
            let _ = gate.recv_timeout(PATIENCE);
        };
        let behind = world.reader("last", 0, Until::Gone, hold);
        assert_eq!(behind.recv_timeout(PATIENCE).unwrap(), told("last"), "it is held from here on");
        world.expect_live_reader(let_go);
    }

    /// A reader that got as many changes as fit still lags while there are more.
    #[test]
    fn who_is_told_a_few_of_many_changes_is_not_up_to_date() {
        let world = World::new();
        let (let_go, gate) = channel::<()>();
        let gate = parking_lot::Mutex::new((0, gate));
        let hold_the_second = move || {
            let mut gate = gate.lock();
            gate.0 += 1;
            if gate.0 == 2 {
                let _ = gate.1.recv_timeout(PATIENCE);
            }
        };
        let behind = world.reader_of(1, "old", 0, Until::Gone, hold_the_second);
        for _ in 0..2 {
            assert_eq!(behind.recv_timeout(PATIENCE).unwrap(), told("old"));
        }
        world.expect_live_reader(let_go);
    }

    #[test]
    fn who_has_caught_up_is_told_of_what_comes() {
        let world = World::new();
        let reader = world.reader("new", 0, Until::Gone, || {});
        for _ in 0..3 {
            world.shared.db.cells().set("new", 1).unwrap();
            assert_eq!(reader.recv_timeout(PATIENCE).unwrap(), told("new"));
        }
    }

    #[test]
    fn everybody_is_answered_at_the_end_and_gives_the_seat_back() {
        let world = World::new();
        let once = || Until::Once { deadline_us: u64::MAX - 1 };
        let all: Vec<_> = (0..20).map(|_| world.reader("none", 0, once(), || {})).collect();
        world.shared.stop_waiting();
        for reader in all {
            assert_eq!(reader.recv_timeout(PATIENCE).unwrap(), "Array([])");
        }
    }
}
