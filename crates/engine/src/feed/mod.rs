//! The change feed: delivers every committed change once, in commit order, read from the write-ahead log.
//!
//! ```text
//!   log (durable frames) --Reader--> effects -> events -> filter -> next()
//! ```
//!
//! A consumer reads at its own pace and never blocks a writer. A consumer that falls behind the retained log
//! gets an error with the revision to resume after. No change is skipped silently.

pub mod event;
pub mod written_records;

use crate::base::clock::{Clock, SystemClock};
use crate::base::fault_points::{self, InjectedFault};
use crate::lifecycle::engine::Engine;
use crate::lifecycle::feed_positions::FeedPosition;
use crate::log::LogReader;
use mainstay_model::{Event, Filter, Glance, Result, Revision};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Smallest cost charged for one frame against the byte budget of a log scan.
const FRAME_BYTES: usize = 4 << 10;

/// A cursor on the log of a database in this process.
pub struct LogFollower {
    core: Arc<Engine>,
    filter: Filter,
    reader: LogReader,
    after: Revision,
    ready: VecDeque<Event>,
    /// Shared position, so that other threads can see how far this cursor has read.
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
            // The transaction of the next event was delivered in part only, so it does not count as seen.
            Some(event) => event.revision - 1,
            None => self.after,
        }
    }

    /// Returns min(durable, published), so a consumer can always read the revisions that it was sent. Both
    /// limits matter because a synced revision is durable before it is visible.
    fn reached(&self) -> Revision {
        self.core.sequencer.durable().min(self.core.sequencer.published())
    }

    /// Reads the next durable frame and returns its size in bytes, or `None` at the end of the durable log.
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
