//! Route for the feed in pages, for clients that poll.

use super::hub::Delivery;
use super::reader::Reader;
use super::{FeedContract, Wanted, start};
use crate::http::Http;
use crate::http::access::Asking;
use crate::http::answers::no_memory;
use crate::http::extract::Asked;
use crate::http::forms::Raw;
use crate::http::json::Json;
use crate::http::refusal::{Answered, Problem, Refusal};
use axum::extract::State;
use mainstay::limits::{PAGE_DEFAULT, PAGE_LIMIT};
use mainstay::{Code, Error};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};

/// Which changes are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageArguments {
    /// Only changes after this revision; those from now on without it.
    after: Option<u64>,
    /// Only keys that begin with this.
    prefix: Option<String>,
    /// Only changes on this branch.
    branch: Option<String>,
    /// Only changes of this kind of state.
    #[param(inline)]
    contract: Option<FeedContract>,
    /// A page ends behind the transaction that reaches this many events; 1,000 without it.
    limit: Option<usize>,
    /// How long to wait for a first change, in milliseconds; 60,000 at most, unless the server is configured otherwise.
    wait_ms: Option<u64>,
}

/// A page of changes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PageOfEvents {
    /// In order; whole transactions.
    #[schema(value_type = Vec<super::change::EventForm>)]
    events: Vec<Raw>,
    /// Pass this as `after` for the next page.
    next: u64,
}

/// A page of the changes after a revision.
#[utoipa::path(
    get, path = "/v1/feed/page", tag = "feed", operation_id = "page_feed", params(PageArguments),
    responses(
        (status = 200, description = "What there is; nothing when the wait was in vain", body = PageOfEvents),
        (status = 410, description = "The log no longer reaches back to there", body = Problem),
        (status = 503, description = "There are too many readers", body = Problem),
    )
)]
pub(crate) async fn page(
    State(app): State<Http>,
    asking: Asking,
    Asked(asked): Asked<PageArguments>,
) -> Answered<Json<PageOfEvents>> {
    let limit = limit(asked.limit)?;
    let _seat = app.feed_seat(&asking)?;
    let after = start(&app, asked.after)?;
    let wanted = Wanted::by(&asking, asked.branch, asked.prefix, asked.contract);
    let mut reader = Reader::open(&app, wanted, after).await?;
    let wait =
        Duration::from_millis(asked.wait_ms.unwrap_or(0).min(app.settings().feed_wait_limit_ms));
    let first = tokio::select! {
        first = reader.next(wait) => first?,
        () = app.draining().cancelled() => None,
    };
    let (page, bytes) = gather(&mut reader, first, limit, app.settings().feed_page_bytes).await?;
    app.sized(bytes, no_memory, || Ok(Json::of(page))).await
}

fn limit(asked: Option<usize>) -> Answered<usize> {
    match asked.unwrap_or(PAGE_DEFAULT) {
        limit if (1..=PAGE_LIMIT).contains(&limit) => Ok(limit),
        limit => {
            let message = format!("a page has 1 to {PAGE_LIMIT} entries, not {limit}");
            Err(Refusal::from(Error::new(Code::InvalidLimit, message)))
        }
    }
}

/// Fills a page with available changes. Also returns its size in bytes.
async fn gather(
    reader: &mut Reader,
    mut next: Option<Delivery>,
    limit: usize,
    limit_bytes: usize,
) -> Answered<(PageOfEvents, usize)> {
    let mut events = Vec::new();
    let mut bytes = 0;
    while let Some(delivery) = next {
        bytes += delivery.changes.iter().map(|change| change.text.get().len()).sum::<usize>();
        events.extend(delivery.changes.iter().map(|change| change.text.clone()));
        if events.len() >= limit || bytes >= limit_bytes {
            return Ok((PageOfEvents { events, next: delivery.revision }, bytes));
        }
        next = reader.at_once().await?;
    }
    Ok((PageOfEvents { events, next: reader.position() }, bytes))
}
