//! JSON forms of jobs: new ones, and existing ones.

use super::{Raw, raw, value};
use crate::jobs::New;
use mainstay::{Code, Error, Result, Value};
use mainstay_jobs::{Job, JobName, JobVersion, field};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// What is said of a job when it is submitted.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NewJobForm {
    /// Its type; left out where the path names it.
    r#type: Option<String>,
    /// Its id; left out where the path names it.
    id: Option<String>,
    /// Its input: a string as it is, bytes as {"$bytes": base64}, anything else as its JSON text.
    #[schema(value_type = Option<serde_json::Value>)]
    data: Option<Raw>,
    /// What has to be completed before it: ids of its own type, or `type/id`.
    depends_on: Vec<String>,
    /// Higher ones are claimed first; 0 without it.
    priority: i32,
    /// It is not claimed before this moment, in milliseconds since 1970.
    run_at_ms: Option<u64>,
    /// How long its worker may be silent.
    timeout_ms: Option<u64>,
    /// How often it may be tried again.
    max_retries: Option<u32>,
    /// How many steps it has.
    step_count: Option<u64>,
}

impl NewJobForm {
    /// The job with the name from the path.
    pub fn at(self, name: JobName) -> Result<New> {
        match (&self.r#type, &self.id) {
            (None, None) => self.named(name),
            _ => Err(invalid("the path names the job: leave type and id out of the body")),
        }
    }

    /// The job with the name from the form itself.
    pub fn whole(self) -> Result<New> {
        let (Some(task_type), Some(id)) = (&self.r#type, &self.id) else {
            return Err(invalid("every job of a graph has a type and an id"));
        };
        let name = JobName::new(task_type, id)?;
        self.named(name)
    }

    fn named(self, name: JobName) -> Result<New> {
        let data = self.data.as_deref().map(bytes).transpose()?.flatten();
        let mut new = New::job(name);
        for job in &self.depends_on {
            new = new.depends_on(job)?;
        }
        new.with(|mut submission| {
            submission = submission.priority(self.priority);
            submission = with(submission, data, |it, data| it.params(data));
            submission = with(submission, self.run_at_ms, |it, ms| it.run_at_ms(ms));
            submission = with(submission, self.timeout_ms, |it, ms| it.timeout_ms(ms));
            submission = with(submission, self.max_retries, |it, n| it.max_retries(n));
            Ok(with(submission, self.step_count, |it, n| it.step_count(n)))
        })
    }
}

#[cold]
fn invalid(message: &str) -> Error {
    Error::new(Code::InvalidArgument, message)
}

fn with<S, T>(submission: S, said: Option<T>, say: impl FnOnce(S, T) -> S) -> S {
    match said {
        Some(said) => say(submission, said),
        None => submission,
    }
}

/// The bytes of a JSON value; null gives `None`.
pub(crate) fn bytes(raw: &RawValue) -> Result<Option<Vec<u8>>> {
    Ok(match value(raw)? {
        Value::Null => None,
        Value::Array(_) | Value::Object(_) => Some(raw.get().as_bytes().to_vec()),
        plain => Some(plain.as_text().into_owned()),
    })
}

/// Bytes as JSON: text as a string, others as {"$bytes": base64}.
pub(crate) fn shown_bytes(bytes: &[u8]) -> Raw {
    raw(&Value::from_text(bytes))
}

/// A job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobForm {
    /// Its type.
    r#type: String,
    /// Its id.
    id: String,
    /// Where it stands: pending, claimed, running, completed, failed, cancelled or blocked.
    state: &'static str,
    /// Who has or had it.
    worker: Option<String>,
    /// The revision that gave it to its worker.
    token: Option<u64>,
    /// The last step that was done.
    current_step: Option<u64>,
    /// How many steps there are.
    step_count: Option<u64>,
    /// When it was submitted, in milliseconds since 1970.
    created_at: u64,
    /// When it was last written, in milliseconds since 1970.
    updated_at: u64,
    /// When its lease ends, in milliseconds since 1970.
    timeout_at: Option<u64>,
    /// When it may run at the earliest, in milliseconds since 1970.
    run_at: Option<u64>,
    /// Higher ones are claimed first.
    priority: i32,
    /// How often it was tried again.
    retry_count: u32,
    /// How often it may be tried again.
    max_retries: u32,
    /// What went wrong last.
    error: Option<String>,
    /// What has to be completed before it, as `type/id`.
    depends_on: Vec<String>,
    /// How many of those are not.
    blocked_by: u64,
    /// Which jobs wait for it, as `type/id`.
    dependents: Vec<String>,
    /// Its input, if small; /v1/job-input has every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    data: Option<Raw>,
    /// Its output, if small; /v1/job-output has every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Raw>,
    /// How often its record has been written.
    counter: u64,
}

impl JobForm {
    /// A job with its inline input and output.
    pub fn whole(job: &Job) -> JobForm {
        let held = |field: &str| job.fields.get(field).map(shown_bytes);
        let data = held(field::PARAMS);
        let result = held(field::RESULT);
        JobForm { data, result, ..JobForm::brief(job) }
    }

    /// A job without input and output.
    pub fn brief(job: &Job) -> JobForm {
        let names = |names: &[JobName]| names.iter().map(JobName::to_string).collect();
        JobForm {
            r#type: job.name.task_type().to_owned(),
            id: job.name.id().to_owned(),
            state: job.state.as_str(),
            worker: job.worker.clone(),
            token: job.token,
            current_step: job.current_step,
            step_count: job.step_count,
            created_at: job.created_at,
            updated_at: job.updated_at,
            timeout_at: job.timeout_at,
            run_at: job.run_at,
            priority: job.priority,
            retry_count: job.retry_count,
            max_retries: job.max_retries,
            error: job.error.clone(),
            depends_on: names(&job.depends_on),
            blocked_by: job.blocked_by,
            dependents: names(&job.dependents),
            data: None,
            result: None,
            counter: job.counter,
        }
    }
}

/// One version of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobVersionForm {
    /// How often its record had been written.
    counter: u64,
    /// The job as it was; null where it was deleted or had expired, or cannot be read.
    job: Option<JobForm>,
    /// True where there was a record that cannot be read as a job; else it is left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unreadable: bool,
    /// When it was written, in microseconds.
    stamp: u64,
    /// The transaction that wrote it.
    revision: u64,
}

impl From<JobVersion> for JobVersionForm {
    fn from(version: JobVersion) -> JobVersionForm {
        let JobVersion { revision, stamp, counter, job, is_unreadable: unreadable } = version;
        let job = job.as_ref().map(JobForm::whole);
        JobVersionForm { counter, job, unreadable, stamp, revision }
    }
}
