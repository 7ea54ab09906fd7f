//! Routes for the outbox: put, claim, acknowledge, fail and replay messages.

use super::Http;
use super::access::Asking;
use super::cells::OnBranch;
use super::extract::{Asked, Named, Text, outbox_of, small_form};
use super::forms::{
    AckMessagesForm, ClaimMessagesForm, FailMessageForm, MessageForm, OutboxForm, PutMessageForm,
    UndeliveredForm,
};
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{Answer, Message, OutboxAnswer, OutboxCommand, Receipt};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

async fn write(
    app: &Http,
    asking: &Asking,
    headers: &HeaderMap,
    branch: Option<String>,
    command: OutboxCommand,
) -> Answered<Receipt> {
    app.execute(asking, headers, branch.as_deref(), [command]).await
}

/// Executes a read command and encodes its answer.
async fn read<T: Send + 'static>(
    app: &Http,
    branch: Option<String>,
    command: OutboxCommand,
    encode: impl FnOnce(OutboxAnswer) -> Answered<T> + Send + 'static,
) -> Answered<T> {
    let db = app.db().clone();
    app.slowly(move || encode(outbox_of(&db, branch.as_deref())?.read(command)?)).await
}

/// Extracts the outbox answer from a receipt.
fn answered(receipt: Receipt) -> Answered<OutboxAnswer> {
    match receipt.answers.into_iter().next() {
        Some(Answer::Outbox(answer)) => Ok(*answer),
        _ => Err(Refusal::foreign(receipt.repeated)),
    }
}

/// Messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessagesForm {
    /// In the order in which they are to be sent.
    messages: Vec<MessageForm>,
    /// Of a claim: what names its lease, to be said with `ack` and `fail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
}

impl MessagesForm {
    fn of(messages: Vec<Message>, token: Option<u64>) -> Json<MessagesForm> {
        let messages = messages.into_iter().map(MessageForm::from).collect();
        Json::of(MessagesForm { messages, token })
    }
}

/// The number of a message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PutForm {
    /// Those written later have higher ones.
    id: u64,
}

/// Writes a message to be sent. To write it with something else is `put_message` in a transaction.
#[utoipa::path(
    post, path = "/v1/outbox", tag = "outbox", operation_id = "put_message", request_body = PutMessageForm,
    params(OnBranch, ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes")),
    responses(
        (status = 200, description = "It waits to be sent", body = PutForm),
        (status = 400, description = "A subject that makes no sense", body = Problem),
        (status = 413, description = "It is too large", body = Problem),
    )
)]
pub(crate) async fn put(
    State(app): State<Http>,
    asking: Asking,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<PutForm>> {
    let form: PutMessageForm = small_form(&app, &headers, body).await?;
    let receipt = write(&app, &asking, &headers, place.branch, form.command()?).await?;
    let repeated = receipt.repeated;
    match answered(receipt)? {
        OutboxAnswer::Put(id) => Ok(Json::of(PutForm { id })),
        _ => Err(Refusal::foreign(repeated)),
    }
}

/// Takes messages that wait, the longest waiting first; nobody else gets them while the lease lasts.
#[utoipa::path(
    post, path = "/v1/outbox/claim", tag = "outbox", operation_id = "claim_messages", request_body = ClaimMessagesForm,
    params(OnBranch, ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes: asking again gives the same messages")),
    responses(
        (status = 200, description = "The messages; none where none is due", body = MessagesForm),
        (status = 400, description = "A limit of zero or above 1,000, or a lease that makes no sense", body = Problem),
    )
)]
pub(crate) async fn claim(
    State(app): State<Http>,
    asking: Asking,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<MessagesForm>> {
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let form: ClaimMessagesForm = body.form_or_default(&app).await?;
    let command = form.command(&app.settings().outbox);
    let receipt = write(&app, &asking, &headers, place.branch, command).await?;
    let Receipt { stamp, repeated, .. } = receipt;
    let encode = move |receipt| match answered(receipt)? {
        OutboxAnswer::Messages(messages) => Ok(MessagesForm::of(messages, Some(stamp))),
        _ => Err(Refusal::foreign(repeated)),
    };
    app.answer(receipt, encode).await
}

/// How many messages went.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AckedForm {
    /// So many of them were there.
    acked: u64,
}

/// Messages were delivered: they go.
#[utoipa::path(
    post, path = "/v1/outbox/ack", tag = "outbox", operation_id = "ack_messages", request_body = AckMessagesForm,
    params(OnBranch, ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes")),
    responses(
        (status = 200, description = "How many of them were there", body = AckedForm),
        (status = 409, description = "One of them is no longer held with this token", body = Problem),
    )
)]
pub(crate) async fn ack(
    State(app): State<Http>,
    asking: Asking,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<AckedForm>> {
    let form: AckMessagesForm = small_form(&app, &headers, body).await?;
    let receipt = write(&app, &asking, &headers, place.branch, form.command()).await?;
    match receipt.answers.first() {
        Some(&Answer::Count(acked)) => Ok(Json::of(AckedForm { acked })),
        _ => Err(Refusal::foreign(receipt.repeated)),
    }
}

/// A message could not be delivered: it waits, longer each time, or after so many tries is dead.
#[utoipa::path(
    post, path = "/v1/outbox/fail", tag = "outbox", operation_id = "fail_message", request_body = FailMessageForm,
    params(OnBranch, ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes")),
    responses(
        (status = 200, description = "What became of it", body = UndeliveredForm),
        (status = 400, description = "No tries, or a back-off of more than a day", body = Problem),
        (status = 409, description = "It is no longer held with this token", body = Problem),
    )
)]
pub(crate) async fn fail(
    State(app): State<Http>,
    asking: Asking,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<UndeliveredForm>> {
    let form: FailMessageForm = small_form(&app, &headers, body).await?;
    let command = form.command(&app.settings().outbox);
    let receipt = write(&app, &asking, &headers, place.branch, command).await?;
    let repeated = receipt.repeated;
    match answered(receipt)? {
        OutboxAnswer::Failed(failed) => Ok(Json::of(failed.into())),
        _ => Err(Refusal::foreign(repeated)),
    }
}

/// How the outbox stands.
#[utoipa::path(
    get, path = "/v1/outbox", tag = "outbox", operation_id = "look_at_outbox", params(OnBranch),
    responses((status = 200, description = "How many messages there are", body = OutboxForm))
)]
pub(crate) async fn look(
    State(app): State<Http>,
    Asked(place): Asked<OnBranch>,
) -> Answered<Json<OutboxForm>> {
    let encode = |answer| match answer {
        OutboxAnswer::State(state) => Ok(Json::of(state.into())),
        _ => Err(Refusal::lost()),
    };
    read(&app, place.branch, OutboxCommand::Look, encode).await
}

/// Which dead messages are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadArguments {
    /// Only those behind this one.
    #[serde(default)]
    #[param(required = false)]
    after: u64,
    /// At most this many; 1,000 without it, 100,000 at most.
    limit: Option<usize>,
    /// The branch; `main` without it.
    branch: Option<String>,
}

/// Messages that were given up, the oldest first.
#[utoipa::path(
    get, path = "/v1/outbox/dead", tag = "outbox", operation_id = "dead_messages", params(DeadArguments),
    responses(
        (status = 200, description = "The messages, with why they failed", body = MessagesForm),
        (status = 400, description = "A limit of zero or above 100,000", body = Problem),
    )
)]
pub(crate) async fn dead(
    State(app): State<Http>,
    Asked(asked): Asked<DeadArguments>,
) -> Answered<Json<MessagesForm>> {
    let after = asked.after;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let encode = |answer| match answer {
        OutboxAnswer::Messages(messages) => Ok(MessagesForm::of(messages, None)),
        _ => Err(Refusal::lost()),
    };
    read(&app, asked.branch, OutboxCommand::Dead { after, limit }, encode).await
}

/// What was replayed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayedForm {
    /// Whether the message was dead and waits now.
    replayed: bool,
}

/// Makes a dead message wait again, with all its tries.
#[utoipa::path(
    post, path = "/v1/outbox/dead/{id}/replay", tag = "outbox", operation_id = "replay_message",
    params(
        ("id" = u64, Path, description = "Its number"), OnBranch,
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses((status = 200, description = "Whether it was dead", body = ReplayedForm))
)]
pub(crate) async fn replay(
    State(app): State<Http>,
    asking: Asking,
    Named(id): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
) -> Answered<Json<ReplayedForm>> {
    let id =
        id.parse().map_err(|_| Refusal::invalid(format!("{id:?} is no number of a message")))?;
    let command = OutboxCommand::Replay { id };
    let receipt = write(&app, &asking, &headers, place.branch, command).await?;
    match receipt.answers.first() {
        Some(&Answer::Did(replayed)) => Ok(Json::of(ReplayedForm { replayed })),
        _ => Err(Refusal::foreign(receipt.repeated)),
    }
}
