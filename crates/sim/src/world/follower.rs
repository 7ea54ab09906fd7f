//! Somebody who follows the feed over all falls of the server: no hole, and nothing twice.

use super::book::Book;
use super::check;
use super::operation::SEQUENCE;
use crate::drill::Outcome;
use mainstay::{Contract, Database, Event, Filter, Result, Revision, Stamp};
use std::collections::BTreeSet;
use std::time::Duration;

/// What was seen so far.
#[derive(Default)]
pub struct Follower {
    after: Revision,
    /// The last change that was seen.
    last: (Revision, Stamp),
    /// The last operation of all that was seen.
    sequence: i64,
    /// The operations that were seen.
    pub seen: BTreeSet<u64>,
    wrong: Option<String>,
}

impl Follower {
    /// Up to where everything was seen.
    pub fn reached(&self) -> Revision {
        self.after
    }

    /// What is not as it must be.
    pub fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }

    /// Follows to the end, behind what was seen before.
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

    /// Everything that was executed was seen.
    pub fn check(&self, book: &Book) -> Outcome<()> {
        check::feed::check(book, &self.seen)
    }
}
