//! A job as it stands in its record.

use crate::name::JobName;
use crate::state::State;
use mainstay::{Code, Error, Fields, Record, Result, Revision};

/// The fields of a job's record.
pub mod field {
    /// Where the job stands.
    pub const STATE: &str = "state";
    /// Its type.
    pub const TASK_TYPE: &str = "task_type";
    /// Its id.
    pub const TASK_ID: &str = "task_id";
    /// Who has or had it.
    pub const WORKER: &str = "worker";
    /// The last step that was done.
    pub const CURRENT_STEP: &str = "current_step";
    /// How many steps there are.
    pub const STEP_COUNT: &str = "step_count";
    /// When it was submitted, in milliseconds since 1970.
    pub const CREATED_AT: &str = "created_at";
    /// When it was last written, in milliseconds since 1970.
    pub const UPDATED_AT: &str = "updated_at";
    /// When its lease ends, in milliseconds since 1970.
    pub const TIMEOUT_AT: &str = "timeout_at";
    /// What went wrong last.
    pub const ERROR: &str = "error";
    /// Where its input is, if large.
    pub const PARAMS_REF: &str = "params_ref";
    /// Where its output is, if large.
    pub const RESULT_REF: &str = "result_ref";
    /// Its input, if small.
    pub const PARAMS: &str = "params";
    /// Its output, if small.
    pub const RESULT: &str = "result";
    /// How often it was tried again.
    pub const RETRY_COUNT: &str = "retry_count";
    /// How often it may be tried again.
    pub const MAX_RETRIES: &str = "max_retries";
    /// What has to be completed before it, as `type/id` with commas between.
    pub const DEPENDS_ON: &str = "depends_on";
    /// How many of those are not.
    pub const BLOCKED_BY: &str = "blocked_by";
    /// What the names of further fields begin with, `waits.{type}/{id}`: one for each of those that are not, so that
    /// each is counted once.
    pub const WAITS: &str = "waits.";
    /// Which jobs wait for it, as `type/id` with commas between.
    pub const DEPENDENTS: &str = "dependents";
    /// How many bytes their records take: all of them are written when it is completed.
    pub const DEPENDENTS_BYTES: &str = "dependents_bytes";
    /// The revision that gave it to its worker. It stands for as long as that worker was the last to change
    /// the state.
    pub const TOKEN: &str = "token";
    /// When it may run at the earliest, in milliseconds since 1970.
    pub const RUN_AT: &str = "run_at";
    /// Higher ones come first.
    pub const PRIORITY: &str = "priority";
    /// Its place in the queue.
    pub const RANK: &str = "rank";
    /// Its place in the queue once its time has come, while it waits for that.
    pub const READY_RANK: &str = "ready_rank";
    /// How long its worker may be silent.
    pub const TIMEOUT_MS: &str = "timeout_ms";
    /// How long this worker may be silent, if it said so.
    pub const LEASE_MS: &str = "lease_ms";
}

/// A job, as its record says.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its type and id.
    pub name: JobName,
    /// Where it stands.
    pub state: State,
    /// Who has or had it.
    pub worker: Option<String>,
    /// The last step that was done.
    pub current_step: Option<u64>,
    /// How many steps there are.
    pub step_count: Option<u64>,
    /// When it was submitted, in milliseconds since 1970.
    pub created_at: u64,
    /// When it was last written, in milliseconds since 1970.
    pub updated_at: u64,
    /// When its lease ends, in milliseconds since 1970.
    pub timeout_at: Option<u64>,
    /// What went wrong last.
    pub error: Option<String>,
    /// How often it was tried again.
    pub retry_count: u32,
    /// How often it may be tried again.
    pub max_retries: u32,
    /// What has to be completed before it.
    pub depends_on: Vec<JobName>,
    /// How many of those are not.
    pub blocked_by: u64,
    /// Which jobs wait for it.
    pub dependents: Vec<JobName>,
    /// How many bytes their records take.
    pub dependents_bytes: u64,
    /// The grant of its worker.
    pub token: Option<Revision>,
    /// When it may run at the earliest, in milliseconds since 1970.
    pub run_at: Option<u64>,
    /// Higher ones come first.
    pub priority: i32,
    /// How long its worker may be silent: what the claim said, else what was submitted.
    pub lease_ms: Option<u64>,
    /// How often its record has been written.
    pub counter: u64,
    /// The record itself, with input and output.
    pub fields: Fields,
}

/// The field that stands in a job's record while it waits for another.
pub(crate) fn waits_for(dependency: &JobName) -> String {
    format!("{}{dependency}", field::WAITS)
}

/// Where a job stands, of which nothing else need be readable.
pub(crate) fn state_of(fields: &Fields) -> Result<State> {
    State::parse(fields.text(field::STATE).unwrap_or_default())
}

impl Job {
    /// Whether it waits for another.
    pub(crate) fn waits_for(&self, dependency: &JobName) -> bool {
        self.fields.get(waits_for(dependency)).is_some()
    }

    /// Reads a record.
    pub(crate) fn of(name: JobName, record: Record) -> Result<Job> {
        let Record { fields, counter, .. } = record;
        let read = Reader { name: &name, fields: &fields };
        let names = |field| JobName::parse_all(read.text(field).unwrap_or_default());
        let lease_ms = match read.number(field::LEASE_MS)? {
            Some(lease_ms) => Some(lease_ms),
            None => read.number(field::TIMEOUT_MS)?,
        };
        Ok(Job {
            state: state_of(&fields)?,
            worker: read.text(field::WORKER).map(str::to_owned),
            current_step: read.number(field::CURRENT_STEP)?,
            step_count: read.number(field::STEP_COUNT)?,
            created_at: read.number(field::CREATED_AT)?.unwrap_or_default(),
            updated_at: read.number(field::UPDATED_AT)?.unwrap_or_default(),
            timeout_at: read.number(field::TIMEOUT_AT)?,
            error: fields.get(field::ERROR).map(|text| String::from_utf8_lossy(text).into_owned()),
            retry_count: read.number(field::RETRY_COUNT)?.unwrap_or_default(),
            max_retries: read.number(field::MAX_RETRIES)?.unwrap_or_default(),
            depends_on: names(field::DEPENDS_ON)?,
            blocked_by: read.number(field::BLOCKED_BY)?.unwrap_or_default(),
            dependents: names(field::DEPENDENTS)?,
            dependents_bytes: read.number(field::DEPENDENTS_BYTES)?.unwrap_or_default(),
            token: read.number(field::TOKEN)?,
            run_at: read.number(field::RUN_AT)?,
            priority: read.number(field::PRIORITY)?.unwrap_or_default(),
            lease_ms,
            counter,
            name,
            fields,
        })
    }
}

struct Reader<'r> {
    name: &'r JobName,
    fields: &'r Fields,
}

impl Reader<'_> {
    fn text(&self, field: &str) -> Option<&str> {
        self.fields.text(field)
    }

    fn number<N: std::str::FromStr>(&self, field: &str) -> Result<Option<N>> {
        let Some(bytes) = self.fields.get(field) else { return Ok(None) };
        let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        number.map(Some).ok_or_else(|| {
            let message =
                format!("field `{field}` of job {} is not the number it has to be", self.name);
            Error::new(Code::CorruptData, message)
        })
    }
}
