//! The feed as a stream of server-sent events.
//!
//! ```text
//!   reader --> task: events, signs of life --channel--> body of the response --> client
//!                     |the client takes nothing for too long, or the log fails
//!                     v
//!              an `error` event, the last one
//! ```
//!
//! The last event of a transaction carries its revision as `id`, the others none: a client that comes
//! back with `Last-Event-ID` gets every transaction whole. A quiet stream sends the position it has
//! reached as an `id` without an event, so that coming back is cheap even if nothing was wanted.

use super::hub::Delivery;
use super::reader::Reader;
use super::{FeedArguments, Wanted, start};
use crate::http::Http;
use crate::http::access::Asking;
use crate::http::extract::Asked;
use crate::http::refusal::{Answered, Problem, Refusal};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, Sse};
use mainstay::{Code, Error};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::Stream;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How many events wait for the connection.
const CHANNEL_EVENTS: usize = 64;

/// Follows the changes as server-sent events: `id` is the revision, `event` the kind, `data` the change.
#[utoipa::path(
    get, path = "/v1/feed", tag = "feed", operation_id = "follow_feed",
    params(FeedArguments, ("Last-Event-ID" = Option<u64>, Header, description = "Resumes after this revision; it goes before `after`")),
    responses(
        (status = 200, description = "Events without end; one called `error` is the last", content_type = "text/event-stream", body = super::change::EventForm),
        (status = 410, description = "The log no longer reaches back to there", body = Problem),
        (status = 503, description = "There are too many readers", body = Problem),
    )
)]
pub(crate) async fn stream(
    State(app): State<Http>,
    asking: Asking,
    Asked(asked): Asked<FeedArguments>,
    headers: HeaderMap,
) -> Answered<Sse<Events>> {
    let seat = app.feed_readers().try_acquire_owned().map_err(|_| full())?;
    let after = start(&app, last_event_id(&headers)?.or(asked.after))?;
    let wanted = Wanted::by(&asking, asked.branch, asked.prefix);
    let reader = Reader::open(&app, wanted, after).await?;
    let (sender, receiver) = mpsc::channel(CHANNEL_EVENTS);
    let last = Arc::new(Mutex::new(None));
    let pump = Pump { app, reader, sender, told: after, last: last.clone(), _seat: seat };
    tokio::spawn(pump.run());
    Ok(Sse::new(Events { receiver, last }))
}

pub(super) fn full() -> Refusal {
    Refusal::unavailable("TooManyReaders", "the feed has as many readers as it may: try later")
}

fn last_event_id(headers: &HeaderMap) -> Answered<Option<u64>> {
    let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let revision = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    let wrong = || Refusal::invalid("Last-Event-ID takes a revision: the id of the last event");
    revision.map(Some).ok_or_else(wrong)
}

/// What the connection takes from: events, and in the end what ended them.
pub(crate) struct Events {
    receiver: mpsc::Receiver<Event>,
    last: Arc<Mutex<Option<Event>>>,
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.receiver.poll_recv(context) {
            Poll::Ready(None) => Poll::Ready(self.last.lock().take().map(Ok)),
            Poll::Ready(Some(event)) => Poll::Ready(Some(Ok(event))),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Moves events from a reader to its connection.
struct Pump {
    app: Http,
    reader: Reader,
    sender: mpsc::Sender<Event>,
    /// The newest position that the client was told.
    told: u64,
    last: Arc<Mutex<Option<Event>>>,
    _seat: OwnedSemaphorePermit,
}

/// Why a stream ends: the client left, the server stops, or something to tell.
enum End {
    Quiet,
    Told(Refusal),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> End {
        End::Told(refusal)
    }
}

impl Pump {
    async fn run(mut self) {
        let (gone, draining) = (self.sender.clone(), self.app.draining().clone());
        let end = tokio::select! {
            end = self.pump() => end,
            () = gone.closed() => End::Quiet,
            () = draining.cancelled() => End::Quiet,
        };
        if let End::Told(refusal) = end {
            let event = Event::default().event("error").data(refusal.text());
            *self.last.lock() = Some(event);
        }
    }

    async fn pump(&mut self) -> End {
        loop {
            if let Err(end) = self.step().await {
                return end;
            }
        }
    }

    async fn step(&mut self) -> Result<(), End> {
        match self.reader.next(self.app.settings().keep_alive()).await? {
            Some(delivery) => self.send_all(delivery).await,
            None => self.send_life().await,
        }
    }

    async fn send_all(&mut self, delivery: Delivery) -> Result<(), End> {
        let count = delivery.changes.len();
        for (i, change) in delivery.changes.iter().enumerate() {
            let event = Event::default().event(change.kind).data(change.text.get());
            let is_last = i + 1 == count;
            let id = delivery.revision.to_string();
            self.send(if is_last { event.id(id) } else { event }).await?;
        }
        self.told = delivery.revision;
        Ok(())
    }

    async fn send_life(&mut self) -> Result<(), End> {
        let position = self.reader.position();
        if position <= self.told {
            return self.send(Event::default().comment("alive")).await;
        }
        self.told = position;
        self.send(Event::default().id(position.to_string())).await
    }

    async fn send(&self, event: Event) -> Result<(), End> {
        let limit = self.app.settings().feed_stall_limit();
        match tokio::time::timeout(limit, self.sender.send(event)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Quiet),
            Err(_) => Err(End::Told(slow())),
        }
    }
}

fn slow() -> Refusal {
    let message = "the reader took nothing for too long: come back with the last id";
    Error::new(Code::TimedOut, message).into()
}
