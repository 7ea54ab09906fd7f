//! Async client: the change feed of a served database, fetched in pages by long polling.

use super::millis;
use crate::call::{RetrySafety, request};
use crate::connection_pool::{ConnectionPool, decode};
use crate::dedicated::DedicatedConnection;
use mainstay_model::wire::{self, FeedReply, FeedRequest};
use mainstay_model::{Clock, SystemClock};
use mainstay_model::{Code, Event, Filter, Result, Revision};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of changes per request.
const PAGE: usize = 1_000;

/// How long one request waits for changes before it is repeated.
const ROUND: Duration = Duration::from_secs(10);

/// Maximum number of attempts when connections break.
const ATTEMPTS: usize = 5;

/// A cursor in the change feed of a served database: yields the changes after a revision, in commit order.
pub struct AsyncFeed {
    link: Arc<ConnectionPool>,
    filter: Filter,
    after: Revision,
    ready: VecDeque<Event>,
    /// `None` while a request is in flight: dropping the request's future also drops its connection.
    seat: Option<DedicatedConnection>,
}

impl AsyncFeed {
    pub(crate) async fn watch(
        link: Arc<ConnectionPool>,
        filter: Filter,
        after: Revision,
    ) -> Result<AsyncFeed> {
        let mut feed = AsyncFeed { link, filter, after, ready: VecDeque::new(), seat: None };
        // Report an invalid filter or start revision now, not at the first `next`.
        feed.fetch(Duration::ZERO).await?;
        Ok(feed)
    }

    /// Waits until the next change and returns it, or returns `None` after `timeout`.
    ///
    /// Fails with `Lagged` if the log no longer reaches back to this position. The error tells where to
    /// resume.
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

    /// The revision up to which every event was delivered. To resume, pass it as `after`.
    pub fn position(&self) -> Revision {
        match self.ready.front() {
            // The rest of a partly delivered transaction is not consumed yet.
            Some(event) => event.revision - 1,
            None => self.after,
        }
    }

    /// Fetches the next page of changes. Returns whether the log has more changes after it.
    async fn fetch(&mut self, wait: Duration) -> Result<bool> {
        let after = self.after;
        let filter = self.filter.clone();
        let wait_ms = millis(wait);
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
        self.after = page.position;
        self.ready = page.events.into();
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
