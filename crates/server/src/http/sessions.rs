//! Routes for sessions: open, keep alive, close; requests from the server to a session's client, and their
//! acknowledgement.
//!
//! ```text
//!   POST /v1/sessions --> id, next_request
//!   any route that writes, with Mainstay-Session: id and Idempotency-Key: number --> exactly once
//!   POST /v1/sessions/{id}/requests --> GET …/requests --> POST …/acknowledge
//! ```
//!
//! A session's id is one path segment: a slash in it is written as %2F.

use super::Http;
use super::access::Asking;
use super::answers::no_memory;
use super::branches::{Removed, removed};
use super::extract::{Asked, Named, Text, small_form};
use super::forms::{
    LetterForm, LettersForm, OpenSessionForm, OpenedForm, Raw, RetryForm, SessionPageForm, letters,
    sending,
};
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use super::work::weight_bytes;
use crate::sessions::Told;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{Answer, Name, Receipt, SessionAnswer, SessionCommand, Transaction};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Executes a command that cannot itself be a request of a session.
async fn run(app: &Http, asking: &Asking, command: SessionCommand) -> Answered<Receipt> {
    command.check()?;
    app.write(asking, Transaction::new().step(command)).await
}

/// Executes such a command and encodes its session answer.
async fn ask<T: Send + 'static>(
    app: &Http,
    asking: &Asking,
    command: SessionCommand,
    encode: impl FnOnce(SessionAnswer) -> Answered<T> + Send + 'static,
) -> Answered<T> {
    let is_read = command.reads();
    let receipt = run(app, asking, command).await?;
    let encode = |receipt| encode(answered(receipt)?);
    if is_read {
        app.sized(weight_bytes(&receipt), no_memory, || encode(receipt)).await
    } else {
        app.answer(receipt, encode).await
    }
}

/// Executes a command that can be a request of a session.
async fn write(
    app: &Http,
    asking: &Asking,
    headers: &HeaderMap,
    command: SessionCommand,
) -> Answered<Receipt> {
    command.check()?;
    app.execute(asking, headers, None, [command]).await
}

fn answered(receipt: Receipt) -> Answered<SessionAnswer> {
    match receipt.answers.into_iter().next() {
        Some(Answer::Session(answer)) => Ok(*answer),
        _ => Err(Refusal::foreign(receipt.repeated)),
    }
}

/// Opens a session, or finds the one of this id; its lease begins anew. `next_request` is the number to go on with.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", operation_id = "open_session", request_body = OpenSessionForm,
    responses(
        (status = 200, description = "It is open", body = OpenedForm),
        (status = 400, description = "An id, a lease or capabilities that make no sense", body = Problem),
        (status = 413, description = "There are as many sessions as there may be", body = Problem),
    )
)]
pub(crate) async fn open(
    State(app): State<Http>,
    asking: Asking,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<OpenedForm>> {
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let form: OpenSessionForm = body.form_or_default(&app).await?;
    let encode = |answer| match answer {
        SessionAnswer::Opened { info, created, .. } => Ok(Json::of(OpenedForm::of(info, created))),
        _ => Err(Refusal::lost()),
    };
    ask(&app, &asking, form.command()?, encode).await
}

/// Which sessions are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArguments {
    /// Only those behind this one.
    after: Option<String>,
    /// At most this many; 1,000 without it, 100,000 at most.
    limit: Option<usize>,
}

/// Sessions that live, in the order of their ids.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", operation_id = "list_sessions", params(ListArguments),
    responses(
        (status = 200, description = "A page of them", body = SessionPageForm),
        (status = 400, description = "A limit of zero or above 100,000", body = Problem),
    )
)]
pub(crate) async fn list(
    State(app): State<Http>,
    asking: Asking,
    Asked(asked): Asked<ListArguments>,
) -> Answered<Json<SessionPageForm>> {
    let after = asked.after;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let encode = |answer| match answer {
        SessionAnswer::List(page) => Ok(Json::of(page.into())),
        _ => Err(Refusal::lost()),
    };
    ask(&app, &asking, SessionCommand::List { after, limit }, encode).await
}

/// What is known of a session.
#[utoipa::path(
    get, path = "/v1/sessions/{session}", tag = "sessions", operation_id = "get_session",
    params(("session" = String, Path, description = "The session; a slash in it is %2F")),
    responses(
        (status = 200, description = "What is known of it", body = Told),
        (status = 404, description = "There is no such session, or its lease is over", body = Problem),
    )
)]
pub(crate) async fn info(
    State(app): State<Http>,
    asking: Asking,
    Named(session): Named,
) -> Answered<Json<Told>> {
    let command = SessionCommand::Info { session: Name::new(&session)? };
    let encode = move |answer| match answer {
        SessionAnswer::Info(Some(info)) => Ok(Json::of(info.into())),
        SessionAnswer::Info(None) => {
            let message = format!("there is no session {session:?}, or its lease is over");
            Err(Refusal::not_found("SessionNotFound", message))
        }
        _ => Err(Refusal::lost()),
    };
    ask(&app, &asking, command, encode).await
}

/// Ends a session: its answers and what waits for its client go.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}", tag = "sessions", operation_id = "close_session",
    params(("session" = String, Path, description = "The session; a slash in it is %2F")),
    responses((status = 200, description = "It is gone", body = Removed))
)]
pub(crate) async fn close(
    State(app): State<Http>,
    asking: Asking,
    Named(session): Named,
) -> Answered<Json<Removed>> {
    let command = SessionCommand::Close { session: Name::new(&session)?, epoch: 0 };
    removed(run(&app, &asking, command).await?)
}

/// What the client has got.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AliveForm {
    /// The lowest request whose answer the client has not got, or the next one: answers below go. 0 says nothing.
    #[serde(default)]
    lowest: u64,
}

/// A session that lives on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Alive {
    /// Its lease began anew.
    alive: bool,
}

/// Says that the client is there.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/keep-alive", tag = "sessions", operation_id = "keep_session_alive",
    request_body = AliveForm,
    params(("session" = String, Path, description = "The session; a slash in it is %2F")),
    responses(
        (status = 200, description = "Its lease begins anew", body = Alive),
        (status = 410, description = "There is no such session, or its lease is over", body = Problem),
    )
)]
pub(crate) async fn keep_alive(
    State(app): State<Http>,
    asking: Asking,
    Named(session): Named,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<Alive>> {
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let AliveForm { lowest } = body.form_or_default(&app).await?;
    let command = SessionCommand::KeepAlive {
        session: Name::new(&session)?,
        lowest_pending: lowest,
        epoch: 0,
    };
    run(&app, &asking, command).await?;
    Ok(Json::of(Alive { alive: true }))
}

/// What is sent.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendForm {
    /// A string as it is, bytes as {"$bytes": base64}, anything else as its JSON text.
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Raw>,
}

/// What was sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Sent {
    /// Its number in the session; null where there is no such session, and nothing was sent.
    number: Option<u64>,
    /// Its number on the branch, where it is kept until that is merged into `main`; not there where it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<u64>,
    /// The transaction's revision.
    revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// Sends a request to a session's client. To send it with something else is `send_request` in a transaction.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/requests", tag = "sessions", operation_id = "send_request", request_body = SendForm,
    params(
        ("session" = String, Path, description = "The session; a slash in it is %2F"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses(
        (status = 200, description = "It waits for the client, or there is none", body = Sent),
        (status = 413, description = "It is too large, or too much waits already", body = Problem),
    )
)]
pub(crate) async fn send(
    State(app): State<Http>,
    asking: Asking,
    Named(session): Named,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<Sent>> {
    let form: SendForm = small_form(&app, &headers, body).await?;
    let command = sending(Name::new(&session)?, form.payload)?;
    let receipt = write(&app, &asking, &headers, command).await?;
    let Receipt { revision, repeated, .. } = receipt;
    match answered(receipt)? {
        SessionAnswer::Sent(number) => {
            Ok(Json::of(Sent { number, kept: None, revision, repeated }))
        }
        SessionAnswer::Kept(kept) => {
            Ok(Json::of(Sent { number: None, kept: Some(kept), revision, repeated }))
        }
        _ => Err(Refusal::foreign(repeated)),
    }
}

/// Which requests are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PendingArguments {
    /// Only those behind this number.
    #[serde(default)]
    #[param(required = false)]
    after: u64,
    /// At most this many; 1,000 without it, 100,000 at most.
    limit: Option<usize>,
}

/// What a session's client has not acknowledged.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/requests", tag = "sessions", operation_id = "pending_requests",
    params(("session" = String, Path, description = "The session; a slash in it is %2F"), PendingArguments),
    responses(
        (status = 200, description = "In the order of their numbers", body = LettersForm),
        (status = 410, description = "There is no such session, or its lease is over", body = Problem),
    )
)]
pub(crate) async fn pending(
    State(app): State<Http>,
    asking: Asking,
    Named(session): Named,
    Asked(asked): Asked<PendingArguments>,
) -> Answered<Json<LettersForm>> {
    let after = asked.after;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let command = SessionCommand::Pending { session: Name::new(&session)?, after, limit, epoch: 0 };
    let encode = |answer| match answer {
        SessionAnswer::Pending { requests, more } => Ok(Json::of(LettersForm::of(requests, more))),
        _ => Err(Refusal::lost()),
    };
    ask(&app, &asking, command, encode).await
}

/// What the client has done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UptoForm {
    /// All requests up to this number; beyond the last: all.
    upto: u64,
}

/// What was acknowledged.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Acknowledged {
    /// How many requests that were.
    acknowledged: u64,
    /// The transaction's revision.
    revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// The client has done all requests up to a number: they go.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/acknowledge", tag = "sessions", operation_id = "acknowledge_requests",
    request_body = UptoForm,
    params(
        ("session" = String, Path, description = "The session; a slash in it is %2F"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses(
        (status = 200, description = "How many that were", body = Acknowledged),
        (status = 410, description = "There is no such session, or its lease is over", body = Problem),
    )
)]
pub(crate) async fn acknowledge(
    State(app): State<Http>,
    asking: Asking,
    Named(session): Named,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<Acknowledged>> {
    let UptoForm { upto } = small_form(&app, &headers, body).await?;
    let command = SessionCommand::Acknowledge { session: Name::new(&session)?, upto, epoch: 0 };
    let receipt = write(&app, &asking, &headers, command).await?;
    let Receipt { revision, repeated, .. } = receipt;
    match receipt.answers.first() {
        Some(&Answer::Count(acknowledged)) => {
            Ok(Json::of(Acknowledged { acknowledged, revision, repeated }))
        }
        _ => Err(Refusal::foreign(repeated)),
    }
}

/// What is to be sent again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Retried {
    /// The longest waiting first.
    requests: Vec<LetterForm>,
}

/// What was sent before a moment, to any session, and is not acknowledged. It counts as sent now.
#[utoipa::path(
    post, path = "/v1/session-retries", tag = "sessions", operation_id = "retry_requests", request_body = RetryForm,
    responses(
        (status = 200, description = "What whoever delivers it sends again", body = Retried),
        (status = 400, description = "A limit of zero or above 100,000", body = Problem),
    )
)]
pub(crate) async fn retry(
    State(app): State<Http>,
    asking: Asking,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<Retried>> {
    let form: RetryForm = small_form(&app, &headers, body).await?;
    let encode = |answer| match answer {
        SessionAnswer::Retry(requests) => Ok(Json::of(Retried { requests: letters(requests) })),
        _ => Err(Refusal::lost()),
    };
    ask(&app, &asking, form.command(), encode).await
}
