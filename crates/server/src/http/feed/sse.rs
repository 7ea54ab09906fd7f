//! The feed as a stream of server-sent events.
//!
//! ```text
//!   source --> task: events, signs of life --channel--> body of the response --> client
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
use crate::http::answers::{account, no_memory};
use crate::http::extract::Asked;
use crate::http::refusal::{Answered, Problem, Refusal};
use crate::http::shares::FeedSeat;
use crate::memory::{Account, Kind, Reservation};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, Sse};
use mainstay::{Code, Error};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
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
    let seat = app.feed_seat(&asking)?;
    let after = start(&app, last_event_id(&headers)?.or(asked.after))?;
    let wanted = Wanted::by(&asking, asked.branch, asked.prefix, asked.contract);
    let reader = Reader::open(&app, wanted, after).await?;
    Ok(follow(app, Changes { reader, told: after }, seat))
}

/// The events of a stream in order, with the bytes of each.
pub(crate) type Sending = Box<dyn Iterator<Item = (Event, usize)> + Send>;

/// An event that waits for its connection.
struct Waiting {
    event: Event,
    _reserved: Reservation,
    /// Its part of the bytes that may wait for this reader.
    _room: OwnedSemaphorePermit,
}

/// Where a stream comes from.
pub(crate) trait Source: Send + 'static {
    /// What comes next; a sign of life when nothing came for so long.
    fn next(&mut self, quiet: Duration) -> impl Future<Output = Answered<Sending>> + Send;
}

/// Streams what comes from somewhere, until the client leaves or is told why not.
pub(crate) fn follow(app: Http, source: impl Source, seat: FeedSeat) -> Sse<Events> {
    let (sender, receiver) = mpsc::channel(CHANNEL_EVENTS);
    let last = Arc::new(Mutex::new(None));
    let room_bytes = app.settings().feed_buffer_bytes.min(Semaphore::MAX_PERMITS);
    let (room, account) = (Arc::new(Semaphore::new(room_bytes)), account(&app));
    let (told, _seat) = (last.clone(), seat);
    let pump = Pump { app, account, source, sender, room, room_bytes, last: told, _seat };
    tokio::spawn(pump.run());
    Sse::new(Events { receiver, last })
}

pub(crate) fn last_event_id(headers: &HeaderMap) -> Answered<Option<u64>> {
    let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let number = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    let wrong = || Refusal::invalid("Last-Event-ID takes a number: the id of the last event");
    number.map(Some).ok_or_else(wrong)
}

/// What the connection takes from: events, and in the end what ended them.
pub(crate) struct Events {
    receiver: mpsc::Receiver<Waiting>,
    last: Arc<Mutex<Option<Event>>>,
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.receiver.poll_recv(context) {
            Poll::Ready(None) => Poll::Ready(self.last.lock().take().map(Ok)),
            Poll::Ready(Some(waiting)) => Poll::Ready(Some(Ok(waiting.event))),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Moves events from where they come to their connection.
struct Pump<S> {
    app: Http,
    account: Arc<Account>,
    source: S,
    sender: mpsc::Sender<Waiting>,
    /// The bytes that may still wait for the reader, and all of them.
    room: Arc<Semaphore>,
    room_bytes: usize,
    last: Arc<Mutex<Option<Event>>>,
    _seat: FeedSeat,
}

/// Changes as a reader gives them.
struct Changes {
    reader: Reader,
    /// The newest position that the client was told.
    told: u64,
}

impl Source for Changes {
    async fn next(&mut self, quiet: Duration) -> Answered<Sending> {
        Ok(match self.reader.next(quiet).await? {
            Some(delivery) => {
                self.told = delivery.revision;
                Box::new(sent(delivery))
            }
            None => Box::new(std::iter::once((self.life(), 0))),
        })
    }
}

impl Changes {
    fn life(&mut self) -> Event {
        let position = self.reader.position();
        if position <= self.told {
            return Event::default().comment("alive");
        }
        self.told = position;
        Event::default().id(position.to_string())
    }
}

fn sent(delivery: Delivery) -> impl Iterator<Item = (Event, usize)> + Send {
    let Delivery { revision, changes, held } = delivery;
    let last = changes.len().saturating_sub(1);
    changes.into_iter().enumerate().map(move |(place, change)| {
        // What was reserved for all of them is held as long as one is here.
        let _ = &held;
        let text = change.text.get();
        let event = Event::default().event(change.kind).data(text);
        let event = if place == last { event.id(revision.to_string()) } else { event };
        (event, text.len())
    })
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

impl<S: Source> Pump<S> {
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
        for (event, bytes) in self.source.next(self.app.settings().keep_alive()).await? {
            self.send(event, bytes).await?;
        }
        Ok(())
    }

    async fn send(&mut self, event: Event, bytes: usize) -> Result<(), End> {
        let limit = self.app.settings().feed_stall_limit();
        match tokio::time::timeout(limit, self.queue(event, bytes)).await {
            Ok(sent) => sent,
            Err(_) => Err(End::Told(slow())),
        }
    }

    /// Waits until the reader has taken enough of the events before.
    async fn queue(&mut self, event: Event, bytes: usize) -> Result<(), End> {
        let share = u32::try_from(bytes.clamp(1, self.room_bytes)).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(share).await;
        let room = room.map_err(|_| End::Quiet)?;
        let reserved = self.account.reserve(Kind::Streams, bytes);
        let reserved = reserved.map_err(|exceeded| End::Told(no_memory(&exceeded)))?;
        let waiting = Waiting { event, _reserved: reserved, _room: room };
        self.sender.send(waiting).await.map_err(|_| End::Quiet)
    }
}

fn slow() -> Refusal {
    let message = "the reader took nothing for too long: come back with the last id";
    Error::new(Code::TimedOut, message).into()
}
