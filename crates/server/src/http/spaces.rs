//! Routes for spaces of keyed state: list, declare, inspect, seal, drop.
//!
//! ```text
//!   path, query --> a read command, at present or at a past revision --> JSON
//!   path, body  --> one step, one transaction --> its outcome; seal: as many transactions as needed
//! ```
//!
//! A space's name is one path segment: a slash in it is written as %2F.

use super::Http;
use super::access::Asking;
use super::branches::{Removed, removed};
use super::cells::{ListArguments, OnBranch};
use super::extract::{Asked, Named, Text, point, small_form};
use super::forms::{DeclareForm, PageForm, SpaceForm, VersionForm, WaitingForm, check_place};
use super::job_reads::Moment;
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{Answer, At, MAIN, Name, Receipt, StateAnswer, StateCommand, Transaction, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// The number of entries that one transaction seals.
const SEAL_PIECE: usize = 10_000;

/// Spaces in byte order of their names.
#[utoipa::path(
    get, path = "/v1/spaces", tag = "keyed", operation_id = "list_spaces", params(ListArguments),
    responses(
        (status = 200, description = "A page of names", body = PageForm),
        (status = 400, description = "A limit of zero or above 100,000", body = Problem),
    )
)]
pub(crate) async fn list(
    State(app): State<Http>,
    Asked(asked): Asked<ListArguments>,
) -> Answered<Json<PageForm>> {
    check_place(&asked.prefix, asked.after.as_deref())?;
    let prefix = asked.prefix;
    let after = asked.after;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let command = StateCommand::Spaces { prefix, after, limit };
    let encode = |answer| match answer {
        Answer::Names(page) => Ok(Json::of(page.into())),
        _ => Err(Refusal::lost()),
    };
    read(&app, asked.branch, point(asked.rev, asked.at)?, command, encode).await
}

/// Executes a read command, at present or at a past revision, and encodes its answer.
async fn read<T: Send + 'static>(
    app: &Http,
    branch: Option<String>,
    at: At,
    command: StateCommand,
    encode: impl FnOnce(Answer) -> Answered<T> + Send + 'static,
) -> Answered<T> {
    let db = app.db().clone();
    app.slowly(move || {
        let branch = branch.as_deref().unwrap_or(MAIN);
        let command = command.into();
        let answer = match at {
            At::Latest => {
                let (answers, _) = db.look(branch, &[command])?;
                answers.into_iter().next().ok_or_else(Refusal::lost)?
            }
            at => db.moment(branch, at)?.answer(&command)?,
        };
        encode(answer)
    })
    .await
}

/// Like `read`, for commands whose answer is a `StateAnswer`.
pub(super) async fn read_state<T: Send + 'static>(
    app: &Http,
    branch: Option<String>,
    at: At,
    command: StateCommand,
    encode: impl FnOnce(StateAnswer) -> Answered<T> + Send + 'static,
) -> Answered<T> {
    let encode = |answer| match answer {
        Answer::State(answer) => encode(*answer),
        _ => Err(Refusal::lost()),
    };
    read(app, branch, at, command, encode).await
}

/// Extracts the keyed-state answer from a receipt.
pub(super) fn answered(receipt: Receipt) -> Answered<StateAnswer> {
    match receipt.answers.into_iter().next() {
        Some(Answer::State(answer)) => Ok(*answer),
        _ => Err(Refusal::foreign(receipt.repeated)),
    }
}

/// What is known of a space.
#[utoipa::path(
    get, path = "/v1/spaces/{space}", tag = "keyed", operation_id = "get_space",
    params(("space" = String, Path, description = "The space; a slash in it is %2F"), Moment),
    responses(
        (status = 200, description = "How it is declared, and its frontier", body = SpaceForm),
        (status = 404, description = "There is, or was, no such space", body = Problem),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
    )
)]
pub(crate) async fn info(
    State(app): State<Http>,
    Named(space): Named,
    Asked(moment): Asked<Moment>,
) -> Answered<Json<SpaceForm>> {
    let space = Name::new(&space)?;
    let at = point(moment.rev, moment.at)?;
    let command = StateCommand::Info { space: space.clone() };
    let encode = move |answer| match answer {
        StateAnswer::Info(Some(info)) => Ok(Json::of(info.into())),
        StateAnswer::Info(None) => Err(no_space(&space)),
        _ => Err(Refusal::lost()),
    };
    read_state(&app, moment.branch, at, command, encode).await
}

/// 404 for a space that does not exist.
#[cold]
pub(super) fn no_space(space: &Name) -> Refusal {
    Refusal::not_found("SpaceNotFound", format!("there is no space {:?}", space.as_str()))
}

/// What became of a declaration.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Declared {
    /// Whether the space is new.
    created: bool,
    /// The transaction's revision.
    revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// Declares a space. One that is there has to be declared the same; one that is not declared is so by its first write.
#[utoipa::path(
    put, path = "/v1/spaces/{space}", tag = "keyed", operation_id = "declare_space", request_body = DeclareForm,
    params(
        ("space" = String, Path, description = "The space; a slash in it is %2F"), OnBranch,
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses(
        (status = 200, description = "It is declared", body = Declared),
        (status = 409, description = "It is there, and declared otherwise", body = Problem),
    )
)]
pub(crate) async fn declare(
    State(app): State<Http>,
    asking: Asking,
    Named(space): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<Declared>> {
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let form: DeclareForm = body.form_or_default(&app).await?;
    let command = form.at(Name::new(&space)?)?;
    let receipt = app.execute(&asking, &headers, place.branch.as_deref(), [command]).await?;
    let Receipt { revision, repeated, .. } = receipt;
    match receipt.answers.first() {
        Some(&Answer::Did(created)) => Ok(Json::of(Declared { created, revision, repeated })),
        _ => Err(Refusal::foreign(repeated)),
    }
}

/// Removes a space and everything in it.
#[utoipa::path(
    delete, path = "/v1/spaces/{space}", tag = "keyed", operation_id = "drop_space",
    params(
        ("space" = String, Path, description = "The space; a slash in it is %2F"), OnBranch,
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses((status = 200, description = "It is gone", body = Removed))
)]
pub(crate) async fn drop(
    State(app): State<Http>,
    asking: Asking,
    Named(space): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
) -> Answered<Json<Removed>> {
    let command = StateCommand::Drop { space: Name::new(&space)? };
    removed(app.execute(&asking, &headers, place.branch.as_deref(), [command]).await?)
}

/// How far versions are closed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Frontier {
    /// The lowest version that is still open.
    frontier: VersionForm,
}

/// What sealing did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Sealed {
    /// How many writes had waited.
    settled: u64,
    /// The revision of the last transaction.
    revision: u64,
}

/// Closes all versions below a frontier: what waited with one of them is applied, in order. It takes as many
/// transactions as it needs; whoever is cut off seals again.
#[utoipa::path(
    post, path = "/v1/spaces/{space}/seal", tag = "keyed", operation_id = "seal_space", request_body = Frontier,
    params(("space" = String, Path, description = "The space; a slash in it is %2F"), OnBranch),
    responses(
        (status = 200, description = "The frontier is there", body = Sealed),
        (status = 400, description = "The frontier is a version of the other kind", body = Problem),
        (status = 409, description = "What waits has to be merged first, by whoever has the function", body = Problem),
    )
)]
pub(crate) async fn seal(
    State(app): State<Http>,
    asking: Asking,
    Named(space): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<Sealed>> {
    let form: Frontier = small_form(&app, &headers, body).await?;
    let space = Name::new(&space)?;
    let frontier = form.frontier.version()?;
    let mut settled = 0;
    loop {
        let (piece, done) =
            seal_piece(&app, &asking, place.branch.as_deref(), &space, frontier).await?;
        settled += piece.settled;
        if done {
            return Ok(Json::of(Sealed { settled, ..piece }));
        }
    }
}

/// Seals one piece in one transaction. Also returns whether the seal is complete.
async fn seal_piece(
    app: &Http,
    asking: &Asking,
    branch: Option<&str>,
    space: &Name,
    frontier: Version,
) -> Answered<(Sealed, bool)> {
    let command = StateCommand::Seal { space: space.clone(), frontier, limit: SEAL_PIECE };
    let transaction = Transaction::on(branch.unwrap_or(MAIN)).step(command);
    let receipt = app.write(asking, transaction).await?;
    let revision = receipt.revision;
    match answered(receipt)? {
        StateAnswer::Sealed { settled, done } => Ok((Sealed { settled, revision }, done)),
        _ => Err(Refusal::lost()),
    }
}

/// How far sources were read.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Positions {
    /// By their names.
    positions: BTreeMap<String, u64>,
}

/// How far sources were read and sinks written.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/positions", tag = "keyed", operation_id = "get_positions",
    params(("space" = String, Path, description = "The space; a slash in it is %2F"), Moment),
    responses((status = 200, description = "Sources and positions", body = Positions))
)]
pub(crate) async fn positions(
    State(app): State<Http>,
    Named(space): Named,
    Asked(moment): Asked<Moment>,
) -> Answered<Json<Positions>> {
    let command = StateCommand::Positions { space: Name::new(&space)? };
    let at = point(moment.rev, moment.at)?;
    let encode = |answer| match answer {
        StateAnswer::Positions(all) => {
            Ok(Json::of(Positions { positions: all.into_iter().collect() }))
        }
        _ => Err(Refusal::lost()),
    };
    read_state(&app, moment.branch, at, command, encode).await
}

/// Which writes that wait are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitingArguments {
    /// Only versions below this one: a whole number, or epoch.round.
    below: Option<String>,
    /// At most this many; 1,000 without it, 100,000 at most.
    limit: Option<usize>,
    /// The branch; `main` without it.
    branch: Option<String>,
    /// The state as of this revision.
    rev: Option<u64>,
    /// The state as of this stamp, in microseconds.
    at: Option<u64>,
}

/// Writes that wait.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Waiting {
    /// In order of their versions, then of their keys.
    waiting: Vec<WaitingForm>,
}

/// Writes that wait until their versions are sealed.
#[utoipa::path(
    get, path = "/v1/spaces/{space}/waiting", tag = "keyed", operation_id = "list_waiting",
    params(("space" = String, Path, description = "The space; a slash in it is %2F"), WaitingArguments),
    responses((status = 200, description = "The first of them", body = Waiting))
)]
pub(crate) async fn waiting(
    State(app): State<Http>,
    Named(space): Named,
    Asked(asked): Asked<WaitingArguments>,
) -> Answered<Json<Waiting>> {
    let below = asked.below.as_deref().map(str::parse).transpose()?;
    let space = Name::new(&space)?;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let command = StateCommand::Waiting { space, below, limit };
    let at = point(asked.rev, asked.at)?;
    let encode = |answer| match answer {
        StateAnswer::Waiting(all) => {
            Ok(Json::of(Waiting { waiting: all.into_iter().map(WaitingForm::from).collect() }))
        }
        _ => Err(Refusal::lost()),
    };
    read_state(&app, asked.branch, at, command, encode).await
}
