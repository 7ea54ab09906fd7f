//! Change feed of an embedded or a served database.

use super::backend::Backend;
use super::database::Database;
use mainstay_client::{AsyncFeed, wait};
use mainstay_engine::feed::LogFollower;
use mainstay_model::{Event, Filter, Glance, Result, Revision};
use std::time::Duration;

/// A cursor in the change feed: yields the changes after a revision, in commit order.
pub struct Feed(FeedBackend);

enum FeedBackend {
    Here(Box<LogFollower>),
    There(AsyncFeed),
}

impl Database {
    /// Opens a change feed that starts after revision `after` and yields the events that match `filter`.
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
            Backend::Local(core) => {
                FeedBackend::Here(Box::new(LogFollower::new(core, filter, after)?))
            }
            Backend::Remote(link) => {
                FeedBackend::There(wait(Backend::there(link).watch(filter, after))?)
            }
        }))
    }

    /// Calls `tell` with the branch and key of every record written after revision `after`, up to the
    /// visible revision `upto`. Returns false if that is unknown: `after` is older than the window of
    /// remembered writes, or branches were created, deleted or renamed meanwhile. Then `tell` may have been
    /// called for some of the records. Fails with `Unsupported` for a served database.
    ///
    /// ```
    /// use mainstay::{Database, Fields};
    /// let db = Database::memory()?;
    /// let before = db.revision();
    /// db.records().put("a", &Fields::of([("state", "pending")])?, None)?;
    /// let mut keys = Vec::new();
    /// assert!(db.written_records(before, db.revision(), |_, key| keys.push(key.to_owned()))?);
    /// assert_eq!(keys, ["a"]);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn written_records(
        &self,
        after: Revision,
        upto: Revision,
        tell: impl FnMut(&str, &str),
    ) -> Result<bool> {
        Ok(self.here("what was written lately")?.written_records(after, upto, tell))
    }
}

impl Feed {
    /// Blocks until the next change and returns it, or returns `None` after `timeout`.
    ///
    /// Fails with `Lagged` if the log no longer reaches back to this position. The error tells where to
    /// resume.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>> {
        match &mut self.0 {
            FeedBackend::Here(follower) => follower.next(timeout),
            FeedBackend::There(feed) => wait(feed.next(timeout)),
        }
    }

    /// Returns the next event without blocking, and reads at most `bytes` of the log, so that one feed
    /// cannot hold up a thread that serves many. Returns `Glance::End` at the end of the log, and
    /// `Glance::More` if the budget is used up. Subtracts the bytes read from `bytes`. A frame is RecordWrite::done
    /// read whole, and a small frame is charged more than its size.
    pub fn glance(&mut self, bytes: &mut usize) -> Result<Glance> {
        match &mut self.0 {
            FeedBackend::Here(follower) => follower.glance(bytes),
            FeedBackend::There(feed) => {
                Ok(wait(feed.next(Duration::ZERO))?.map_or(Glance::End, Glance::Event))
            }
        }
    }

    /// The revision up to which every event was delivered. To resume, pass it as `after`.
    pub fn position(&self) -> Revision {
        match &self.0 {
            FeedBackend::Here(follower) => follower.position(),
            FeedBackend::There(feed) => feed.position(),
        }
    }
}
