//! Those who wait for changes: one thread looks for all of them.
//!
//! ```text
//!   FEED.READ WAIT   ->  the thread looks whenever revisions move  ->  one reply
//!   FEED.WATCH       ->                                            ->  a push per change, until it goes
//!   a revision       ->                                            ->  one reply
//!   RUN.TAIL WAIT    ->                                            ->  one reply
//! ```

use super::Shared;
use super::reply::Reply;
use super::shared::Seat;
use crate::memory::{Account, Exceeded, Kind, Reservation};
use crate::security::User;
use mainstay::{
    CanonicalEvent, Code, Database, Error, Event, Feed, Fields, Glance, Reached, Revision, RunTail,
    Value,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How long the thread waits for a change before it looks for new readers and for those whose time
/// is over.
const PAUSE: Duration = Duration::from_millis(5);

/// How much of the log is looked through at once, so that others come to their turn.
const LOOK_BYTES: usize = 1 << 20;

/// How large a reply becomes, but for the rest of its last transaction.
const REPLY_BYTES: usize = 4 << 20;

/// Until when somebody reads.
pub enum Until {
    /// Until there is something, or the time is over.
    Once {
        /// When the time is over.
        deadline_us: u64,
    },
    /// Until the connection is gone.
    Gone,
}

/// What was found.
pub struct Found {
    /// The changes.
    pub events: Vec<Event>,
    /// The place behind them.
    pub position: Revision,
    /// The log goes on there: the time was over before it was looked through.
    pub more: bool,
}

/// How changes are told.
#[derive(Clone, Copy)]
pub struct Telling {
    /// How what was found becomes a reply.
    pub shape: fn(mainstay::Result<Found>) -> Reply,
    /// Whether their values are told.
    pub values: bool,
    /// Whether the place is told, so that a reply without changes is of use.
    pub place: bool,
}

/// A place in the feed, and how much is wanted.
pub struct Reading {
    feed: Feed,
    /// How many changes at once.
    limit: usize,
    until: Until,
    telling: Telling,
    /// Who is told: only of what they may follow. Nobody is told of nothing.
    user: Option<Arc<User>>,
    found: Vec<Event>,
    found_bytes: usize,
    /// Those bytes on the reader's account.
    held: Option<Reservation>,
    /// The log goes on behind what was looked through.
    more: bool,
    _seat: Seat,
    /// By how many holders of this one a connection counts what it watches.
    _counted: Option<Arc<()>>,
}

impl Reading {
    /// From a place on.
    pub fn new(feed: Feed, limit: usize, until: Until, telling: Telling, seat: Seat) -> Reading {
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
            _seat: seat,
            _counted: None,
        }
    }

    /// The same with as much as this user may know.
    pub fn told_to(mut self, user: Option<Arc<User>>) -> Reading {
        self.user = user;
        self
    }

    /// The same, on this account.
    pub fn paid_by(mut self, account: &Arc<Account>) -> Reading {
        self.held = Some(account.reservation(Kind::Feeds));
        self
    }

    /// The same, counted as long as it lasts.
    pub fn counted(mut self, by: Arc<()>) -> Reading {
        self._counted = Some(by);
        self
    }

    /// What there is to tell; nothing if that has to be waited for.
    pub fn look(&mut self, now_us: u64) -> Option<Reply> {
        if let Err(error) = self.look_through() {
            return Some((self.telling.shape)(Err(error)));
        }
        let nothing = self.found.is_empty();
        let waits = match self.until {
            // What is further on is looked through before anything is said of it.
            Until::Once { deadline_us } if self.more => !self.telling.place || now_us < deadline_us,
            Until::Once { deadline_us } => nothing && now_us < deadline_us,
            Until::Gone => self.more || nothing,
        };
        (!waits).then(|| self.tell())
    }

    fn tell(&mut self) -> Reply {
        self.found_bytes = 0;
        self.held = self.held.take().map(Reservation::emptied);
        let (events, position) = (std::mem::take(&mut self.found), self.feed.position());
        (self.telling.shape)(Ok(Found { events, position, more: self.more }))
    }

    /// So many changes, and what else their last transaction made: whoever goes on behind its
    /// revision misses nothing.
    fn look_through(&mut self) -> mainstay::Result<()> {
        let mut bytes = LOOK_BYTES;
        let mut last = self.found.last().map_or(0, |event| event.revision);
        self.more = false;
        while self.wants_more() || self.feed.position() < last {
            match self.feed.glance(&mut bytes)? {
                Glance::Event(event) if self.hides(&event) => {}
                Glance::Event(event) => {
                    last = event.revision;
                    self.keep(event)?;
                }
                Glance::End => break,
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
        let may_follow = |user: &Arc<User>| user.may_follow(event.contract, &event.key);
        !self.user.as_ref().is_some_and(may_follow)
    }

    fn keep(&mut self, mut event: Event) -> mainstay::Result<()> {
        if !self.telling.values {
            (event.value, event.fields) = (None, None);
        }
        let value_bytes = event.value.as_ref().map_or(0, Value::weight_bytes);
        let fields_bytes = event.fields.as_ref().map_or(0, Fields::weight_bytes);
        self.found_bytes += size_of::<Event>() + event.key.len() + value_bytes + fields_bytes;
        if let Some(held) = &mut self.held {
            let too_much = |exceeded: Exceeded| Error::new(Code::QueueFull, exceeded.to_string());
            held.resize(self.found_bytes).map_err(too_much)?;
        }
        self.found.push(event);
        Ok(())
    }
}

/// A revision that is to become visible.
pub struct Arrival {
    /// Of this database.
    pub db: Database,
    /// The revision.
    pub revision: Revision,
    /// When the time is over.
    pub deadline_us: u64,
    /// How it becomes a reply that it is there, or is not.
    pub shape: fn(mainstay::Result<()>) -> Reply,
}

impl Arrival {
    fn look(&self, now_us: u64) -> Option<Reply> {
        if self.db.revision() >= self.revision {
            return Some((self.shape)(Ok(())));
        }
        let message = format!("revision {} was not reached in time", self.revision);
        let late = || (self.shape)(Err(Error::new(Code::TimedOut, message)));
        (now_us >= self.deadline_us).then(late)
    }
}

/// Events of a run that are to come.
pub struct Following {
    db: Database,
    tail: RunTail,
    /// How many at once.
    limit: usize,
    /// When the time is over.
    deadline_us: u64,
    /// How they become a reply.
    shape: fn(mainstay::Result<Vec<CanonicalEvent>>) -> Reply,
    /// Up to where it has looked: only what came since can be news.
    looked: Option<Revision>,
}

impl Following {
    /// From a place in a run on.
    pub fn new(
        db: Database,
        tail: RunTail,
        limit: usize,
        deadline_us: u64,
        shape: fn(mainstay::Result<Vec<CanonicalEvent>>) -> Reply,
    ) -> Following {
        Following { db, tail, limit, deadline_us, shape, looked: None }
    }

    /// What is on stable storage; nothing if that has to be waited for.
    fn look(&mut self, now_us: u64) -> Option<Reply> {
        let is_over = now_us >= self.deadline_us;
        let settled = self.db.reached().map(Reached::settled).ok();
        if settled.is_some() && settled == self.looked && !is_over {
            return None;
        }
        self.looked = settled;
        match self.tail.next(self.limit, Duration::ZERO) {
            Ok(events) if events.is_empty() && !is_over => None,
            read => Some((self.shape)(read)),
        }
    }
}

/// What somebody waits for.
pub enum Awaited {
    /// Changes.
    Changes(Box<Reading>),
    /// A revision.
    Revision(Arrival),
    /// Events of a run.
    Events(Box<Following>),
}

impl Awaited {
    /// What there is to tell; nothing if that has to be waited for.
    pub fn look(&mut self, now_us: u64) -> Option<Reply> {
        match self {
            Awaited::Changes(reading) => reading.look(now_us),
            Awaited::Revision(arrival) => arrival.look(now_us),
            Awaited::Events(following) => following.look(now_us),
        }
    }

    /// Whether there is more to be looked through, and nothing to be waited for.
    pub fn is_at_it(&self) -> bool {
        matches!(self, Awaited::Changes(reading) if reading.more)
    }

    fn goes_on(&self) -> bool {
        matches!(self, Awaited::Changes(reading) if matches!(reading.until, Until::Gone))
    }
}

/// Somebody who waits.
pub struct Reader {
    /// What for.
    pub awaited: Awaited,
    /// Cleared when the connection is gone.
    pub alive: Arc<AtomicBool>,
    /// Who is told, and whether something more may come.
    pub tell: Box<dyn Fn(Reply) + Send>,
}

/// The thread's inbox.
#[derive(Clone)]
pub struct Feeds {
    readers: Sender<Reader>,
}

impl Feeds {
    /// Starts the thread. It ends when the last handle is dropped.
    pub fn start(shared: Arc<Shared>) -> std::io::Result<Feeds> {
        let (readers, inbox) = channel();
        let thread = std::thread::Builder::new().name("mainstay-feeds".to_owned());
        thread.spawn(move || pump(&shared, &inbox))?;
        Ok(Feeds { readers })
    }

    /// Takes somebody on; false if the thread has ended.
    pub fn take(&self, reader: Reader) -> bool {
        self.readers.send(reader).is_ok()
    }
}

fn pump(shared: &Shared, inbox: &Receiver<Reader>) {
    let mut readers: Vec<Reader> = Vec::new();
    loop {
        if readers.is_empty() {
            let Ok(reader) = inbox.recv() else { return };
            readers.push(reader);
        }
        readers.extend(inbox.try_iter());
        let reached = shared.db.reached();
        // At the end everybody's time is over.
        let now_us = if shared.waits() { shared.ticks_us() } else { u64::MAX };
        readers.retain_mut(|reader| look(reader, now_us));
        shared.figures.feed_readers.store(readers.len() as u64, Ordering::Relaxed);
        let at_it = readers.iter().any(|reader| reader.awaited.is_at_it());
        if let (false, Ok(reached)) = (at_it, reached) {
            // Not there in time is as good: then it is looked for again.
            let _ = shared.db.wait_to_move(reached, PAUSE);
        }
    }
}

/// Tells a reader what there is; false when it need not be looked for any more.
fn look(reader: &mut Reader, now_us: u64) -> bool {
    if !reader.alive.load(Ordering::Acquire) {
        return false;
    }
    let Some(reply) = reader.awaited.look(now_us) else { return true };
    let failed = reply.is_error();
    (reader.tell)(reply);
    !failed && reader.awaited.goes_on()
}
