//! Route that tails a run: as a stream of events, or as a page that waits for the first event.

use super::Http;
use super::access::Asking;
use super::answers::no_memory;
use super::extract::{Asked, Named};
use super::feed::{self, Sending, Source, TailReader};
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use super::runs::EventPageForm;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use mainstay::Name;
use mainstay::limits::{PAGE_DEFAULT, check_page};
use serde::Deserialize;
use std::time::Duration;
use utoipa::IntoParams;

/// Which events are followed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct TailArguments {
    /// Only behind this event; from the first one on without it.
    #[serde(default)]
    #[param(required = false)]
    after: u64,
    /// Answers one page instead of a stream, and waits this long for its first event, in milliseconds; 60,000 at most, unless the server is configured otherwise.
    wait_ms: Option<u64>,
    /// At most this many events in a page; 1,000 without it.
    limit: Option<usize>,
    /// The branch; `main` without it.
    branch: Option<String>,
}

/// Follows a run as server-sent events: `id` is the sequence, `data` the event. The run need not be there yet.
#[utoipa::path(
    get, path = "/v1/runs/{run}/tail", tag = "runs", operation_id = "tail_run",
    params(
        ("run" = String, Path, description = "The run; a slash in it is %2F"), TailArguments,
        ("Last-Event-ID" = Option<u64>, Header, description = "Resumes behind this sequence; it goes before `after`"),
    ),
    responses(
        (status = 200, description = "Events without end, one called `error` is the last; with `wait_ms` a page of them as JSON", content_type = "text/event-stream", body = EventPageForm),
        (status = 400, description = "A limit of zero or above 100,000", body = Problem),
        (status = 503, description = "There are too many readers", body = Problem),
    )
)]
pub(crate) async fn tail(
    State(app): State<Http>,
    asking: Asking,
    Named(run): Named,
    Asked(asked): Asked<TailArguments>,
    headers: HeaderMap,
) -> Answered<Response> {
    let run = Name::new(&run)?;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    check_page(limit)?;
    if asked.limit.is_some() && asked.wait_ms.is_none() {
        return Err(Refusal::invalid("limit is for pages: give wait_ms, too, or leave it out"));
    }
    let seat = app.feed_seat(&asking)?;
    let after = feed::last_event_id(&headers)?.unwrap_or(asked.after);
    let reader = TailReader::open(&app, run, asked.branch, after).await?;
    match asked.wait_ms {
        None => Ok(feed::follow(app, reader, seat)),
        Some(wait_ms) => Ok(page(&app, reader, limit, wait_ms).await?.into_response()),
    }
}

/// Once a page has this many bytes, no further event is added.
const PAGE_BYTES: usize = 4 << 20;

async fn page(
    app: &Http,
    mut reader: TailReader,
    limit: usize,
    wait_ms: u64,
) -> Answered<Json<EventPageForm>> {
    let wait = Duration::from_millis(wait_ms.min(app.settings().feed_wait_limit_ms));
    let mut events = Vec::new();
    let mut next = reader.position();
    let mut held = Vec::new();
    let mut bytes = 0;
    // Only the first events are waited for. The page then takes the events that are available, up to the
    // limit.
    loop {
        let wait = if events.is_empty() { wait } else { Duration::ZERO };
        let told = tokio::select! {
            told = reader.next(limit - events.len(), wait) => match told {
                // The page keeps its events. The next request of the client gets the error.
                Err(_) if !events.is_empty() => Vec::new(),
                told => told?,
            },
            () = app.draining().cancelled() => Vec::new(),
        };
        let is_end = told.is_empty() || !reader.is_behind();
        for told in told.into_iter().take(limit - events.len()) {
            next = told.seq;
            bytes += told.json().get().len();
            events.push(told.json().to_owned());
            held.push(told.held);
        }
        if is_end || events.len() >= limit || bytes >= PAGE_BYTES {
            break;
        }
    }
    app.sized(bytes, no_memory, move || Ok(Json::of(EventPageForm { events: events.into(), next })))
        .await
}

impl Source for TailReader {
    async fn next(&mut self, quiet: Duration) -> Answered<Sending> {
        let told = TailReader::next(self, PAGE_DEFAULT, quiet).await?;
        if told.is_empty() {
            return Ok(Sending::alive());
        }
        let mut sending = Sending::default();
        for told in told {
            let id = told.seq.to_string();
            let lines = [("event", "appended".into()), ("id", id.as_str().into())];
            sending.event(lines.into_iter().chain([("data", told.line())]));
            sending.hold(told.held);
        }
        Ok(sending)
    }
}
