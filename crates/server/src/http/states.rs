//! Routes for keyed state: the keys of a space, and their item logs.
//!
//! ```text
//!   PUT ?version=   body: JSON, or any bytes as application/octet-stream --> applied, stale or waiting
//!   GET             JSON, or the bytes if the client accepts application/octet-stream
//! ```
//!
//! Space and key are one path segment each: a slash in one is written as %2F.

use super::Http;
use super::access::Asking;
use super::answers::done_without_answer;
use super::cells::OnBranch;
use super::extract::{Asked, Named, NamedState, Text, form, point, small_form, whole};
use super::forms::{
    ItemForm, Raw, StateForm, StatePageForm, WriteForm, key_of, shown_key, state_bytes, wrote,
};
use super::job_reads::Moment;
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use super::spaces::{answered, read_state};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{
    Code, Error, Kept, Name, Receipt, Result, StateAnswer, StateCommand, StateKey, StateWrite,
    Version, Wrote,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

const VERSION: HeaderName = HeaderName::from_static("mainstay-version");
const BYTES: &str = "application/octet-stream";

/// Which keys are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScanArguments {
    /// Only keys that begin with this; bytes that are no text as `$bytes:` and base64.
    #[serde(default)]
    #[param(required = false)]
    prefix: String,
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

/// Keys in byte order with their states; none of a space that there is not. A page ends early where it becomes large.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/states", tag = "keyed", operation_id = "scan_states",
    params(("space" = String, Path, description = "The space; a slash in it is %2F"), ScanArguments),
    responses(
        (status = 200, description = "A page of keys", body = StatePageForm),
        (status = 400, description = "A limit of zero or above 100,000", body = Problem),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
    )
)]
pub(crate) async fn scan(
    State(app): State<Http>,
    Named(space): Named,
    Asked(asked): Asked<ScanArguments>,
) -> Answered<Json<StatePageForm>> {
    let after = asked.after.as_deref().map(key_of).transpose()?;
    let space = Name::new(&space)?;
    let prefix = key_of(&asked.prefix)?;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let command = StateCommand::Scan { space, prefix, after, limit };
    let at = point(asked.rev, asked.at)?;
    let encode = |answer| match answer {
        StateAnswer::States(page) => Ok(Json::of(page.into())),
        _ => Err(Refusal::lost()),
    };
    read_state(&app, asked.branch, at, command, encode).await
}

/// A key's state.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/states/{key}", tag = "keyed", operation_id = "get_state",
    params(
        ("space" = String, Path, description = "The space; a slash in it is %2F"),
        ("key" = String, Path, description = "The key; a slash in it is %2F, bytes that are no text are `$bytes:` and base64"),
        Moment,
        ("Accept" = Option<String>, Header, description = "`application/octet-stream`: the bytes of the state, and nothing else"),
    ),
    responses(
        (status = 200, description = "The state; the header Mainstay-Version has its version", body = StateForm),
        (status = 404, description = "The key has, or had, no state", body = Problem),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
    )
)]
pub(crate) async fn get(
    State(app): State<Http>,
    NamedState(space, key): NamedState,
    Asked(moment): Asked<Moment>,
    headers: HeaderMap,
) -> Answered<Response> {
    let keys = vec![StateKey(key.clone())];
    let command = StateCommand::Look { space: space.clone(), keys };
    let at = point(moment.rev, moment.at)?;
    let encode = move |answer| {
        let StateAnswer::Kept(mut kept) = answer else { return Err(Refusal::lost()) };
        let Some(state) = kept.pop().flatten().and_then(Kept::into_state) else {
            return Err(absent(&space, &key));
        };
        let version = HeaderValue::try_from(state.version.to_string());
        let version = version.map_err(|_| Refusal::lost())?;
        let mut response = if names_bytes(&headers, &header::ACCEPT) {
            let kind = (header::CONTENT_TYPE, HeaderValue::from_static(BYTES));
            ([kind], state.value).into_response()
        } else {
            Json::of(StateForm::of(&key, &state)).into_response()
        };
        response.headers_mut().insert(VERSION, version);
        Ok(response)
    };
    read_state(&app, moment.branch, at, command, encode).await
}

fn absent(space: &Name, key: &[u8]) -> Refusal {
    let space = space.as_str();
    let key = shown_key(key);
    Refusal::not_found("StateNotFound", format!("the key {key:?} of space {space:?} has no state"))
}

/// Returns whether a header names `application/octet-stream`.
fn names_bytes(headers: &HeaderMap, name: &HeaderName) -> bool {
    let said = headers.get(name).and_then(|said| said.to_str().ok());
    said.is_some_and(|said| said.trim_start().starts_with(BYTES))
}

/// With which version something is written, and where.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteArguments {
    /// The version: a whole number, or epoch.round. What is not newer than the key's does nothing.
    version: Option<String>,
    /// The branch; `main` without it.
    branch: Option<String>,
}

impl WriteArguments {
    fn version(&self) -> Result<Version> {
        match &self.version {
            Some(version) => version.parse(),
            None => {
                let message = "a write carries a version: say ?version=17, or ?version=3.17";
                Err(Error::new(Code::InvalidVersion, message))
            }
        }
    }
}

/// What became of a write.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WroteOne {
    /// `applied`; `stale`: it was not newer, nothing happened; `waiting`: until its version is sealed.
    wrote: &'static str,
    /// The transaction's revision.
    revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// What became of several writes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WroteAll {
    /// Of each: `applied`, `stale` or `waiting`.
    wrote: Vec<&'static str>,
    /// The transaction's revision.
    revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// Executes the writes of one command atomically. Returns the outcome of each, the revision, and whether it
/// is a repeat.
async fn write_each(
    app: &Http,
    asking: &Asking,
    headers: &HeaderMap,
    branch: Option<&str>,
    command: StateCommand,
) -> Answered<(Vec<Wrote>, u64, bool)> {
    let receipt = app.execute(asking, headers, branch, [command]).await?;
    let Receipt { revision, repeated, .. } = receipt;
    match answered(receipt)? {
        StateAnswer::Wrote(all) => Ok((all, revision, repeated)),
        _ => Err(Refusal::foreign(repeated)),
    }
}

async fn write_one(
    app: &Http,
    asking: &Asking,
    headers: &HeaderMap,
    branch: Option<String>,
    space: Name,
    write: StateWrite,
) -> Answered<Json<WroteOne>> {
    write.check()?;
    let command = StateCommand::Write { space, writes: vec![write] };
    let (all, revision, repeated) =
        write_each(app, asking, headers, branch.as_deref(), command).await?;
    let only = all.first().copied().ok_or_else(|| Refusal::foreign(repeated))?;
    Ok(Json::of(WroteOne { wrote: wrote(only), revision, repeated }))
}

/// Writes a key's state if the version is newer than the key's.
#[utoipa::path(
    put, path = "/v1/spaces/{space}/states/{key}", tag = "keyed", operation_id = "put_state",
    params(
        ("space" = String, Path, description = "The space; a slash in it is %2F"),
        ("key" = String, Path, description = "The key; a slash in it is %2F, bytes that are no text are `$bytes:` and base64"),
        WriteArguments,
        ("Content-Type" = Option<String>, Header, description = "`application/octet-stream`: the body is the state, whatever its bytes; JSON otherwise"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes; versions do as much"),
    ),
    request_body(content = serde_json::Value, description = "The state: a string, or {\"$bytes\": base64}; other JSON is kept as its text"),
    responses(
        (status = 200, description = "What became of it", body = WroteOne),
        (status = 400, description = "No version, or one of the other kind", body = Problem),
        (status = 413, description = "The state is too large", body = Problem),
    )
)]
pub(crate) async fn put(
    State(app): State<Http>,
    asking: Asking,
    NamedState(space, key): NamedState,
    Asked(how): Asked<WriteArguments>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<WroteOne>> {
    let version = how.version()?;
    let limit_bytes = app.settings().value_limit_bytes;
    let (value, _room) = if names_bytes(&headers, &header::CONTENT_TYPE) {
        whole(&app, &headers, body, limit_bytes).await?
    } else {
        let text = Text::read(&app, &headers, body, limit_bytes).await?;
        text.parse(&app, |text| Ok(state_bytes(&form::<Raw>(text)?)?)).await?
    };
    let write = StateWrite::put(key, value, version);
    write_one(&app, &asking, &headers, how.branch, space, write).await
}

/// Deletes a key's state if the version is newer than the key's; the version is remembered.
#[utoipa::path(
    delete, path = "/v1/spaces/{space}/states/{key}", tag = "keyed", operation_id = "delete_state",
    params(
        ("space" = String, Path, description = "The space; a slash in it is %2F"),
        ("key" = String, Path, description = "The key; a slash in it is %2F, bytes that are no text are `$bytes:` and base64"),
        WriteArguments,
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes; versions do as much"),
    ),
    responses(
        (status = 200, description = "What became of it", body = WroteOne),
        (status = 400, description = "No version, or one of the other kind", body = Problem),
    )
)]
pub(crate) async fn delete(
    State(app): State<Http>,
    asking: Asking,
    NamedState(space, key): NamedState,
    Asked(how): Asked<WriteArguments>,
    headers: HeaderMap,
) -> Answered<Json<WroteOne>> {
    let write = StateWrite::delete(key, how.version()?);
    write_one(&app, &asking, &headers, how.branch, space, write).await
}

/// Several writes to one space, one behind the other, all or none.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/states", tag = "keyed", operation_id = "write_states",
    params(
        ("space" = String, Path, description = "The space; a slash in it is %2F"), OnBranch,
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes; versions do as much"),
    ),
    request_body = Vec<WriteForm>,
    responses(
        (status = 200, description = "What became of each", body = WroteAll),
        (status = 400, description = "A write that makes no sense; `position` names it", body = Problem),
        (status = 413, description = "They are too much for one transaction", body = Problem),
    )
)]
pub(crate) async fn write(
    State(app): State<Http>,
    asking: Asking,
    Named(space): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<WroteAll>> {
    let space = Name::new(&space)?;
    let body = Text::read(&app, &headers, body, app.settings().transaction_limit_bytes).await?;
    let (writes, _room) = body.parse(&app, said).await?;
    let command = StateCommand::Write { space, writes };
    let (all, revision, repeated) =
        write_each(&app, &asking, &headers, place.branch.as_deref(), command).await?;
    let bytes = all.len() * WROTE_BYTES;
    let encode = move || {
        Ok(Json::of(WroteAll { wrote: all.into_iter().map(wrote).collect(), revision, repeated }))
    };
    app.sized(bytes, done_without_answer, encode).await
}

/// The approximate JSON size of one outcome.
const WROTE_BYTES: usize = 12;

/// Parses the writes of a body.
fn said(text: &str) -> Answered<Vec<StateWrite>> {
    let one = |(position, said): (usize, WriteForm)| {
        said.write().map_err(|error| error.at_position(position))
    };
    let all: Vec<WriteForm> = form(text)?;
    Ok(all.into_iter().enumerate().map(one).collect::<Result<_>>()?)
}

/// Which items are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemArguments {
    /// Only items behind the one of this id.
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

/// A page of items.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ItemPage {
    /// In the order of their ids.
    items: Vec<ItemForm>,
    /// Pass this as `after` for what follows; null where there was none.
    next: Option<String>,
}

/// Items of a key's log in the order of their ids. A page ends early where it becomes large.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/items/{key}", tag = "keyed", operation_id = "list_items",
    params(
        ("space" = String, Path, description = "The space; a slash in it is %2F"),
        ("key" = String, Path, description = "The key; a slash in it is %2F, bytes that are no text are `$bytes:` and base64"),
        ItemArguments,
    ),
    responses(
        (status = 200, description = "A page of items", body = ItemPage),
        (status = 400, description = "A limit of zero or above 100,000", body = Problem),
    )
)]
pub(crate) async fn items(
    State(app): State<Http>,
    NamedState(space, key): NamedState,
    Asked(asked): Asked<ItemArguments>,
) -> Answered<Json<ItemPage>> {
    let after = asked.after.as_deref().map(key_of).transpose()?;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let command = StateCommand::Items { space, key, after, limit };
    let at = point(asked.rev, asked.at)?;
    let encode = move |answer| {
        let StateAnswer::Items(items) = answer else { return Err(Refusal::lost()) };
        let next = items.last().map(|item| shown_key(&item.id)).or(asked.after);
        Ok(Json::of(ItemPage { items: items.into_iter().map(ItemForm::from).collect(), next }))
    };
    read_state(&app, asked.branch, at, command, encode).await
}

/// An item of a log.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewItem {
    /// What tells it from others.
    id: String,
    /// The item: a string, or {"$bytes": base64}; other JSON as its text.
    #[schema(value_type = serde_json::Value)]
    item: Raw,
}

/// Adds an item to a key's log, unless the log has one of this id.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/items/{key}", tag = "keyed", operation_id = "append_item", request_body = NewItem,
    params(
        ("space" = String, Path, description = "The space; a slash in it is %2F"),
        ("key" = String, Path, description = "The key; a slash in it is %2F, bytes that are no text are `$bytes:` and base64"),
        OnBranch,
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes; ids do as much"),
    ),
    responses((status = 200, description = "`applied`, or `stale` where the log has one of this id", body = WroteOne))
)]
pub(crate) async fn append(
    State(app): State<Http>,
    asking: Asking,
    NamedState(space, key): NamedState,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<WroteOne>> {
    let NewItem { id, item } = small_form(&app, &headers, body).await?;
    let write = StateWrite::append(key, key_of(&id)?, state_bytes(&item)?);
    write_one(&app, &asking, &headers, place.branch, space, write).await
}
