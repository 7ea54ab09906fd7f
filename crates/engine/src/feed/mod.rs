//! The feed: every committed change once, in order, read from the log.
//!
//! ```text
//!   log (durable frames) --Reader--> effects -> events -> filter -> next()
//! ```
//!
//! A consumer reads at its own pace and holds nobody up. One that falls behind what the log keeps is
//! told so, with the revision to resume after; nothing is ever left out silently.

pub(crate) mod event;
pub(crate) mod written;

use crate::base::clock::{Clock, SystemClock};
use crate::base::planted::{self, Bug};
use crate::handle::db::Database;
use crate::handle::place::Place;
use crate::lifecycle::core::Core;
use crate::lifecycle::feed_positions::FeedPosition;
use crate::log::Reader;
use crate::remote::{AsyncFeed, wait};
use mainstay_model::{Contract, Event, Result, Revision};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// What a frame counts for at least when the log is looked through.
const FRAME_BYTES: usize = 4 << 10;

/// Which changes are wanted; the default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Only on this branch.
    pub branch: Option<String>,
    /// Only of this kind of state.
    pub contract: Option<Contract>,
    /// Only keys that begin with this.
    pub prefix: Option<String>,
    /// Only this key.
    pub key: Option<String>,
}

impl Filter {
    fn wants(&self, event: &Event) -> bool {
        self.branch.as_ref().is_none_or(|branch| *branch == event.branch)
            && self.contract.is_none_or(|contract| contract == event.contract)
            && self.prefix.as_ref().is_none_or(|prefix| event.key.starts_with(prefix.as_str()))
            && self.key.as_ref().is_none_or(|key| *key == event.key)
    }
}

/// A place in the stream of changes.
pub struct Feed(Source);

enum Source {
    Here(Box<Follower>),
    There(AsyncFeed),
}

/// A place in the log.
struct Follower {
    core: Arc<Core>,
    filter: Filter,
    reader: Reader,
    after: Revision,
    ready: VecDeque<Event>,
    /// Others see here how far it is.
    position: FeedPosition,
}

impl Database {
    /// Follows the changes after a revision.
    ///
    /// ```
    /// use std::time::Duration;
    /// let db = mainstay::Database::memory()?;
    /// let mut feed = db.watch(mainstay::Filter::default(), db.revision())?;
    /// db.cells().set("a", 1)?;
    /// let event = feed.next(Duration::from_secs(1))?.expect("the change of `a`");
    /// assert_eq!((event.key.as_str(), event.value), ("a", Some(1.into())));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn watch(&self, filter: Filter, after: Revision) -> Result<Feed> {
        Ok(Feed(match &self.place {
            Place::Here(core) => Source::Here(Box::new(Follower::new(core, filter, after)?)),
            Place::There(link) => Source::There(wait(Place::there(link).watch(filter, after))?),
        }))
    }
}

impl Feed {
    /// The next change; nothing when there is none within the time.
    ///
    /// The error `Lagged` says that the log no longer reaches back to here, and where to resume.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>> {
        match &mut self.0 {
            Source::Here(follower) => follower.next(timeout),
            Source::There(feed) => wait(feed.next(timeout)),
        }
    }

    /// What comes next, without waiting, and without looking through more than so many bytes of the log:
    /// for those who have others to serve. What was looked through is taken off; a frame is looked
    /// through as a whole, and each counts for something.
    pub fn glance(&mut self, bytes: &mut usize) -> Result<Glance> {
        match &mut self.0 {
            Source::Here(follower) => follower.glance(bytes),
            Source::There(feed) => {
                Ok(wait(feed.next(Duration::ZERO))?.map_or(Glance::End, Glance::Event))
            }
        }
    }

    /// The revision up to which everything was seen: resume after it.
    pub fn position(&self) -> Revision {
        match &self.0 {
            Source::Here(follower) => follower.position(),
            Source::There(feed) => feed.position(),
        }
    }
}

/// What a feed has at the moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Glance {
    /// A change.
    Event(Event),
    /// Nothing further yet.
    End,
    /// The log goes on, but as much was looked through as was allowed.
    More,
}

impl Follower {
    fn new(core: &Arc<Core>, filter: Filter, after: Revision) -> Result<Follower> {
        core.check_open()?;
        let reader = core.log.reader(after)?;
        let position = core.feeds.open(after);
        Ok(Follower { core: core.clone(), filter, reader, after, ready: VecDeque::new(), position })
    }

    fn glance(&mut self, bytes: &mut usize) -> Result<Glance> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Glance::Event(event));
            }
            if *bytes == 0 {
                return Ok(Glance::More);
            }
            let Some(read) = self.read_frame()? else {
                self.core.check_open()?;
                return Ok(Glance::End);
            };
            *bytes = bytes.saturating_sub(read.max(FRAME_BYTES));
        }
    }

    fn next(&mut self, timeout: Duration) -> Result<Option<Event>> {
        let clock = SystemClock::new();
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.read_frame()?.is_some() {
                continue;
            }
            let after = self.after;
            let left = timeout.saturating_sub(Duration::from_micros(clock.monotonic_us()));
            if !self.core.sequencer.wait_until(left, || self.reached() > after) {
                self.core.check_open()?;
                return Ok(None);
            }
        }
    }

    fn position(&self) -> Revision {
        match self.ready.front() {
            // The rest of a transaction that was given in part is not seen yet.
            Some(event) => event.revision - 1,
            None => self.after,
        }
    }

    /// What is told is on stable storage, and whoever is told can read it: what is synced is durable before it is visible.
    fn reached(&self) -> Revision {
        self.core.sequencer.durable().min(self.core.sequencer.published())
    }

    /// Takes the next durable frame in and gives its bytes; nothing when there is none.
    fn read_frame(&mut self) -> Result<Option<usize>> {
        let Some(frame) = self.reader.next(self.reached())? else {
            return Ok(None);
        };
        let catalog = self.core.state.catalog.read();
        let mut events = Vec::new();
        for transaction in frame.transactions() {
            let transaction = transaction?;
            let skips = planted::is(Bug::FeedSkips) && transaction.revision.is_multiple_of(97);
            if transaction.revision <= self.after || skips {
                continue;
            }
            for (key, entry) in transaction.effects {
                event::events(&catalog, key, entry, &mut events)?;
            }
        }
        self.ready.extend(events.into_iter().filter(|event| self.filter.wants(event)));
        self.after = self.after.max(frame.last_revision());
        self.position.moved(self.after);
        Ok(Some(frame.bytes().len()))
    }
}
