//! The feed as a stream of server-sent events.
//!
//! ```text
//!   source --> task: events, keep-alives --channel--> body of the response --> client
//!                     |the client reads nothing for too long, or the log fails
//!                     v
//!              an `error` event, the last one
//! ```
//!
//! Only the last event of a transaction carries an `id`, which is its revision. So a client that reconnects
//! with `Last-Event-ID` gets every transaction whole. A quiet stream sends its current position as an `id`
//! without an event, so that a reconnect is cheap even if no change was wanted.

use super::change::Change;
use super::hub::{Delivery, Held};
use super::reader::Reader;
use super::{FeedArguments, Wanted, start};
use crate::http::Http;
use crate::http::access::Asking;
use crate::http::answers::{account, no_memory};
use crate::http::extract::Asked;
use crate::http::refusal::{Answered, Problem, Refusal};
use crate::http::shares::FeedSeat;
use crate::memory::{Account, Kind, Reservation};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use axum::response::{IntoResponse, Response};
use mainstay::{Code, Error};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::Stream;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The most frames queued for the connection.
const CHANNEL_FRAMES: usize = 8;
/// Available events are joined into frames of about this size, so that catching up takes few steps.
const FRAME_BYTES: usize = 32 << 10;

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
) -> Answered<Response> {
    let seat = app.feed_seat(&asking)?;
    let after = start(&app, last_event_id(&headers)?.or(asked.after))?;
    let wanted = Wanted::by(&asking, asked.branch, asked.prefix, asked.contract);
    let reader = Reader::open(&app, wanted, after).await?;
    Ok(follow(app, Changes { reader, told: after }, seat))
}

/// Longer texts are sent from the buffer that all readers share. Copying is cheaper for shorter ones.
const SHARED_BYTES: usize = 16 << 10;

/// The text of one line.
pub(crate) enum Text<'a> {
    Copied(&'a str),
    Shared(Bytes),
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Text<'a> {
        Text::Copied(text)
    }
}

/// One or more whole events, sent as consecutive parts.
#[derive(Default)]
struct Frame {
    parts: VecDeque<Bytes>,
    /// The part under construction.
    last: Vec<u8>,
    bytes: usize,
}

impl Frame {
    fn copy(&mut self, text: &str) {
        self.last.extend_from_slice(text.as_bytes());
        self.bytes += text.len();
    }

    fn add(&mut self, text: Text<'_>) {
        match text {
            Text::Copied(text) => self.copy(text),
            Text::Shared(text) => {
                self.bytes += text.len();
                self.parts.extend([std::mem::take(&mut self.last).into(), text]);
            }
        }
    }

    fn into_parts(mut self) -> VecDeque<Bytes> {
        self.parts.push_back(self.last.into());
        self.parts
    }
}

/// Encoded events, in frames.
#[derive(Default)]
pub(crate) struct Sending {
    frames: Vec<Frame>,
    /// The memory reservations of the events.
    held: Vec<Held>,
}

impl Sending {
    /// A single line that is not an event: a comment, or a position.
    pub fn line(name: &str, text: &str) -> Sending {
        let mut frame = Frame::default();
        [name, ": ", text, "\n\n"].iter().for_each(|part| frame.copy(part));
        Sending { frames: vec![frame], held: Vec::new() }
    }

    /// A keep-alive comment.
    pub fn alive() -> Sending {
        Sending::line("", "alive")
    }

    /// Adds an event: lines with the name and text of each, in this order. JSON has no line breaks.
    pub fn event<'a>(&mut self, lines: impl IntoIterator<Item = (&'static str, Text<'a>)>) {
        if self.frames.last().is_none_or(|frame| frame.bytes >= FRAME_BYTES) {
            self.frames.push(Frame::default());
        }
        let Some(frame) = self.frames.last_mut() else { return };
        for (name, text) in lines {
            [name, ": "].iter().for_each(|part| frame.copy(part));
            frame.add(text);
            frame.copy("\n");
        }
        frame.copy("\n");
    }

    /// Adds the changes of a transaction. The last one carries the revision as its `id`.
    fn transaction(&mut self, delivery: Delivery) {
        let Delivery { revision, changes, held } = delivery;
        let id = revision.to_string();
        let last = changes.len().saturating_sub(1);
        for (place, change) in changes.iter().enumerate() {
            let id = (place == last).then_some(("id", id.as_str().into()));
            let lines =
                [("event", change.kind.into()), ("data", shared(change, change.text.get()))];
            self.event(lines.into_iter().chain(id));
        }
        self.hold(held);
    }

    /// Keeps a reservation until the events are sent.
    pub fn hold(&mut self, held: Held) {
        self.held.push(held);
    }

    fn bytes(&self) -> usize {
        self.frames.iter().map(|frame| frame.bytes).sum()
    }
}

/// A slice of a change's text: copied if short, shared if long.
pub(super) fn shared<'a>(change: &Arc<Change>, text: &'a str) -> Text<'a> {
    match text.len() {
        ..SHARED_BYTES => Text::Copied(text),
        _ => Text::Shared(Bytes::from_owner(Whole(change.clone())).slice_ref(text.as_bytes())),
    }
}

/// Owns the change whose text a `Bytes` refers to.
struct Whole(Arc<Change>);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        self.0.text.get().as_bytes()
    }
}

/// A frame in the queue of its connection.
struct Waiting {
    frame: Rest,
    /// Its share of the bytes that may be queued for this reader.
    _room: OwnedSemaphorePermit,
}

/// The parts of a frame that the connection has not taken yet, with their reservation. Taken parts are
/// charged by the connection.
#[derive(Default)]
struct Rest {
    parts: VecDeque<Bytes>,
    reserved: Option<Reservation>,
}

impl Rest {
    fn next(&mut self) -> Option<Bytes> {
        let part = self.parts.pop_front()?;
        if let Some(reserved) = &mut self.reserved {
            // Shrinking a reservation always succeeds.
            let _ = reserved.resize(self.parts.iter().map(Bytes::len).sum());
        }
        Some(part)
    }
}

/// The source of a stream.
pub(crate) trait Source: Send + 'static {
    /// Waits for the next events; after `quiet` without any, returns a keep-alive.
    fn next(&mut self, quiet: Duration) -> impl Future<Output = Answered<Sending>> + Send;
}

/// Streams a source until the client disconnects, the server drains, or an error is sent.
pub(crate) fn follow(app: Http, source: impl Source, seat: FeedSeat) -> Response {
    let (sender, receiver) = mpsc::channel(CHANNEL_FRAMES);
    let last = Arc::new(Mutex::new(None));
    let room_bytes = app.settings().feed_buffer_bytes.min(Semaphore::MAX_PERMITS);
    let room = Arc::new(Semaphore::new(room_bytes));
    let account = account(&app);
    let told = last.clone();
    let _seat = seat;
    let pump = Pump { app, account, source, sender, room, room_bytes, last: told, _seat };
    tokio::spawn(pump.run());
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(Frames { receiver, sending: Rest::default(), last }))
        .into_response()
}

pub(crate) fn last_event_id(headers: &HeaderMap) -> Answered<Option<u64>> {
    let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let number = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    number
        .map(Some)
        .ok_or_else(|| Refusal::invalid("Last-Event-ID takes a number: the id of the last event"))
}

/// The response body: the frames, then the error that ended the stream, if any.
struct Frames {
    receiver: mpsc::Receiver<Waiting>,
    /// The rest of the current frame.
    sending: Rest,
    last: Arc<Mutex<Option<Bytes>>>,
}

impl Stream for Frames {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(part) = self.sending.next() {
                return Poll::Ready(Some(Ok(part)));
            }
            match ready!(self.receiver.poll_recv(context)) {
                Some(waiting) => self.sending = waiting.frame,
                None => return Poll::Ready(self.last.lock().take().map(Ok)),
            }
        }
    }
}

/// Moves events from the source to the connection.
struct Pump<S> {
    app: Http,
    account: Arc<Account>,
    source: S,
    sender: mpsc::Sender<Waiting>,
    /// The bytes that may still be queued for the reader, and their limit.
    room: Arc<Semaphore>,
    room_bytes: usize,
    last: Arc<Mutex<Option<Bytes>>>,
    _seat: FeedSeat,
}

/// A feed reader as a source.
struct Changes {
    reader: Reader,
    /// The newest position that was sent to the client.
    told: u64,
}

impl Source for Changes {
    async fn next(&mut self, quiet: Duration) -> Answered<Sending> {
        let Some(first) = self.reader.next(quiet).await? else { return Ok(self.life()) };
        let mut sending = Sending::default();
        let mut next = Some(first);
        while let Some(delivery) = next {
            self.told = delivery.revision;
            sending.transaction(delivery);
            next = (sending.bytes() < FRAME_BYTES).then(|| self.reader.take_ready()).flatten();
        }
        Ok(sending)
    }
}

impl Changes {
    fn life(&mut self) -> Sending {
        let position = self.reader.position();
        if position <= self.told {
            return Sending::alive();
        }
        self.told = position;
        Sending::line("id", &position.to_string())
    }
}

/// The reason why a stream ends: silently (the client disconnected or the server stops), or with an error.
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
        let gone = self.sender.clone();
        let draining = self.app.draining().clone();
        let end = tokio::select! {
            end = self.pump() => end,
            () = gone.closed() => End::Quiet,
            () = draining.cancelled() => End::Quiet,
        };
        if let End::Told(refusal) = end {
            let mut sending = Sending::default();
            sending.event([("event", "error".into()), ("data", refusal.text().as_str().into())]);
            *self.last.lock() = sending.frames.pop().map(|frame| frame.last.into());
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
        let sending = self.source.next(self.app.settings().keep_alive()).await?;
        for frame in sending.frames {
            self.send(frame).await?;
        }
        drop(sending.held);
        Ok(())
    }

    async fn send(&mut self, frame: Frame) -> Result<(), End> {
        let limit = self.app.settings().feed_stall_limit();
        match tokio::time::timeout(limit, self.queue(frame)).await {
            Ok(sent) => sent,
            Err(_) => Err(End::Told(slow())),
        }
    }

    /// Waits until the reader has taken enough of the earlier frames.
    async fn queue(&mut self, frame: Frame) -> Result<(), End> {
        let bytes = frame.bytes;
        let share = u32::try_from(bytes.clamp(1, self.room_bytes)).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(share).await;
        let room = room.map_err(|_| End::Quiet)?;
        let reserved = self.account.reserve(Kind::Streams, bytes);
        let reserved = reserved.map_err(|exceeded| End::Told(no_memory(&exceeded)))?;
        let rest = Rest { parts: frame.into_parts(), reserved: Some(reserved) };
        let waiting = Waiting { frame: rest, _room: room };
        self.sender.send(waiting).await.map_err(|_| End::Quiet)
    }
}

fn slow() -> Refusal {
    let message = "the reader took nothing for longer than http.feed_stall_limit_ms: come back with the last id";
    Error::new(Code::TimedOut, message).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryBudget, Settings};
    use tokio_stream::StreamExt;

    const LONG: usize = 256 << 10;

    #[tokio::test]
    async fn a_frame_counts_until_its_last_part_is_taken() {
        let total_bytes = 4 * LONG;
        let budget_bytes = 2 * LONG;
        let settings = Settings {
            total_bytes,
            per_user_bytes: total_bytes,
            per_connection_bytes: budget_bytes,
        };
        let budget = MemoryBudget::new(settings);
        let reserved = budget.connect(None).reserve(Kind::Streams, 2 * LONG).unwrap();
        let parts = [1, LONG, LONG].map(|bytes| Bytes::from(vec![b'a'; bytes])).into();
        let frame = Rest { parts, reserved: Some(reserved) };
        let room = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let (sender, receiver) = mpsc::channel(1);
        sender.send(Waiting { frame, _room: room }).await.unwrap();

        let mut frames = Frames { receiver, sending: Rest::default(), last: Arc::default() };
        for left in [2 * LONG, LONG, 0] {
            frames.next().await.unwrap().unwrap();
            assert_eq!(budget.held_bytes(Kind::Streams), left);
        }
    }
}
