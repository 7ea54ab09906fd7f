//! A feed consumer across all restarts of the server: sees no gap and no duplicate.

use super::book::Book;
use super::check;
use super::operation::SEQUENCE;
use crate::drill::Outcome;
use mainstay::{Contract, Database, Event, Filter, Result, Revision, Stamp};
use std::collections::BTreeSet;
use std::time::Duration;

/// The observations so far.
#[derive(Default)]
pub struct Follower {
    after: Revision,
    /// The last change.
    last: (Revision, Stamp),
    /// The position of the last operation.
    sequence: i64,
    /// The operations seen.
    pub seen: BTreeSet<u64>,
    wrong: Option<String>,
}

impl Follower {
    /// Returns the revision up to which it has seen everything.
    pub fn reached(&self) -> Revision {
        self.after
    }

    /// Takes the recorded violation, if any.
    pub fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }

    /// Follows the feed to its end, from the last position.
    pub fn follow(&mut self, db: &Database) -> Result<()> {
        let mut feed = db.watch(Filter::default(), self.after)?;
        let ended = loop {
            match feed.next(Duration::ZERO) {
                Ok(Some(event)) => self.take(&event),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.after = self.after.max(feed.position());
        ended
    }

    fn take(&mut self, event: &Event) {
        if let Err(wrong) = self.try_take(event) {
            self.wrong.get_or_insert(format!("the feed {wrong}"));
        }
    }

    fn try_take(&mut self, event: &Event) -> Outcome<()> {
        let now = (event.revision, event.stamp);
        let goes_on = now == self.last || (now.0 > self.last.0 && now.1 > self.last.1);
        if event.revision <= self.after || !goes_on {
            return Err(format!("goes from {:?} to {now:?}, behind {}", self.last, self.after));
        }
        self.last = now;
        if event.contract != Contract::Cells {
            return Ok(());
        }
        let value = event.value.as_ref().and_then(|value| value.as_i64()).unwrap_or(-1);
        if event.key == SEQUENCE {
            if value != self.sequence + 1 {
                return Err(format!("leaves out what is between {} and {value}", self.sequence));
            }
            self.sequence = value;
        }
        if let Some(id) = event.key.strip_prefix("op/").and_then(|id| id.parse().ok())
            && (!self.seen.insert(id) || value != 1)
        {
            return Err(format!("shows operation {id} twice, or as {value}"));
        }
        Ok(())
    }

    /// Checks that every executed operation was seen.
    pub fn check(&self, book: &Book) -> Outcome<()> {
        check::feed::check(book, &self.seen)
    }
}
