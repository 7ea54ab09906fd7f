//! Routes for records: read, write, delete, scan and count.
//!
//! ```text
//!   headers and body --> conditions, fields --> one step --> counter, or 412 with the current counter
//! ```

use super::Http;
use super::access::Asking;
use super::branches::{Removed, removed};
use super::cells::{OnBranch, Written, entity_tag, written};
use super::conditions::{Condition, is_known};
use super::extract::{Asked, Named, Text, form, point, records_of};
use super::forms::{
    Raw, RecordForm, RecordPageForm, WriteRecordForm, changes, check_place, filters_of,
};
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{
    Answer, At, Command, Contract, Field, Name, Receipt, RecordCommand, RecordWrite, Result, Ttl,
    Where,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What of a record is read, where and when.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetArguments {
    /// Only these fields, a comma between them; all without it. A name with a comma is written as `$bytes:` and base64.
    fields: Option<String>,
    /// The branch; `main` without it.
    branch: Option<String>,
    /// The state as of this revision.
    rev: Option<u64>,
    /// The state as of this stamp, in microseconds.
    at: Option<u64>,
}

/// Reads a record.
#[utoipa::path(
    get, path = "/v1/records/{key}", tag = "records", operation_id = "get_record",
    params(
        ("key" = String, Path, description = "The record; it may hold slashes"), GetArguments,
        ("If-None-Match" = Option<String>, Header, description = "A counter in quotes: answers 304 while the record has it"),
    ),
    responses(
        (status = 200, description = "The fields; the header ETag has the counter", body = RecordForm),
        (status = 304, description = "The record still has this counter"),
        (status = 404, description = "The record or the branch is absent", body = Problem),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
    )
)]
pub(crate) async fn get(
    State(app): State<Http>,
    Named(key): Named,
    Asked(asked): Asked<GetArguments>,
    headers: HeaderMap,
) -> Answered<Response> {
    let key = Name::new(&key)?;
    let wanted = asked.fields.as_deref().map(listed).transpose()?;
    let at = point(asked.rev, asked.at)?;
    let db = app.db().clone();
    let branch = asked.branch.clone();
    let record = key.clone();
    let read = move || {
        let records = records_of(&db, branch.as_deref())?;
        let found = match at {
            At::Latest => records.get_some(&record, wanted.as_deref())?,
            at => records.at(at)?.get_some(&record, wanted.as_deref())?,
        };
        let Some(record) = found else { return Err(absent(&record)) };
        let tag = entity_tag(record.counter);
        Ok(if is_known(&headers, record.counter) {
            (StatusCode::NOT_MODIFIED, tag).into_response()
        } else {
            (tag, Json::of(RecordForm::from(&record))).into_response()
        })
    };
    app.read_entry(asked.branch.as_deref(), (Contract::Records, &key), at, read).await
}

fn listed(names: &str) -> Result<Vec<Field>> {
    names.split(',').map(Field::from_text).collect()
}

fn absent(key: &Name) -> Refusal {
    Refusal::not_found("RecordNotFound", format!("there is no record {:?}", key.as_str()))
}

/// How a record is written.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutArguments {
    /// The branch; `main` without it.
    branch: Option<String>,
    /// How long the record lives from now on, in milliseconds; without it the expiry stays.
    ttl_ms: Option<u64>,
    /// Whether all other fields go.
    #[serde(default)]
    #[param(required = false)]
    replace: bool,
}

/// Puts fields into a record: the body is an object of them. The others stay, unless `replace` is true.
#[utoipa::path(
    put, path = "/v1/records/{key}", tag = "records", operation_id = "put_record",
    params(
        ("key" = String, Path, description = "The record; it may hold slashes"), PutArguments,
        ("If-Match" = Option<String>, Header, description = "A counter in quotes: writes only if the record has it"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: writes only if the record is absent"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    request_body(content = serde_json::Value, description = "The fields: strings, numbers and booleans as their text, bytes as {\"$bytes\": base64}; null takes a field out"),
    responses(
        (status = 200, description = "It is written; the header ETag has the counter", body = Written),
        (status = 404, description = "There is no record to take fields out of", body = Problem),
        (status = 412, description = "The condition does not hold; ETag has the counter there is", body = Problem),
        (status = 413, description = "The record is too large", body = Problem),
    )
)]
pub(crate) async fn put(
    State(app): State<Http>,
    asking: Asking,
    Named(key): Named,
    Asked(how): Asked<PutArguments>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Response> {
    let key = Name::new(&key)?;
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let ((set, clear), _room) = body.parse(&app, |text| Ok(changes(&form::<Raw>(text)?)?)).await?;
    let ttl = how.ttl_ms.map_or(Ttl::Keep, Ttl::Millis);
    let write = RecordWrite { key, when: Vec::new(), replace: how.replace, set, clear, ttl };
    self::write(&app, &asking, &headers, how.branch, write).await
}

/// Writes a record as told, in one step: conditions, fields to set and to clear, the time to live.
#[utoipa::path(
    patch, path = "/v1/records/{key}", tag = "records", operation_id = "write_record", request_body = WriteRecordForm,
    params(
        ("key" = String, Path, description = "The record; it may hold slashes"), OnBranch,
        ("If-Match" = Option<String>, Header, description = "A counter in quotes: writes only if the record has it"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: writes only if the record is absent"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses(
        (status = 200, description = "It is written; the header ETag has the counter", body = Written),
        (status = 404, description = "There is no record to take fields out of", body = Problem),
        (status = 409, description = "A fence does not hold: what was held has passed to another", body = Problem),
        (status = 412, description = "A condition does not hold; ETag has the counter there is", body = Problem),
    )
)]
pub(crate) async fn patch(
    State(app): State<Http>,
    asking: Asking,
    Named(key): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Response> {
    let key = Name::new(&key)?;
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let (write, _room) =
        body.parse(&app, |text| Ok(form::<WriteRecordForm>(text)?.to(key)?)).await?;
    self::write(&app, &asking, &headers, place.branch, write).await
}

/// Executes a write under its own conditions and those in the headers.
async fn write(
    app: &Http,
    asking: &Asking,
    headers: &HeaderMap,
    branch: Option<String>,
    mut write: RecordWrite,
) -> Answered<Response> {
    write.when.extend(Condition::of(headers)?.of_record());
    let key = write.key.clone();
    let conditional = !write.when.is_empty();
    let receipt = run(app, asking, headers, branch, write, &key, conditional).await?;
    match receipt.answers.first() {
        Some(&Answer::MaybeCounter(Some(counter))) => {
            Ok((entity_tag(counter), Json::of(written(counter, &receipt))).into_response())
        }
        Some(Answer::MaybeCounter(None)) if conditional => Err(lost_to(&key, &receipt)),
        Some(Answer::MaybeCounter(None)) => Err(absent(&key)),
        _ => Err(Refusal::foreign(receipt.repeated)),
    }
}

/// Deletes a record; its counter goes on.
#[utoipa::path(
    delete, path = "/v1/records/{key}", tag = "records", operation_id = "delete_record",
    params(
        ("key" = String, Path, description = "The record; it may hold slashes"), OnBranch,
        ("If-Match" = Option<String>, Header, description = "A counter in quotes: deletes only if the record has it"),
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
    Named(key): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
) -> Answered<Json<Removed>> {
    let key = Name::new(&key)?;
    let condition = Condition::of(&headers)?;
    let when: Vec<_> = condition.of_record().into_iter().collect();
    let conditional = !when.is_empty();
    let command = RecordCommand::Delete { key: key.clone(), when };
    let receipt = run(&app, &asking, &headers, place.branch, command, &key, conditional).await?;
    let kept = receipt.answers.first() == Some(&Answer::Did(false));
    let there = counter_there(&receipt).is_some();
    match condition {
        Condition::Counter(_) if kept => Err(lost_to(&key, &receipt)),
        Condition::Absent if there => Err(lost_to(&key, &receipt)),
        _ => removed(receipt),
    }
}

/// Executes one command. A command with conditions is followed by a read of the record, so that a failed
/// condition can be reported with the current counter.
async fn run(
    app: &Http,
    asking: &Asking,
    headers: &HeaderMap,
    branch: Option<String>,
    command: impl Into<Command>,
    key: &Name,
    conditional: bool,
) -> Answered<Receipt> {
    let look = RecordCommand::Get { key: key.clone(), fields: Some(Vec::new()) };
    let look = conditional.then(|| look.into());
    let commands = std::iter::once(command.into()).chain(look);
    app.execute::<Command>(asking, headers, branch.as_deref(), commands).await
}

/// The record's counter after a command with conditions.
fn counter_there(receipt: &Receipt) -> Option<u64> {
    match receipt.answers.get(1) {
        Some(Answer::Record(Some(record))) => Some(record.counter),
        _ => None,
    }
}

fn lost_to(key: &Name, receipt: &Receipt) -> Refusal {
    Refusal::condition("record", key.as_str(), counter_there(receipt))
}

/// Which records are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScanArguments {
    /// Only keys that begin with this.
    #[serde(default)]
    #[param(required = false)]
    prefix: String,
    /// Only records whose fields pass: a JSON object, as {"state": "pending", "timeout_at": {"lt": 1000}}. Tests are eq, ne, lt, le, gt, ge and in.
    #[serde(rename = "where")]
    tests: Option<String>,
    /// Only keys behind this one.
    after: Option<String>,
    /// At most this many; 1,000 without it, 100,000 at most.
    limit: Option<usize>,
    /// The branch; `main` without it.
    branch: Option<String>,
    /// The state as of this revision.
    rev: Option<u64>,
    /// The state as of this stamp, in microseconds.
    at: Option<u64>,
}

/// Records in byte order of their keys, with filters.
#[utoipa::path(
    get, path = "/v1/records", tag = "records", operation_id = "scan_records", params(ScanArguments),
    responses(
        (status = 200, description = "A page of records", body = RecordPageForm),
        (status = 400, description = "A limit of zero or above 100,000, or a filter that makes no sense", body = Problem),
    )
)]
pub(crate) async fn list(
    State(app): State<Http>,
    Asked(asked): Asked<ScanArguments>,
) -> Answered<Json<RecordPageForm>> {
    let db = app.db().clone();
    app.slowly(move || {
        let filters = filters(asked.tests.as_deref())?;
        let records = records_of(&db, asked.branch.as_deref())?;
        let after = asked.after.as_deref();
        let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
        check_place(&asked.prefix, after)?;
        let page = match point(asked.rev, asked.at)? {
            At::Latest => records.scan(&asked.prefix, &filters, after, limit)?,
            at => records.at(at)?.scan(&asked.prefix, &filters, after, limit)?,
        };
        Ok(Json::of(page.into()))
    })
    .await
}

/// Parses the query argument `where` into filters.
pub(super) fn filters(tests: Option<&str>) -> Answered<Vec<Where>> {
    let wrong = |error| Refusal::invalid(format!("where takes a JSON object of fields: {error}"));
    let tests = tests.map(serde_json::from_str::<Raw>).transpose().map_err(wrong)?;
    Ok(filters_of(tests.as_ref())?)
}

/// Which records are counted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountArguments {
    /// Only keys that begin with this.
    #[serde(default)]
    #[param(required = false)]
    prefix: String,
    /// Only records whose fields pass: a JSON object, as {"state": "pending", "timeout_at": {"lt": 1000}}. Tests are eq, ne, lt, le, gt, ge and in.
    #[serde(rename = "where")]
    tests: Option<String>,
    /// The branch; `main` without it.
    branch: Option<String>,
    /// The state as of this revision.
    rev: Option<u64>,
    /// The state as of this stamp, in microseconds.
    at: Option<u64>,
}

/// How many records there are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordCount {
    /// So many pass.
    count: u64,
}

/// How many records there are that pass the filters.
#[utoipa::path(
    get, path = "/v1/record-count", tag = "records", operation_id = "count_records", params(CountArguments),
    responses(
        (status = 200, description = "Their number", body = RecordCount),
        (status = 400, description = "A filter that makes no sense", body = Problem),
    )
)]
pub(crate) async fn count(
    State(app): State<Http>,
    Asked(asked): Asked<CountArguments>,
) -> Answered<Json<RecordCount>> {
    let db = app.db().clone();
    app.slowly(move || {
        let filters = filters(asked.tests.as_deref())?;
        let records = records_of(&db, asked.branch.as_deref())?;
        let count = match point(asked.rev, asked.at)? {
            At::Latest => records.count(&asked.prefix, &filters)?,
            at => records.at(at)?.count(&asked.prefix, &filters)?,
        };
        Ok(Json::of(RecordCount { count }))
    })
    .await
}
