//! The feed: every committed change once, in order, read from the log.
//!
//! ```text
//!   log (durable frames) --Reader--> effects -> events -> filter -> next()
//! ```
//!
//! A consumer reads at its own pace and holds nobody up. One that falls behind what the log keeps is
//! told so, with the revision to resume after; nothing is ever left out silently.

pub(crate) mod event;
pub(crate) mod written_records;

use crate::base::clock::{Clock, SystemClock};
use crate::base::fault_points::{self, InjectedFault};
use crate::lifecycle::engine::Engine;
use crate::lifecycle::feed_positions::FeedPosition;
use crate::log::LogReader;
use mainstay_model::{Event, Filter, Glance, Result, Revision};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// What a frame counts for at least when the log is looked through.
const FRAME_BYTES: usize = 4 << 10;

/// A position in the log of a database in this process.
pub(crate) struct LogFollower {
    core: Arc<Engine>,
    filter: Filter,
    reader: LogReader,
    after: Revision,
    ready: VecDeque<Event>,
    /// Others see here how far it is.
    position: FeedPosition,
}

impl LogFollower {
    pub fn new(core: &Arc<Engine>, filter: Filter, after: Revision) -> Result<LogFollower> {
        core.check_open()?;
        let reader = core.log.reader(after)?;
        let position = core.feeds.open(after);
        Ok(LogFollower {
            core: core.clone(),
            filter,
            reader,
            after,
            ready: VecDeque::new(),
            position,
        })
    }

    pub fn glance(&mut self, bytes: &mut usize) -> Result<Glance> {
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

    pub fn next(&mut self, timeout: Duration) -> Result<Option<Event>> {
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

    pub fn position(&self) -> Revision {
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
            let skips = fault_points::is(InjectedFault::FeedSkips)
                && transaction.revision.is_multiple_of(97);
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
