//! The feed of a served database: asked for in pages, each waiting for its first change.

use super::millis;
use crate::base::clock::{Clock, SystemClock};
use crate::remote::call::{RetrySafety, request};
use crate::remote::connection_pool::{ConnectionPool, decode};
use crate::remote::dedicated::DedicatedConnection;
use crate::wire::{self, FeedReply, FeedRequest};
use mainstay_model::{Code, Event, Filter, Result, Revision};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How many changes are asked for at once.
const PAGE: usize = 1_000;

/// How long one question waits for changes; then it is asked again.
const ROUND: Duration = Duration::from_secs(10);

/// How often it is asked again where a connection broke.
const ATTEMPTS: usize = 5;

/// A place in the stream of changes.
pub struct AsyncFeed {
    link: Arc<ConnectionPool>,
    filter: Filter,
    after: Revision,
    ready: VecDeque<Event>,
    /// Nothing while a question is under way: whoever gives up the question gives up its connection.
    seat: Option<DedicatedConnection>,
}

impl AsyncFeed {
    pub(crate) async fn watch(
        link: Arc<ConnectionPool>,
        filter: Filter,
        after: Revision,
    ) -> Result<AsyncFeed> {
        let mut feed = AsyncFeed { link, filter, after, ready: VecDeque::new(), seat: None };
        // What cannot be followed is told now.
        feed.fetch(Duration::ZERO).await?;
        Ok(feed)
    }

    /// The next change; nothing when there is none within the time.
    ///
    /// The error `Lagged` says that the log no longer reaches back to here, and where to resume.
    pub async fn next(&mut self, timeout: Duration) -> Result<Option<Event>> {
        let clock = SystemClock::new();
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let left = timeout.saturating_sub(Duration::from_micros(clock.monotonic_us()));
            let more = self.fetch(left.min(ROUND)).await?;
            if left.is_zero() && self.ready.is_empty() && !more {
                return Ok(None);
            }
        }
    }

    /// The revision up to which everything was seen: resume after it.
    pub fn position(&self) -> Revision {
        match self.ready.front() {
            // The rest of a transaction that was given in part is not seen yet.
            Some(event) => event.revision - 1,
            None => self.after,
        }
    }

    /// Asks for the next page; says whether the log goes on behind it.
    async fn fetch(&mut self, wait: Duration) -> Result<bool> {
        let (after, filter, wait_ms) = (self.after, self.filter.clone(), millis(wait));
        let follow = FeedRequest { after, filter, limit: PAGE, wait_ms };
        let bytes = request("WIRE.FEED", &wire::encode(&follow)?);
        let mut left = ATTEMPTS;
        let answer = loop {
            left -= 1;
            match self.ask(&bytes, wait).await {
                Err(error) if error.code() == Code::Io && left > 0 => {}
                answer => break answer,
            }
        };
        let page: FeedReply = decode(RetrySafety::Errand, answer)?;
        (self.after, self.ready) = (page.position, page.events.into());
        Ok(page.more)
    }

    async fn ask(&mut self, bytes: &[u8], wait: Duration) -> Result<Vec<u8>> {
        let seat = match self.seat.take().filter(|seat| !seat.is_broken()) {
            Some(seat) => seat,
            None => self.link.seat().await?,
        };
        let answer = seat.call(bytes.to_vec(), RetrySafety::Errand, wait).await;
        self.seat = Some(seat);
        answer
    }
}
