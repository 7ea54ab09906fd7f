//! The job type, decoded from its record.

use crate::model::name::JobName;
use crate::model::state::State;
use mainstay::{Code, Error, Fields, Record, Result, Revision};

/// Names of the fields of a job's record.
pub mod field {
    /// The job's state.
    pub const STATE: &str = "state";
    /// The job's type.
    pub const TASK_TYPE: &str = "task_type";
    /// The job's id.
    pub const TASK_ID: &str = "task_id";
    /// The worker that has or last had the job.
    pub const WORKER: &str = "worker";
    /// Number of the last completed step.
    pub const CURRENT_STEP: &str = "current_step";
    /// Total number of steps.
    pub const STEP_COUNT: &str = "step_count";
    /// Submission time, in milliseconds since 1970.
    pub const CREATED_AT: &str = "created_at";
    /// Time of the last write, in milliseconds since 1970.
    pub const UPDATED_AT: &str = "updated_at";
    /// End of the lease, in milliseconds since 1970.
    pub const TIMEOUT_AT: &str = "timeout_at";
    /// Text of the last error.
    pub const ERROR: &str = "error";
    /// Object path of a large input.
    pub const PARAMS_REF: &str = "params_ref";
    /// Object path of a large output.
    pub const RESULT_REF: &str = "result_ref";
    /// Small input, stored inline.
    pub const PARAMS: &str = "params";
    /// Small output, stored inline.
    pub const RESULT: &str = "result";
    /// Number of retries so far.
    pub const RETRY_COUNT: &str = "retry_count";
    /// Maximum number of retries.
    pub const MAX_RETRIES: &str = "max_retries";
    /// Dependencies, as a comma-separated list of `type/id`.
    pub const DEPENDS_ON: &str = "depends_on";
    /// Number of dependencies that are not completed.
    pub const BLOCKED_BY: &str = "blocked_by";
    /// Name prefix of further fields, `waits.{type}/{id}`: one field per open dependency, so that each is
    /// counted once.
    pub const WAITS: &str = "waits.";
    /// Dependents, as a comma-separated list of `type/id`.
    pub const DEPENDENTS: &str = "dependents";
    /// Total size of the dependents' records in bytes. All of them are written when the job completes.
    pub const DEPENDENTS_BYTES: &str = "dependents_bytes";
    /// Fencing token: the revision of the claim. It stays until another actor than that worker changes the
    /// state.
    pub const TOKEN: &str = "token";
    /// Earliest time to run, in milliseconds since 1970.
    pub const RUN_AT: &str = "run_at";
    /// Priority. Higher ones are claimed first.
    pub const PRIORITY: &str = "priority";
    /// Position in the queue.
    pub const RANK: &str = "rank";
    /// Future position in the queue of a job that waits for its `run_at`.
    pub const READY_RANK: &str = "ready_rank";
    /// Lease of the job's workers, in milliseconds.
    pub const TIMEOUT_MS: &str = "timeout_ms";
    /// Lease that the current worker asked for, in milliseconds.
    pub const LEASE_MS: &str = "lease_ms";
}

/// A job, decoded from its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Type and id.
    pub name: JobName,
    /// Current state.
    pub state: State,
    /// The worker that has or last had it.
    pub worker: Option<String>,
    /// Number of the last completed step.
    pub current_step: Option<u64>,
    /// Total number of steps, if known.
    pub step_count: Option<u64>,
    /// Submission time, in milliseconds since 1970.
    pub created_at: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub updated_at: u64,
    /// End of the lease, in milliseconds since 1970. `None` if no worker holds the job.
    pub timeout_at: Option<u64>,
    /// Text of the last error.
    pub error: Option<String>,
    /// Number of retries so far.
    pub retry_count: u32,
    /// Maximum number of retries.
    pub max_retries: u32,
    /// Jobs that must complete before it.
    pub depends_on: Vec<JobName>,
    /// How many of these are not completed.
    pub blocked_by: u64,
    /// Jobs that wait for it.
    pub dependents: Vec<JobName>,
    /// Total size of the dependents' records in bytes.
    pub dependents_bytes: u64,
    /// Fencing token of the current or last grant.
    pub token: Option<Revision>,
    /// Earliest time to run, in milliseconds since 1970.
    pub run_at: Option<u64>,
    /// Priority. Higher ones are claimed first.
    pub priority: i32,
    /// Lease in milliseconds: that of the claim, else that of the submission.
    pub lease_ms: Option<u64>,
    /// Number of writes to its record.
    pub counter: u64,
    /// All fields of its record, including inline input and output.
    pub fields: Fields,
}

/// The field that marks an open dependency in a job's record.
pub(crate) fn waits_for(dependency: &JobName) -> String {
    format!("{}{dependency}", field::WAITS)
}

/// Returns the state of a job, even if its other fields are unreadable.
pub(crate) fn state_of(fields: &Fields) -> Result<State> {
    State::parse(fields.text(field::STATE).unwrap_or_default())
}

impl Job {
    /// Returns whether the job still waits for this dependency.
    pub(crate) fn waits_for(&self, dependency: &JobName) -> bool {
        self.fields.get(waits_for(dependency)).is_some()
    }

    /// Decodes a record.
    pub(crate) fn of(name: JobName, record: Record) -> Result<Job> {
        let Record { fields, counter, .. } = record;
        let reader = FieldReader { name: &name, fields: &fields };
        let names = |field| JobName::parse_all(reader.text(field).unwrap_or_default());
        let lease_ms = match reader.number(field::LEASE_MS)? {
            Some(lease_ms) => Some(lease_ms),
            None => reader.number(field::TIMEOUT_MS)?,
        };
        Ok(Job {
            state: state_of(&fields)?,
            worker: reader.text(field::WORKER).map(str::to_owned),
            current_step: reader.number(field::CURRENT_STEP)?,
            step_count: reader.number(field::STEP_COUNT)?,
            created_at: reader.number(field::CREATED_AT)?.unwrap_or_default(),
            updated_at: reader.number(field::UPDATED_AT)?.unwrap_or_default(),
            timeout_at: reader.number(field::TIMEOUT_AT)?,
            error: fields.get(field::ERROR).map(|text| String::from_utf8_lossy(text).into_owned()),
            retry_count: reader.number(field::RETRY_COUNT)?.unwrap_or_default(),
            max_retries: reader.number(field::MAX_RETRIES)?.unwrap_or_default(),
            depends_on: names(field::DEPENDS_ON)?,
            blocked_by: reader.number(field::BLOCKED_BY)?.unwrap_or_default(),
            dependents: names(field::DEPENDENTS)?,
            dependents_bytes: reader.number(field::DEPENDENTS_BYTES)?.unwrap_or_default(),
            token: reader.number(field::TOKEN)?,
            run_at: reader.number(field::RUN_AT)?,
            priority: reader.number(field::PRIORITY)?.unwrap_or_default(),
            lease_ms,
            counter,
            name,
            fields,
        })
    }
}

struct FieldReader<'r> {
    name: &'r JobName,
    fields: &'r Fields,
}

impl FieldReader<'_> {
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
