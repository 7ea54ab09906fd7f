//! Routes for jobs: submit, claim, heartbeat, complete, fail.
//!
//! ```text
//!   body --> Order --rights, jobs thread--> Outcome --> JSON
//! ```

use super::Http;
use super::access::Asking;
use super::answers::done_without_answer;
use super::cells::OnBranch;
use super::extract::{Asked, NamedJob, OfType, Text, small_form as read};
use super::forms::{JobForm, NewJobForm, Raw, bytes, shown_bytes};
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use crate::jobs::{Claim, Given, New, Order, Outcome};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use mainstay::Result;
use mainstay_jobs::{Grant, JobName, Retry, State as Stand};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// A job and where it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobStandForm {
    /// Its type.
    r#type: String,
    /// Its id.
    id: String,
    /// Where it stands: pending, claimed, running, completed, failed, cancelled or blocked.
    state: &'static str,
}

impl JobStandForm {
    fn of(name: &JobName, state: Stand) -> JobStandForm {
        let task_type = name.task_type().to_owned();
        let id = name.id().to_owned();
        JobStandForm { r#type: task_type, id, state: state.as_str() }
    }
}

/// Executes an order that concerns one job, and answers with the job's state.
async fn one(
    app: &Http,
    asking: &Asking,
    place: OnBranch,
    name: &JobName,
    order: Order,
) -> Answered<Json<JobStandForm>> {
    let state = match app.order(asking, place.branch, order).await? {
        Outcome::State(state) | Outcome::Held(state) => state,
        Outcome::States(states) => *states.first().ok_or_else(Refusal::lost)?,
        _ => return Err(Refusal::lost()),
    };
    Ok(Json::of(JobStandForm::of(name, state)))
}

/// Submits a job; without a body it has no input and can run at once.
#[utoipa::path(
    put, path = "/v1/jobs/{type}/{id}", tag = "jobs", operation_id = "submit_job", request_body = NewJobForm,
    params(
        ("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), OnBranch,
    ),
    responses(
        (status = 201, description = "It is there: pending, or blocked while what it depends on is not completed", body = JobStandForm),
        (status = 400, description = "A name or a dependency makes no sense", body = Problem),
        (status = 409, description = "There is a job of this name already", body = Problem),
        (status = 413, description = "Its input is too large", body = Problem),
    )
)]
pub(crate) async fn submit(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<(StatusCode, Json<JobStandForm>)> {
    let limit_bytes = app.settings().value_limit_bytes;
    let body = Text::read(&app, &headers, body, limit_bytes).await?;
    let form: NewJobForm = body.form_or_default(&app).await?;
    let order = Order::Submit(vec![form.at(name.clone())?]);
    Ok((StatusCode::CREATED, one(&app, &asking, place, &name, order).await?))
}

/// Jobs that may depend on each other.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphForm {
    /// The jobs.
    jobs: Vec<NewJobForm>,
}

/// What became of the jobs of a graph.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GraphStandForm {
    /// In the order in which they were given.
    jobs: Vec<JobStandForm>,
}

/// Submits jobs that may depend on each other, all or none.
#[utoipa::path(
    post, path = "/v1/job-graphs", tag = "jobs", operation_id = "submit_jobs", request_body = GraphForm,
    params(OnBranch),
    responses(
        (status = 201, description = "All are there", body = GraphStandForm),
        (status = 400, description = "Names, doubles, circles or dependencies that make no sense", body = Problem),
        (status = 409, description = "There is a job of such a name already", body = Problem),
    )
)]
pub(crate) async fn submit_all(
    State(app): State<Http>,
    asking: Asking,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<(StatusCode, Json<GraphStandForm>)> {
    let limit_bytes = app.settings().transaction_limit_bytes;
    let body = Text::read(&app, &headers, body, limit_bytes).await?;
    let form: GraphForm = body.form(&app).await?;
    let all = form.jobs.into_iter().map(NewJobForm::whole).collect::<Result<Vec<New>>>()?;
    let names: Vec<JobName> = all.iter().map(|new| new.name.clone()).collect();
    let Outcome::States(states) = app.order(&asking, place.branch, Order::Submit(all)).await?
    else {
        return Err(Refusal::lost());
    };
    let bytes = names.len() * size_of::<JobStandForm>();
    let encode = move || {
        let jobs =
            names.iter().zip(states).map(|(name, state)| JobStandForm::of(name, state)).collect();
        Ok((StatusCode::CREATED, Json::of(GraphStandForm { jobs })))
    };
    app.sized(bytes, done_without_answer, encode).await
}

/// What a worker asks for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimForm {
    /// Who asks.
    worker: String,
    /// How long it may be silent; without it, what the job was submitted with.
    lease_ms: Option<u64>,
    /// How long to wait for a job; 60,000 at most, unless the server is configured otherwise.
    wait_ms: Option<u64>,
}

/// What a worker got.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimedForm {
    /// The job; null where none was there.
    claimed: Option<GrantForm>,
}

/// A job that was claimed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GrantForm {
    /// With this the worker says what it does; whoever has it no more is told 409.
    token: u64,
    /// Its input; null without.
    #[schema(value_type = Option<serde_json::Value>)]
    data: Option<Raw>,
    /// The job.
    job: JobForm,
}

impl GrantForm {
    fn of((claimed, data): Given) -> GrantForm {
        let data = data.as_deref().map(shown_bytes);
        GrantForm { token: claimed.grant.token, data, job: JobForm::brief(&claimed.job) }
    }
}

/// Claims the next job of a type: of those that are pending and due the one with the highest priority, of equal ones the oldest.
#[utoipa::path(
    post, path = "/v1/job-claims/{type}", tag = "jobs", operation_id = "claim_job", request_body = ClaimForm,
    params(("type" = String, Path, description = "Of which type"), OnBranch),
    responses(
        (status = 200, description = "The job and its token, or null when the wait was in vain", body = ClaimedForm),
        (status = 400, description = "A lease of zero, or a type that is none", body = Problem),
    )
)]
pub(crate) async fn claim(
    State(app): State<Http>,
    asking: Asking,
    OfType(task_type): OfType,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<ClaimedForm>> {
    let form: ClaimForm = read(&app, &headers, body).await?;
    let wait_ms = form.wait_ms.unwrap_or(0).min(app.settings().feed_wait_limit_ms);
    let wait = Some(Duration::from_millis(wait_ms));
    let lease = form.lease_ms.map(Duration::from_millis);
    let claim = Claim { task_type, worker: form.worker, lease, wait };
    let outcome = tokio::select! {
        outcome = app.order(&asking, place.branch, Order::Claim(claim)) => outcome?,
        () = given_up(&app, wait_ms) => Outcome::Claimed(None),
    };
    let Outcome::Claimed(given) = outcome else { return Err(Refusal::lost()) };
    let input_bytes =
        given.as_ref().and_then(|given| given.1.as_ref()).map_or(0, |data| data.len());
    let encode =
        move || Ok(Json::of(ClaimedForm { claimed: given.map(|given| GrantForm::of(*given)) }));
    app.sized(input_bytes, done_without_answer, encode).await
}

/// Resolves when the server drains, so that a waiting claim ends. A claim without a wait is not interrupted.
async fn given_up(app: &Http, wait_ms: u64) {
    match wait_ms {
        0 => std::future::pending().await,
        _ => app.draining().cancelled().await,
    }
}

/// A worker that is alive.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeatForm {
    /// What the claim gave.
    token: u64,
    /// How long it may be silent from now on; as before without it.
    lease_ms: Option<u64>,
}

/// Says that the worker is alive: its lease begins anew.
#[utoipa::path(
    post, path = "/v1/jobs/{type}/{id}/heartbeat", tag = "jobs", operation_id = "beat_job", request_body = BeatForm,
    params(("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), OnBranch),
    responses(
        (status = 200, description = "It is held on", body = JobStandForm),
        (status = 409, description = "`Fenced`: the job was taken away", body = Problem),
    )
)]
pub(crate) async fn beat(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<JobStandForm>> {
    let BeatForm { token, lease_ms } = read(&app, &headers, body).await?;
    let grant = Grant { name: name.clone(), token };
    let order = Order::Beat(grant, lease_ms.map(Duration::from_millis));
    one(&app, &asking, place, &name, order).await
}

/// A step that is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepDoneForm {
    /// What the claim gave.
    token: u64,
    /// The step.
    step: u64,
    /// How many there are, if that is known.
    of: Option<u64>,
}

/// Says that a step is done; the lease begins anew.
#[utoipa::path(
    post, path = "/v1/jobs/{type}/{id}/step", tag = "jobs", operation_id = "step_job", request_body = StepDoneForm,
    params(("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), OnBranch),
    responses(
        (status = 200, description = "It is running", body = JobStandForm),
        (status = 409, description = "`Fenced`: the job was taken away", body = Problem),
    )
)]
pub(crate) async fn step(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<JobStandForm>> {
    let StepDoneForm { token, step, of } = read(&app, &headers, body).await?;
    let order = Order::Step(Grant { name: name.clone(), token }, step, of);
    one(&app, &asking, place, &name, order).await
}

/// A job that is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteForm {
    /// What the claim gave.
    token: u64,
    /// Its output: a string as it is, bytes as {"$bytes": base64}, anything else as its JSON text.
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Raw>,
}

/// Says that the job is done; what waited for it alone becomes pending.
#[utoipa::path(
    post, path = "/v1/jobs/{type}/{id}/complete", tag = "jobs", operation_id = "complete_job", request_body = CompleteForm,
    params(("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), OnBranch),
    responses(
        (status = 200, description = "It is completed; asking again is as good", body = JobStandForm),
        (status = 409, description = "`Fenced`: the job was taken away", body = Problem),
    )
)]
pub(crate) async fn complete(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<JobStandForm>> {
    let CompleteForm { token, result } = read(&app, &headers, body).await?;
    let result = result.as_deref().map(bytes).transpose()?.flatten();
    let order = Order::Done(Grant { name: name.clone(), token }, result);
    one(&app, &asking, place, &name, order).await
}

/// A job that did not succeed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailForm {
    /// What the claim gave.
    token: u64,
    /// What went wrong.
    message: String,
    /// Whether it is tried again while it has retries left.
    #[serde(default)]
    retry: bool,
    /// After how long, in milliseconds; at once without it.
    retry_after_ms: Option<u64>,
}

impl FailForm {
    fn again(&self) -> Answered<Retry> {
        match (self.retry, self.retry_after_ms) {
            (false, None) => Ok(Retry::Never),
            (true, None) => Ok(Retry::Now),
            (true, Some(ms)) => Ok(Retry::After(Duration::from_millis(ms))),
            (false, Some(_)) => {
                Err(Refusal::invalid("retry_after_ms is of no use without \"retry\": true"))
            }
        }
    }
}

/// Says that the job did not succeed.
#[utoipa::path(
    post, path = "/v1/jobs/{type}/{id}/fail", tag = "jobs", operation_id = "fail_job", request_body = FailForm,
    params(("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), OnBranch),
    responses(
        (status = 200, description = "It is pending where it is tried again, else failed", body = JobStandForm),
        (status = 409, description = "`Fenced`: the job was taken away", body = Problem),
    )
)]
pub(crate) async fn fail(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<JobStandForm>> {
    let form: FailForm = read(&app, &headers, body).await?;
    let again = form.again()?;
    let grant = Grant { name: name.clone(), token: form.token };
    one(&app, &asking, place, &name, Order::Fail(grant, form.message, again)).await
}

/// Calls a job off. Its worker, if it has one, is told so at its next word.
#[utoipa::path(
    post, path = "/v1/jobs/{type}/{id}/cancel", tag = "jobs", operation_id = "cancel_job",
    params(("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), OnBranch),
    responses(
        (status = 200, description = "It is cancelled", body = JobStandForm),
        (status = 404, description = "There is none of this name", body = Problem),
        (status = 409, description = "It has ended already", body = Problem),
    )
)]
pub(crate) async fn cancel(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(place): Asked<OnBranch>,
) -> Answered<Json<JobStandForm>> {
    one(&app, &asking, place, &name, Order::Cancel(name.clone())).await
}

/// Tries a job again that failed or was cancelled, with all its retries.
#[utoipa::path(
    post, path = "/v1/jobs/{type}/{id}/retry", tag = "jobs", operation_id = "retry_job",
    params(("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), OnBranch),
    responses(
        (status = 200, description = "It is pending, or blocked as before", body = JobStandForm),
        (status = 404, description = "There is none of this name", body = Problem),
        (status = 409, description = "It neither failed nor was cancelled", body = Problem),
    )
)]
pub(crate) async fn retry(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(place): Asked<OnBranch>,
) -> Answered<Json<JobStandForm>> {
    one(&app, &asking, place, &name, Order::Retry(name.clone())).await
}
