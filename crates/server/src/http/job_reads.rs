//! Routes that read jobs, at present or in the past, and the route that sweeps.

use super::Http;
use super::access::Asking;
use super::cells::OnBranch;
use super::extract::{Asked, NamedJob, OfType, Text, point};
use super::forms::{JobForm, JobVersionForm};
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{At, MAIN};
use mainstay_jobs::{Job, JobName, Jobs, State as Stand, SweepReport};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Where and when a job is looked at.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Moment {
    /// The branch; `main` without it.
    pub(super) branch: Option<String>,
    /// The state as of this revision.
    pub(super) rev: Option<u64>,
    /// The state as of this stamp, in microseconds.
    pub(super) at: Option<u64>,
}

fn branch(named: Option<&String>) -> &str {
    named.map_or(MAIN, String::as_str)
}

fn absent(name: &JobName) -> Refusal {
    Refusal::not_found("JobNotFound", format!("there is no job {name}"))
}

/// Reads a job at a point in time, if the caller has the right to it, and passes it to `then`.
async fn find<T: Send + 'static>(
    app: &Http,
    asking: &Asking,
    name: JobName,
    moment: Moment,
    then: impl FnOnce(&Jobs, &Job) -> Answered<T> + Send + 'static,
) -> Answered<T> {
    let desk = app.jobs().clone();
    asking.user.may_touch(desk.keys().job(&name).as_bytes())?;
    let at = point(moment.rev, moment.at)?;
    app.slowly(move || {
        let jobs = desk.look(branch(moment.branch.as_ref()))?.ok_or_else(|| absent(&name))?;
        let job = match at {
            At::Latest => jobs.get(&name)?,
            at => jobs.get_at(&name, at)?,
        };
        then(&jobs, &job.ok_or_else(|| absent(&name))?)
    })
    .await
}

/// Reads a job.
#[utoipa::path(
    get, path = "/v1/jobs/{type}/{id}", tag = "jobs", operation_id = "get_job",
    params(("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), Moment),
    responses(
        (status = 200, description = "The job, now or as it was", body = JobForm),
        (status = 404, description = "There is, or was, none of this name", body = Problem),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
    )
)]
pub(crate) async fn get(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(moment): Asked<Moment>,
) -> Answered<Json<JobForm>> {
    find(&app, &asking, name, moment, |_, job| Ok(Json::of(JobForm::whole(job)))).await
}

/// The input of a job, as bytes.
#[utoipa::path(
    get, path = "/v1/job-input/{type}/{id}", tag = "jobs", operation_id = "job_input",
    params(("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), Moment),
    responses(
        (status = 200, description = "The bytes", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 404, description = "There is no job of this name, or it has none", body = Problem),
    )
)]
pub(crate) async fn input(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(moment): Asked<Moment>,
) -> Answered<Response> {
    find(&app, &asking, name, moment, |jobs, job| bytes(job, jobs.params(job)?, "input")).await
}

/// The output of a job, as bytes.
#[utoipa::path(
    get, path = "/v1/job-output/{type}/{id}", tag = "jobs", operation_id = "job_output",
    params(("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), Moment),
    responses(
        (status = 200, description = "The bytes", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 404, description = "There is no job of this name, or it has none", body = Problem),
    )
)]
pub(crate) async fn output(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(moment): Asked<Moment>,
) -> Answered<Response> {
    find(&app, &asking, name, moment, |jobs, job| bytes(job, jobs.result(job)?, "output")).await
}

fn bytes(job: &Job, found: Option<Vec<u8>>, what: &str) -> Answered<Response> {
    let Some(bytes) = found else {
        let message = format!("the job {} has no {what}", job.name);
        return Err(Refusal::not_found("NoBytes", message));
    };
    let kind = HeaderValue::from_static("application/octet-stream");
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}

/// Which jobs are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArguments {
    /// Only those in this state.
    state: Option<String>,
    /// Only ids behind this one.
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

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPageForm {
    /// In the order of their ids, without input and output.
    jobs: Vec<JobForm>,
    /// Pass this as `after` for the next page; null at the end.
    next: Option<String>,
    /// How many records of the page cannot be read as jobs and were left out; without it none.
    #[serde(skip_serializing_if = "is_none")]
    unreadable: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

fn parsed(state: Option<&str>) -> mainstay::Result<Option<Stand>> {
    state.map(Stand::parse).transpose()
}

/// The jobs of a type, in the order of their ids.
#[utoipa::path(
    get, path = "/v1/jobs/{type}", tag = "jobs", operation_id = "list_jobs",
    params(("type" = String, Path, description = "Of which type"), ListArguments),
    responses(
        (status = 200, description = "A page of jobs", body = JobPageForm),
        (status = 400, description = "A state that there is not, or a limit of zero", body = Problem),
    )
)]
pub(crate) async fn list(
    State(app): State<Http>,
    asking: Asking,
    OfType(task_type): OfType,
    Asked(asked): Asked<ListArguments>,
) -> Answered<Json<JobPageForm>> {
    let desk = app.jobs().clone();
    asking.user.may_list(desk.keys().of_type(&task_type).as_bytes())?;
    let state = parsed(asked.state.as_deref())?;
    let at = point(asked.rev, asked.at)?;
    app.slowly(move || {
        let Some(jobs) = desk.look(branch(asked.branch.as_ref()))? else {
            return Ok(Json::of(JobPageForm { jobs: Vec::new(), next: None, unreadable: 0 }));
        };
        let after = asked.after.as_deref();
        let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
        let page = match at {
            At::Latest => jobs.list(&task_type, state, after, limit)?,
            at => jobs.list_at(&task_type, state, after, limit, at)?,
        };
        let jobs = page.jobs.iter().map(JobForm::brief).collect();
        Ok(Json::of(JobPageForm { jobs, next: page.next, unreadable: page.unreadable }))
    })
    .await
}

/// Which jobs are counted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobCountArguments {
    /// Only those in this state.
    state: Option<String>,
    /// The branch; `main` without it.
    branch: Option<String>,
    /// The state as of this revision.
    rev: Option<u64>,
    /// The state as of this stamp, in microseconds.
    at: Option<u64>,
}

/// How many jobs there are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobCount {
    /// So many.
    count: u64,
}

/// How many jobs of a type there are.
#[utoipa::path(
    get, path = "/v1/job-count/{type}", tag = "jobs", operation_id = "count_jobs",
    params(("type" = String, Path, description = "Of which type"), JobCountArguments),
    responses(
        (status = 200, description = "Their number", body = JobCount),
        (status = 400, description = "A state that there is not", body = Problem),
    )
)]
pub(crate) async fn count(
    State(app): State<Http>,
    asking: Asking,
    OfType(task_type): OfType,
    Asked(asked): Asked<JobCountArguments>,
) -> Answered<Json<JobCount>> {
    let desk = app.jobs().clone();
    asking.user.may_list(desk.keys().of_type(&task_type).as_bytes())?;
    let state = parsed(asked.state.as_deref())?;
    let at = point(asked.rev, asked.at)?;
    app.slowly(move || {
        let count = desk.count(branch(asked.branch.as_ref()), &task_type, state, at)?;
        Ok(Json::of(JobCount { count }))
    })
    .await
}

/// What became of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobHistoryForm {
    /// Newest first.
    versions: Vec<JobVersionForm>,
    /// Pass this as `before` for the next page; null at the end.
    next: Option<u64>,
}

/// What became of a job, newest first.
#[utoipa::path(
    get, path = "/v1/job-history/{type}/{id}", tag = "jobs", operation_id = "job_history",
    params(("type" = String, Path, description = "Its type"), ("id" = String, Path, description = "Its id"), JobHistoryArguments),
    responses((status = 200, description = "A page of versions; none for a job that never was", body = JobHistoryForm))
)]
pub(crate) async fn history(
    State(app): State<Http>,
    asking: Asking,
    NamedJob(name): NamedJob,
    Asked(asked): Asked<JobHistoryArguments>,
) -> Answered<Json<JobHistoryForm>> {
    let desk = app.jobs().clone();
    asking.user.may_touch(desk.keys().job(&name).as_bytes())?;
    app.slowly(move || {
        let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
        let versions = match desk.look(branch(asked.branch.as_ref()))? {
            Some(jobs) => jobs.history(&name, limit, asked.before)?,
            None => Vec::new(),
        };
        let is_full = versions.len() == limit;
        let next = versions.last().filter(|_| is_full).map(|version| version.counter);
        let versions = versions.into_iter().map(JobVersionForm::from).collect();
        Ok(Json::of(JobHistoryForm { versions, next }))
    })
    .await
}

/// Which versions of a job are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobHistoryArguments {
    /// The branch; `main` without it.
    branch: Option<String>,
    /// Only versions with a smaller counter.
    before: Option<u64>,
    /// At most this many; 1,000 without it.
    limit: Option<usize>,
}

/// How a sweep is done.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SweepForm {
    /// Held jobs that nobody has written to for this long are stuck; as configured without it.
    stuck_ms: Option<u64>,
}

/// What a sweep found and did.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct SweptForm {
    /// How many jobs looked stuck.
    looked_at: u64,
    /// How many of them are pending again.
    retried: u64,
    /// How many of them have failed, having no retries left.
    failed: u64,
    /// How many were changed by others meanwhile.
    moved_on: u64,
    /// How many records could not be read as jobs.
    unreadable: u64,
}

impl From<SweepReport> for SweptForm {
    fn from(report: SweepReport) -> SweptForm {
        let SweepReport { looked_at, retried, failed, moved_on, unreadable } = report;
        SweptForm { looked_at, retried, failed, moved_on, unreadable }
    }
}

/// Takes jobs away from workers that have fallen silent.
#[utoipa::path(
    post, path = "/v1/job-sweeps", tag = "jobs", operation_id = "sweep_jobs", request_body = SweepForm, params(OnBranch),
    responses((status = 200, description = "What was found and done", body = SweptForm))
)]
pub(crate) async fn sweep(
    State(app): State<Http>,
    asking: Asking,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<SweptForm>> {
    let desk = app.jobs().clone();
    asking.user.may_list(desk.keys().jobs().as_bytes())?;
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let SweepForm { stuck_ms } = body.form_or_default(&app).await?;
    app.slowly(move || {
        let Some(jobs) = desk.look(branch(place.branch.as_ref()))? else {
            return Ok(Json::of(SweptForm::default()));
        };
        let stuck_ms = stuck_ms.or(jobs.settings().stuck_after_ms);
        Ok(Json::of(jobs.sweep_stuck(stuck_ms)?.into()))
    })
    .await
}
