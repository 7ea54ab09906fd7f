//! Routes for cells: read, write, delete, increment, list.

use super::Http;
use super::access::Asking;
use super::branches::{Removed, removed};
use super::conditions::{Condition, identified, is_known};
use super::extract::{Asked, Named, Text, cells_of, point};
use super::forms::{CellForm, PageForm, Raw, number, raw};
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{
    Answer, At, CellCommand, Contract, MAIN, Name, Receipt, Transaction, Ttl, Value, Versioned,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Where and when a cell is read.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Where {
    /// The branch; `main` without it.
    branch: Option<String>,
    /// The state as of this revision.
    rev: Option<u64>,
    /// The state as of this stamp, in microseconds.
    at: Option<u64>,
}

/// Reads a cell.
#[utoipa::path(
    get, path = "/v1/cells/{name}", tag = "cells", operation_id = "get_cell",
    params(
        ("name" = String, Path, description = "The cell; it may hold slashes"), Where,
        ("If-None-Match" = Option<String>, Header, description = "A counter in quotes: answers 304 while the cell has it"),
    ),
    responses(
        (status = 200, description = "The value; the header ETag has the counter", body = CellForm),
        (status = 304, description = "The cell still has this counter"),
        (status = 404, description = "The cell or the branch is absent", body = Problem),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
    )
)]
pub(crate) async fn get(
    State(app): State<Http>,
    Named(name): Named,
    Asked(place): Asked<Where>,
    headers: HeaderMap,
) -> Answered<Response> {
    let name = Name::new(&name)?;
    let at = point(place.rev, place.at)?;
    let db = app.db().clone();
    let branch = place.branch.clone();
    let cell = name.clone();
    let read = move || {
        let cells = cells_of(&db, branch.as_deref())?;
        let found = match at {
            At::Latest => cells.get_versioned(cell.as_str())?,
            at => cells.at(at)?.get_versioned(cell.as_str())?,
        };
        let Some(cell) = found else {
            let message = format!("there is no cell {:?}", cell.as_str());
            return Err(Refusal::not_found("CellNotFound", message));
        };
        let tag = entity_tag(cell.counter);
        Ok(if is_known(&headers, cell.counter) {
            (StatusCode::NOT_MODIFIED, tag).into_response()
        } else {
            (tag, Json::of(CellForm::from(&cell))).into_response()
        })
    };
    app.read_entry(place.branch.as_deref(), (Contract::Cells, &name), at, read).await
}

/// How a cell is written.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutArguments {
    /// The branch; `main` without it.
    branch: Option<String>,
    /// How long the value lives, in milliseconds; for ever without it.
    ttl_ms: Option<u64>,
}

/// What a write answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Written {
    /// The new counter.
    counter: u64,
    /// The transaction's revision.
    revision: u64,
    /// Its stamp, in microseconds.
    stamp: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// Writes a cell: the body is its value as JSON.
#[utoipa::path(
    put, path = "/v1/cells/{name}", tag = "cells", operation_id = "put_cell",
    params(
        ("name" = String, Path, description = "The cell; it may hold slashes"), PutArguments,
        ("If-Match" = Option<String>, Header, description = "A counter in quotes: writes only if the cell has it"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: writes only if the cell is absent"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    request_body(content = serde_json::Value, description = "The value; bytes as {\"$bytes\": base64}, NaN as {\"$float\": \"NaN\"}"),
    responses(
        (status = 200, description = "It is written; the header ETag has the counter", body = Written),
        (status = 412, description = "The condition does not hold; ETag has the counter there is", body = Problem),
        (status = 413, description = "The value is too large", body = Problem),
    )
)]
pub(crate) async fn put(
    State(app): State<Http>,
    asking: Asking,
    Named(name): Named,
    Asked(how): Asked<PutArguments>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Response> {
    let name = Name::new(&name)?;
    let condition = Condition::of(&headers)?;
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let (value, _room) = body.parse(&app, |text| Ok(Value::from_json(text)?)).await?;
    let ttl = how.ttl_ms.map_or(Ttl::Clear, Ttl::Millis);
    let set = CellCommand::Set { name: name.clone(), value, ttl };
    let receipt = run(&app, &asking, &headers, how.branch, &name, condition, set).await?;
    match receipt.answers.first() {
        Some(&Answer::Counter(counter)) => {
            Ok((entity_tag(counter), Json::of(written(counter, &receipt))).into_response())
        }
        _ => Err(Refusal::foreign(receipt.repeated)),
    }
}

/// Where a write goes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnBranch {
    /// The branch; `main` without it.
    pub(super) branch: Option<String>,
}

/// Deletes a cell; its counter goes on.
#[utoipa::path(
    delete, path = "/v1/cells/{name}", tag = "cells", operation_id = "delete_cell",
    params(
        ("name" = String, Path, description = "The cell; it may hold slashes"), OnBranch,
        ("If-Match" = Option<String>, Header, description = "A counter in quotes: deletes only if the cell has it"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses(
        (status = 200, description = "It is gone", body = Removed),
        (status = 412, description = "The condition does not hold; ETag has the counter there is", body = Problem),
    )
)]
pub(crate) async fn delete(
    State(app): State<Http>,
    asking: Asking,
    Named(name): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
) -> Answered<Json<Removed>> {
    let name = Name::new(&name)?;
    let condition = Condition::of(&headers)?;
    let command = CellCommand::Delete { name: name.clone(), counter: None };
    let receipt = run(&app, &asking, &headers, place.branch, &name, condition, command).await?;
    removed(receipt)
}

/// What to add.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Addition {
    /// The number to add; 1 without it.
    #[schema(value_type = Option<f64>)]
    by: Option<Raw>,
}

/// What counting answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Counted {
    /// The sum.
    #[schema(value_type = f64)]
    value: Raw,
    /// The cell's counter.
    counter: u64,
    /// The transaction's revision.
    revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// Adds to a number; an absent cell counts as zero.
#[utoipa::path(
    post, path = "/v1/incr/{name}", tag = "cells", operation_id = "incr_cell", request_body = Addition,
    params(
        ("name" = String, Path, description = "The cell; it may hold slashes"), OnBranch,
        ("If-Match" = Option<String>, Header, description = "A counter in quotes: adds only if the cell has it"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses(
        (status = 200, description = "The sum; the header ETag has the counter", body = Counted),
        (status = 400, description = "The cell holds no number, or the sum leaves its range", body = Problem),
        (status = 412, description = "The condition does not hold; ETag has the counter there is", body = Problem),
    )
)]
pub(crate) async fn incr(
    State(app): State<Http>,
    asking: Asking,
    Named(name): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Response> {
    let name = Name::new(&name)?;
    let condition = Condition::of(&headers)?;
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let Addition { by } = body.form_or_default(&app).await?;
    let command = CellCommand::Incr { name: name.clone(), by: number(by.as_deref())? };
    let receipt = run(&app, &asking, &headers, place.branch, &name, condition, command).await?;
    match receipt.answers.first() {
        Some(Answer::Number { value, counter }) => {
            let value = raw(value);
            let counter = *counter;
            let Receipt { revision, repeated, .. } = receipt;
            let counted = Counted { value, counter, revision, repeated };
            Ok((entity_tag(counter), Json::of(counted)).into_response())
        }
        _ => Err(Refusal::foreign(receipt.repeated)),
    }
}

/// Which names are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArguments {
    /// Only names that begin with this.
    #[serde(default)]
    #[param(required = false)]
    pub(super) prefix: String,
    /// Only names behind this one.
    pub(super) after: Option<String>,
    /// At most this many; 1,000 without it, 100,000 at most.
    pub(super) limit: Option<usize>,
    /// The branch; `main` without it.
    pub(super) branch: Option<String>,
    /// The state as of this revision.
    pub(super) rev: Option<u64>,
    /// The state as of this stamp, in microseconds.
    pub(super) at: Option<u64>,
}

/// Lists the names of cells in byte order.
#[utoipa::path(
    get, path = "/v1/cells", tag = "cells", operation_id = "list_cells", params(ListArguments),
    responses(
        (status = 200, description = "A page of names", body = PageForm),
        (status = 400, description = "A limit of zero or above 100,000", body = Problem),
    )
)]
pub(crate) async fn list(
    State(app): State<Http>,
    Asked(asked): Asked<ListArguments>,
) -> Answered<Json<PageForm>> {
    let db = app.db().clone();
    app.slowly(move || {
        let cells = cells_of(&db, asked.branch.as_deref())?;
        let after = asked.after.as_deref();
        let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
        let page = match point(asked.rev, asked.at)? {
            At::Latest => cells.list(&asked.prefix, after, limit)?,
            at => cells.at(at)?.list(&asked.prefix, after, limit)?,
        };
        Ok(Json::of(page.into()))
    })
    .await
}

/// Executes one command under the conditions in the headers.
async fn run(
    app: &Http,
    asking: &Asking,
    headers: &HeaderMap,
    branch: Option<String>,
    name: &Name,
    condition: Condition,
    command: CellCommand,
) -> Answered<Receipt> {
    let transaction = Transaction::on(branch.as_deref().unwrap_or(MAIN)).step(command);
    let transaction = condition.onto(transaction, name);
    let receipt = app.write(asking, identified(headers, transaction)?).await?;
    match (receipt.held, receipt.answers.first()) {
        (true, _) => Ok(receipt),
        (false, Some(Answer::Cell(Some(Versioned { counter, .. })))) => {
            Err(Refusal::condition("cell", name.as_str(), Some(*counter)))
        }
        (false, _) => Err(Refusal::condition("cell", name.as_str(), None)),
    }
}

pub(super) fn written(counter: u64, receipt: &Receipt) -> Written {
    let &Receipt { revision, stamp, repeated, .. } = receipt;
    Written { counter, revision, stamp, repeated }
}

/// The counter as an `ETag`. `no-cache` makes caches revalidate before they serve a copy.
pub(super) fn entity_tag(counter: u64) -> [(header::HeaderName, HeaderValue); 2] {
    // Digits in quotes are always a valid header value.
    let tag = HeaderValue::try_from(format!("\"{counter}\""));
    let tag = tag.unwrap_or(HeaderValue::from_static("\"\""));
    [(header::ETAG, tag), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))]
}
