//! The feed of a database in this process or of a served one.

use super::backend::Backend;
use super::database::Database;
use crate::feed::LogFollower;
use crate::remote::{AsyncFeed, wait};
use mainstay_model::{Event, Filter, Glance, Result, Revision};
use std::time::Duration;

/// A place in the stream of changes.
pub struct Feed(FeedBackend);

enum FeedBackend {
    Here(Box<LogFollower>),
    There(AsyncFeed),
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
            Backend::Local(core) => {
                FeedBackend::Here(Box::new(LogFollower::new(core, filter, after)?))
            }
            Backend::Remote(link) => {
                FeedBackend::There(wait(Backend::there(link).watch(filter, after))?)
            }
        }))
    }

    /// Tells the branch and the key of every record that was written after one revision, up to another that is
    /// visible. Says no where it cannot tell: that is too long ago to be remembered, or branches came, went or
    /// got other names meanwhile. The database has to be in this process.
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
    /// The next change; nothing when there is none within the time.
    ///
    /// The error `Lagged` says that the log no longer reaches back to here, and where to resume.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>> {
        match &mut self.0 {
            FeedBackend::Here(follower) => follower.next(timeout),
            FeedBackend::There(feed) => wait(feed.next(timeout)),
        }
    }

    /// Returns the next event without waiting, and reads at most `bytes` of the log, so that a thread
    /// that serves many feeds is never held by one. Takes the bytes that it read off `bytes`; a frame
    /// is read as a whole, and a small one counts for more than it has.
    pub fn glance(&mut self, bytes: &mut usize) -> Result<Glance> {
        match &mut self.0 {
            FeedBackend::Here(follower) => follower.glance(bytes),
            FeedBackend::There(feed) => {
                Ok(wait(feed.next(Duration::ZERO))?.map_or(Glance::End, Glance::Event))
            }
        }
    }

    /// The revision up to which everything was seen: resume after it.
    pub fn position(&self) -> Revision {
        match &self.0 {
            FeedBackend::Here(follower) => follower.position(),
            FeedBackend::There(feed) => feed.position(),
        }
    }
}
