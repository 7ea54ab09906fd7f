//! Routes for runs: append events, create, delete, read, list.
//!
//! ```text
//!   path, body --> events of one run --> a step each, one transaction --> the outcome of each
//!   path, query --> a read command, at present or at a past revision --> JSON
//! ```
//!
//! A run's name is one path segment: a slash in it is written as %2F.

use super::Http;
use super::access::Asking;
use super::branches::{Removed, removed};
use super::cells::OnBranch;
use super::extract::{Asked, Named, Text, form, point, runs_of};
use super::forms::{
    AlertForm, AppendedForm, BootstrapForm, EventsForm, Raw, RunForm, RunPageForm, SnapshotForm,
    append, check_place, event_of, status_of,
};
use super::job_reads::Moment;
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{Answer, At, Name, NewEvent, Receipt, Result, RunAnswer, RunCommand, RunFilter};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which runs are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArguments {
    /// Only names that begin with this: a tenant's, for example.
    #[serde(default)]
    #[param(required = false)]
    prefix: String,
    /// Only those that stand here: PENDING, APPROVED, RUNNING, PAUSED, COMPLETED, FAILED or CANCELLED.
    status: Option<String>,
    /// Only those made at this stamp or later, in microseconds.
    created_from: Option<u64>,
    /// Only those made before this stamp.
    created_before: Option<u64>,
    /// Only those whose last event came at this stamp or later.
    updated_from: Option<u64>,
    /// Only those whose last event came before this stamp.
    updated_before: Option<u64>,
    /// Only runs behind this one.
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

/// Runs in byte order of their names, with filters.
#[utoipa::path(
    get, path = "/v1/runs", tag = "runs", operation_id = "list_runs", params(ListArguments),
    responses(
        (status = 200, description = "A page of runs", body = RunPageForm),
        (status = 400, description = "A limit of zero or above 100,000, or a status that there is not", body = Problem),
    )
)]
pub(crate) async fn list(
    State(app): State<Http>,
    Asked(asked): Asked<ListArguments>,
) -> Answered<Json<RunPageForm>> {
    check_place(&asked.prefix, asked.after.as_deref())?;
    let filter = RunFilter {
        prefix: asked.prefix,
        status: status_of(asked.status.as_deref())?,
        created_from: asked.created_from,
        created_before: asked.created_before,
        updated_from: asked.updated_from,
        updated_before: asked.updated_before,
    };
    let after = asked.after;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let command = RunCommand::List { filter, after, limit };
    let at = point(asked.rev, asked.at)?;
    let encode = |answer| match answer {
        RunAnswer::Runs(page) => Ok(Json::of(page.into())),
        _ => Err(Refusal::lost()),
    };
    read(&app, asked.branch, at, command, encode).await
}

/// Executes a read command, at present or at a past revision, and encodes its answer.
async fn read<T: Send + 'static>(
    app: &Http,
    branch: Option<String>,
    at: At,
    command: RunCommand,
    encode: impl FnOnce(RunAnswer) -> Answered<T> + Send + 'static,
) -> Answered<T> {
    let db = app.db().clone();
    app.slowly(move || {
        let runs = runs_of(&db, branch.as_deref())?;
        encode(match at {
            At::Latest => runs.read(command)?,
            at => runs.at(at)?.read(command)?,
        })
    })
    .await
}

fn absent(run: &Name) -> Refusal {
    Refusal::not_found("RunNotFound", format!("there is no run {:?}", run.as_str()))
}

/// What is known of a run.
#[utoipa::path(
    get, path = "/v1/runs/{run}", tag = "runs", operation_id = "get_run",
    params(("run" = String, Path, description = "The run; a slash in it is %2F"), Moment),
    responses(
        (status = 200, description = "Where it stands, and what it was made with", body = RunForm),
        (status = 404, description = "There is, or was, no such run", body = Problem),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
    )
)]
pub(crate) async fn get(
    State(app): State<Http>,
    Named(run): Named,
    Asked(moment): Asked<Moment>,
) -> Answered<Json<RunForm>> {
    let run = Name::new(&run)?;
    let at = point(moment.rev, moment.at)?;
    let command = RunCommand::Get { run: run.clone() };
    let encode = move |answer| match answer {
        RunAnswer::Info(Some(info)) => Ok(Json::of(info.into())),
        RunAnswer::Info(None) => Err(absent(&run)),
        _ => Err(Refusal::lost()),
    };
    read(&app, moment.branch, at, command, encode).await
}

/// Makes a run with what is known of it and its first events.
#[utoipa::path(
    put, path = "/v1/runs/{run}", tag = "runs", operation_id = "bootstrap_run", request_body = BootstrapForm,
    params(
        ("run" = String, Path, description = "The run; a slash in it is %2F"), OnBranch,
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses(
        (status = 200, description = "It is made: what came of each event", body = Vec<AppendedForm>),
        (status = 400, description = "An event that makes no sense", body = Problem),
        (status = 409, description = "There is such a run", body = Problem),
    )
)]
pub(crate) async fn bootstrap(
    State(app): State<Http>,
    asking: Asking,
    Named(run): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<Vec<AppendedForm>>> {
    let run = Name::new(&run)?;
    let body = Text::read(&app, &headers, body, app.settings().transaction_limit_bytes).await?;
    let (command, _room) =
        body.parse(&app, move |text| Ok(form::<BootstrapForm>(text)?.at(run)?)).await?;
    let receipt = app.execute(&asking, &headers, place.branch.as_deref(), [command]).await?;
    app.answer(receipt, |receipt| Ok(Json::of(appended(receipt)?))).await
}

/// The outcome of every event.
fn appended(receipt: Receipt) -> Answered<Vec<AppendedForm>> {
    let mut all = Vec::new();
    let foreign = || Refusal::foreign(receipt.repeated);
    for answer in receipt.answers {
        let Answer::Run(answer) = answer else { return Err(foreign()) };
        match *answer {
            RunAnswer::Appended(one) => all.push(one.into()),
            RunAnswer::AppendedAll(more) => all.extend(more.into_iter().map(AppendedForm::from)),
            _ => return Err(foreign()),
        }
    }
    Ok(all)
}

/// How events are appended.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppendArguments {
    /// The last sequence that the run must have before the first of the events, 0 for none; any without it. An event that is there already is found all the same.
    expect: Option<u64>,
    /// The branch; `main` without it.
    branch: Option<String>,
}

/// The body of an append: one event, or a list.
enum Said {
    One(RunCommand),
    Many(Vec<RunCommand>),
}

/// Appends an event, or a list of them, all or none. An event whose key the run has already is the first one again.
#[utoipa::path(
    post, path = "/v1/runs/{run}/events", tag = "runs", operation_id = "append_events",
    params(
        ("run" = String, Path, description = "The run; a slash in it is %2F"), AppendArguments,
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes; events have keys of their own"),
    ),
    request_body(content = serde_json::Value, description = "An event or a list of events: eventType, and as needed stepId, logicalAttemptId, engineAttemptId, planVersion, planId, idempotencyKey, eventData, eventId, emittedAt, adapterVersion, engineRunRef, causedBySignalId, parentEventId. What else there is is kept"),
    responses(
        (status = 200, description = "What came of it; of a list, a list", body = AppendedForm),
        (status = 400, description = "An event that makes no sense; `position` names it", body = Problem),
        (status = 404, description = "The run was deleted", body = Problem),
        (status = 409, description = "The run's last sequence is another", body = Problem),
        (status = 413, description = "An event is too large", body = Problem),
    )
)]
pub(crate) async fn append_events(
    State(app): State<Http>,
    asking: Asking,
    Named(run): Named,
    Asked(how): Asked<AppendArguments>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Response> {
    let run = Name::new(&run)?;
    let body = Text::read(&app, &headers, body, app.settings().transaction_limit_bytes).await?;
    let (said, _room) = body.parse(&app, move |text| said(text, &run, how.expect)).await?;
    let (commands, is_one) = match said {
        Said::One(command) => (vec![command], true),
        Said::Many(commands) => (commands, false),
    };
    let receipt = app.execute(&asking, &headers, how.branch.as_deref(), commands).await?;
    let encode = move |receipt| {
        let mut all = appended(receipt)?;
        match all.pop() {
            Some(only) if is_one => Ok(Json::of(only).into_response()),
            last => {
                all.extend(last);
                Ok(Json::of(all).into_response())
            }
        }
    };
    app.answer(receipt, encode).await
}

/// Parses the events of a body. Only the first event has the expected sequence number as its condition.
fn said(text: &str, run: &Name, expect: Option<u64>) -> Answered<Said> {
    if !text.trim_start().starts_with('[') {
        let event = event_of(&form::<Raw>(text)?, Some(run))?;
        return Ok(Said::One(append(event, expect)?));
    }
    let one = |(position, event): (usize, &Raw)| {
        let expect = expect.filter(|_| position == 0);
        let command = event_of(event, Some(run)).and_then(|event| append(event, expect));
        command.map_err(|error| error.at_position(position))
    };
    let events: Vec<Raw> = form(text)?;
    Ok(Said::Many(events.iter().enumerate().map(one).collect::<Result<_>>()?))
}

/// Which events are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct FetchArguments {
    /// Only behind this event.
    #[serde(default)]
    #[param(required = false)]
    after: u64,
    /// At most this many; 1,000 without it, 100,000 at most.
    limit: Option<usize>,
    /// The branch; `main` without it.
    branch: Option<String>,
    /// The state as of this revision.
    rev: Option<u64>,
    /// The state as of this stamp, in microseconds.
    at: Option<u64>,
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventPageForm {
    /// In order.
    pub(super) events: EventsForm,
    /// Pass this as `after` for what follows.
    pub(super) next: u64,
}

/// Events of a run, in order; none of a run that there is not.
#[utoipa::path(
    get, path = "/v1/runs/{run}/events", tag = "runs", operation_id = "fetch_events",
    params(("run" = String, Path, description = "The run; a slash in it is %2F"), FetchArguments),
    responses(
        (status = 200, description = "A page of events", body = EventPageForm),
        (status = 400, description = "A limit of zero or above 100,000", body = Problem),
        (status = 413, description = "They are too much for one page: ask for fewer", body = Problem),
    )
)]
pub(crate) async fn fetch(
    State(app): State<Http>,
    Named(run): Named,
    Asked(asked): Asked<FetchArguments>,
) -> Answered<Json<EventPageForm>> {
    let run = Name::new(&run)?;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let after = asked.after;
    let at = point(asked.rev, asked.at)?;
    let command = RunCommand::Fetch { run, after, limit };
    let encode = move |answer| {
        let RunAnswer::Events(events) = answer else { return Err(Refusal::lost()) };
        let next = events.last().map_or(after, |event| event.run_seq);
        Ok(Json::of(EventPageForm { events: EventsForm::of(&events)?, next }))
    };
    read(&app, asked.branch, at, command, encode).await
}

/// What of a run's events is added up.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotArguments {
    /// Only events up to this one; all without it.
    seq: Option<u64>,
    /// The branch; `main` without it.
    branch: Option<String>,
    /// The state as of this revision.
    rev: Option<u64>,
    /// The state as of this stamp, in microseconds.
    at: Option<u64>,
}

/// What the events of a run add up to, never behind them.
#[utoipa::path(
    get, path = "/v1/runs/{run}/snapshot", tag = "runs", operation_id = "snapshot_run",
    params(("run" = String, Path, description = "The run; a slash in it is %2F"), SnapshotArguments),
    responses(
        (status = 200, description = "The snapshot", body = SnapshotForm),
        (status = 404, description = "There is no such run, or it has no such event yet", body = Problem),
    )
)]
pub(crate) async fn snapshot(
    State(app): State<Http>,
    Named(run): Named,
    Asked(asked): Asked<SnapshotArguments>,
) -> Answered<Json<SnapshotForm>> {
    let run = Name::new(&run)?;
    let at = point(asked.rev, asked.at)?;
    let command = RunCommand::Snapshot { run: run.clone(), seq: asked.seq };
    read(&app, asked.branch, at, command, move |answer| shown_snapshot(&run, answer)).await
}

/// What the events of a run add up to, from the first one on: nothing that is kept is looked at.
#[utoipa::path(
    get, path = "/v1/runs/{run}/projection", tag = "runs", operation_id = "project_run",
    params(("run" = String, Path, description = "The run; a slash in it is %2F"), Moment),
    responses(
        (status = 200, description = "The snapshot", body = SnapshotForm),
        (status = 404, description = "There is no such run", body = Problem),
    )
)]
pub(crate) async fn project(
    State(app): State<Http>,
    Named(run): Named,
    Asked(moment): Asked<Moment>,
) -> Answered<Json<SnapshotForm>> {
    let run = Name::new(&run)?;
    let at = point(moment.rev, moment.at)?;
    let command = RunCommand::Project { run: run.clone() };
    read(&app, moment.branch, at, command, move |answer| shown_snapshot(&run, answer)).await
}

fn shown_snapshot(run: &Name, answer: RunAnswer) -> Answered<Json<SnapshotForm>> {
    match answer {
        RunAnswer::Snapshot(Some(snapshot)) => Ok(Json::of(snapshot.into())),
        RunAnswer::Snapshot(None) => Err(absent(run)),
        _ => Err(Refusal::lost()),
    }
}

/// What could not follow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertPageForm {
    /// In order.
    alerts: Vec<AlertForm>,
    /// Pass this as `after` for what follows.
    next: u64,
}

/// Events of a run that could not follow those before them, each told once.
#[utoipa::path(
    get, path = "/v1/runs/{run}/alerts", tag = "runs", operation_id = "run_alerts",
    params(("run" = String, Path, description = "The run; a slash in it is %2F"), FetchArguments),
    responses(
        (status = 200, description = "A page of them", body = AlertPageForm),
        (status = 400, description = "A limit of zero or above 100,000", body = Problem),
    )
)]
pub(crate) async fn alerts(
    State(app): State<Http>,
    Named(run): Named,
    Asked(asked): Asked<FetchArguments>,
) -> Answered<Json<AlertPageForm>> {
    let run = Name::new(&run)?;
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let after = asked.after;
    let at = point(asked.rev, asked.at)?;
    let command = RunCommand::Alerts { run, after, limit };
    let encode = move |answer| {
        let RunAnswer::Alerts(alerts) = answer else { return Err(Refusal::lost()) };
        let next = alerts.last().map_or(after, |alert| alert.run_seq);
        let alerts = alerts.into_iter().map(AlertForm::from).collect();
        Ok(Json::of(AlertPageForm { alerts, next }))
    };
    read(&app, asked.branch, at, command, encode).await
}

/// Deletes a whole run; single events are never deleted.
#[utoipa::path(
    delete, path = "/v1/runs/{run}", tag = "runs", operation_id = "delete_run",
    params(
        ("run" = String, Path, description = "The run; a slash in it is %2F"), OnBranch,
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses((status = 200, description = "It is gone", body = Removed))
)]
pub(crate) async fn delete(
    State(app): State<Http>,
    asking: Asking,
    Named(run): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
) -> Answered<Json<Removed>> {
    let command = RunCommand::Delete { run: Name::new(&run)? };
    removed(app.execute(&asking, &headers, place.branch.as_deref(), [command]).await?)
}

/// An idempotency key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyForm {
    /// The key.
    idempotency_key: String,
}

/// The idempotency key that an event gets: its own, or by its signal, or by the formula. Nothing is written.
#[utoipa::path(
    post, path = "/v1/run-keys", tag = "runs", operation_id = "run_key",
    request_body(content = serde_json::Value, description = "The event, with its runId"),
    responses(
        (status = 200, description = "The key", body = KeyForm),
        (status = 400, description = "It can have none: no plan version, or a `|` in a part", body = Problem),
    )
)]
pub(crate) async fn key(
    State(app): State<Http>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<KeyForm>> {
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let read = |text: &str| {
        let event: NewEvent = event_of(&form::<Raw>(text)?, None)?;
        event.check()?;
        Ok(event.key()?)
    };
    let (idempotency_key, _room) = body.parse(&app, read).await?;
    Ok(Json::of(KeyForm { idempotency_key }))
}
