//! Operations on jobs, shared by the blocking, async and in-transaction handles.
//!
//! ```text
//!   Jobs (blocking)   AsyncJobs (async)   JobsTx (in a transaction)
//!               \          |            /
//!                Operations { settings, objects, dispatcher, backend }
//!
//!   operation --read--> current job --transition table--> one transaction, conditional on the job as read
//!                ^                                                     |
//!                '------------- job changed meanwhile: retry ----------'
//! ```

pub(crate) mod admin;
pub(crate) mod claim;
pub(crate) mod graph;
pub(crate) mod lock;
pub(crate) mod submit;
pub(crate) mod worker_ops;

use crate::backend::{HistoricalView, JobsBackend};
use crate::dispatch::wait_queue::Dispatcher;
use crate::failure;
use crate::model::job::{Job, field};
use crate::model::name::{self, JobName};
use crate::model::state::State;
use crate::model::version::JobVersion;
use crate::objects::Objects;
use crate::settings::{ServedBranches, Settings};
use crate::stats::{Counters, OperationKind};
use mainstay::{
    At, Code, Command, Condition, Database, Error, Field, FieldValue, Fields, IndexCommand, MAIN,
    Receipt, Record, RecordPage, RecordWrite, Result, Stamp, Step, Test, Ttl, Where,
};
use object_store::ObjectStore;
use std::sync::Arc;

/// Maximum number of attempts of an operation when other writers change the job meanwhile.
pub(crate) const MAX_ATTEMPTS: usize = 1000;

/// The operations; see the module. Clones share everything.
#[derive(Clone)]
pub(crate) struct Operations<'t> {
    pub shared: Arc<SharedState>,
    pub backend: Arc<JobsBackend<'t>>,
    pub extra_commands: Arc<[Command]>,
}

pub(crate) struct SharedState {
    pub settings: Settings,
    pub objects: Objects,
    pub counters: Counters,
    /// `None` for a served database, where the server waits.
    pub dispatcher: Option<Dispatcher>,
}

/// A page of jobs in order of their ids, with a cursor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobPage {
    /// The jobs of this page.
    pub jobs: Vec<Job>,
    /// Pass this as `after` for the next page. `None` at the end.
    pub next: Option<String>,
    /// Number of records on the page that are not readable jobs. They are left out.
    pub unreadable: u64,
}

/// The outcome of a decision on a job.
pub(crate) enum Decision {
    /// No write is needed: the job is already in this state.
    NoChange(State),
    /// The steps to execute, and the resulting state. The first step must take effect.
    Write(Vec<Step>, State),
}

impl SharedState {
    pub fn new(
        db: Option<&Database>,
        settings: Settings,
        objects: Option<Arc<dyn ObjectStore>>,
    ) -> Arc<SharedState> {
        let objects = Objects::new(objects, settings.inline_limit_bytes);
        let dispatcher = db.filter(|db| db.is_here()).map(Dispatcher::new);
        Arc::new(SharedState { settings, objects, counters: Counters::default(), dispatcher })
    }
}

impl Operations<'static> {
    pub fn new(shared: Arc<SharedState>, backend: JobsBackend<'static>) -> Operations<'static> {
        Operations { shared, backend: Arc::new(backend), extra_commands: Arc::new([]) }
    }

    /// Declares the required indexes if they do not exist.
    pub async fn declare_all(&self) -> Result<()> {
        self.declare(&[field::TASK_TYPE, field::STATE, field::RANK]).await?;
        self.declare(&[field::STATE, field::TIMEOUT_AT]).await?;
        match self.settings().stuck_after_ms {
            Some(_) => self.declare(&[field::STATE, field::UPDATED_AT]).await,
            None => Ok(()),
        }
    }

    async fn declare(&self, fields: &[&str]) -> Result<()> {
        let fields = fields.iter().map(Field::new).collect::<Result<Vec<_>>>()?;
        let command = IndexCommand::Add { prefix: self.prefix(), fields };
        match self.backend.execute(vec![Command::from(command).into()]).await {
            // A user who may access only some job types may not declare indexes. The server's own jobs have
            // declared them already.
            Err(error) if matches!(error.code(), Code::IndexExists | Code::Forbidden) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Returns the operations on another branch. Fails if no such branch exists.
    pub async fn on_branch(&self, branch: &str) -> Result<Operations<'static>> {
        let backend = Arc::new(self.backend.on_branch(branch).await?);
        Ok(Operations {
            shared: self.shared.clone(),
            backend,
            extra_commands: self.extra_commands.clone(),
        })
    }
}

impl<'t> Operations<'t> {
    /// Returns the operations over another backend.
    pub fn with_backend<'p>(&self, backend: JobsBackend<'p>) -> Operations<'p> {
        Operations {
            shared: self.shared.clone(),
            backend: Arc::new(backend),
            extra_commands: Arc::new([]),
        }
    }

    /// Returns operations that execute these commands in each transaction.
    pub fn with_commands(&self, commands: impl IntoIterator<Item = Command>) -> Operations<'t> {
        let extra_commands = commands.into_iter().collect();
        Operations { shared: self.shared.clone(), backend: self.backend.clone(), extra_commands }
    }

    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub fn objects(&self) -> &Objects {
        &self.shared.objects
    }

    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Key prefix of all jobs.
    pub fn prefix(&self) -> String {
        format!("{}state.tasks.", self.settings().namespace)
    }

    /// Key prefix of the jobs of a type.
    pub fn type_prefix(&self, task_type: &str) -> String {
        format!("{}{task_type}.", self.prefix())
    }

    /// The key of a job's record.
    pub fn key(&self, name: &JobName) -> String {
        format!("{}{}", self.type_prefix(name.task_type()), name.id())
    }

    fn name_of(&self, key: &str) -> Result<JobName> {
        let suffix = key.strip_prefix(&self.prefix()).and_then(|suffix| suffix.split_once('.'));
        let (task_type, id) = suffix.ok_or_else(failure::unexpected)?;
        JobName::new(task_type, id)
    }

    /// Decodes the record under a key as a job.
    pub fn decode(&self, key: &str, record: Record) -> Result<Job> {
        Job::of(self.name_of(key)?, record)
    }

    /// Rejects claims and sweeps on a branch where jobs are not served.
    pub fn check_served(&self) -> Result<()> {
        match (self.settings().serve, self.backend.branch()) {
            (ServedBranches::AllBranches, _) | (_, MAIN) => Ok(()),
            (ServedBranches::Main, branch) => Err(failure::not_served(branch)),
        }
    }

    pub async fn now_us(&self) -> Result<Stamp> {
        self.backend.now_us().await
    }

    pub async fn get(&self, name: &JobName) -> Result<Option<Job>> {
        job_of(name, self.backend.get(&self.key(name)).await?)
    }

    pub async fn get_at(&self, name: &JobName, at: At) -> Result<Option<Job>> {
        job_of(name, self.backend.at(at).await?.get(&self.key(name)).await?)
    }

    pub async fn history(
        &self,
        name: &JobName,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<JobVersion>> {
        let versions = self.backend.history(&self.key(name), limit, before).await?;
        Ok(versions.into_iter().map(|entry| JobVersion::of(name, entry)).collect())
    }

    pub async fn list(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
        at: Option<At>,
    ) -> Result<JobPage> {
        let prefix = self.type_prefix(task_type);
        let filters = in_state(task_type, state)?;
        let after = after.map(|id| format!("{prefix}{id}"));
        let after = after.as_deref();
        let page = match self.historical_view(at).await? {
            None => self.backend.scan(&prefix, &filters, after, limit).await?,
            Some(view) => view.scan(&prefix, &filters, after, limit).await?,
        };
        Ok(self.page(&prefix, page))
    }

    fn page(&self, prefix: &str, page: RecordPage) -> JobPage {
        let count = page.records.len();
        let next = page.next;
        let jobs: Vec<Job> = page
            .records
            .into_iter()
            .filter_map(|(key, record)| self.decode(&key, record).ok())
            .collect();
        let unreadable = (count - jobs.len()) as u64;
        let next = next.and_then(|key| key.strip_prefix(prefix).map(str::to_owned));
        JobPage { jobs, next, unreadable }
    }

    pub async fn count(&self, task_type: &str, state: State, at: Option<At>) -> Result<u64> {
        let prefix = self.type_prefix(task_type);
        let filters = in_state(task_type, Some(state))?;
        match self.historical_view(at).await? {
            None => self.backend.count(&prefix, &filters).await,
            Some(view) => view.count(&prefix, &filters).await,
        }
    }

    async fn historical_view(&self, at: Option<At>) -> Result<Option<HistoricalView>> {
        match at {
            None | Some(At::Latest) => Ok(None),
            Some(at) => self.backend.at(at).await.map(Some),
        }
    }

    pub async fn params(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        let location = self.object_location(&job.name, field::PARAMS);
        self.objects().read(&location, job, field::PARAMS, field::PARAMS_REF).await
    }

    pub async fn result(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        let location = self.object_location(&job.name, field::RESULT);
        self.objects().read(&location, job, field::RESULT, field::RESULT_REF).await
    }

    /// Reads jobs as the writer sees them, which may be ahead of the published state.
    pub async fn get_written(&self, names: &[JobName]) -> Result<Vec<Option<Job>>> {
        let keys: Vec<String> = names.iter().map(|name| self.key(name)).collect();
        let records = self.backend.get_written(&keys).await?;
        names.iter().zip(records).map(|(name, record)| job_of(name, record)).collect()
    }

    /// Executes steps together with the extra commands.
    pub async fn execute(&self, mut steps: Vec<Step>) -> Result<Receipt> {
        steps.extend(self.extra_commands.iter().cloned().map(Step::from));
        self.backend.execute(steps).await
    }

    /// Reads a job, decides by its state and writes. Retries if the job changed meanwhile (optimistic
    /// concurrency).
    pub async fn update_job(
        &self,
        operation: OperationKind,
        name: &JobName,
        decide: impl Fn(Option<Record>) -> Result<Decision>,
    ) -> Result<State> {
        for attempt in 0..MAX_ATTEMPTS {
            let decision = decide(self.record(name, attempt > 0).await?)?;
            if let Some(state) = self.execute_decision(operation, decision).await? {
                return Ok(state);
            }
        }
        Err(failure::busy(&format!("job {name}")))
    }

    /// Reads a job's record. A retry reads it as the writer sees it, to include the write that it
    /// conflicted with.
    pub async fn record(&self, name: &JobName, is_retry: bool) -> Result<Option<Record>> {
        let key = self.key(name);
        if is_retry {
            Ok(self.backend.get_written(&[key]).await?.pop().flatten())
        } else {
            self.backend.get(&key).await
        }
    }

    /// Executes a decision. Returns `None` if the job changed meanwhile.
    pub async fn execute_decision(
        &self,
        operation: OperationKind,
        decision: Decision,
    ) -> Result<Option<State>> {
        let (steps, becomes) = match decision {
            Decision::NoChange(state) => return Ok(Some(state)),
            Decision::Write(steps, becomes) => (steps, becomes),
        };
        match self.execute(steps).await {
            Err(error) if error.code() == Code::MustFailed => Ok(None),
            Err(error) => Err(error),
            Ok(_) => {
                self.counters().count(operation, becomes);
                Ok(Some(becomes))
            }
        }
    }

    /// A write that sets the update time and is conditional on the job's state.
    pub fn write_to(&self, name: &JobName, state: State) -> Result<RecordWrite> {
        self.write_updated(name)?.when_field(field::STATE, state.as_str())
    }

    /// A write that fails a record that is not a readable job.
    pub fn failed_as_unreadable(&self, key: &str, why: &Error) -> Result<RecordWrite> {
        RecordWrite::to(key)?
            .set(field::UPDATED_AT, NOW)?
            .set(field::STATE, State::Failed.as_str())?
            .set(field::ERROR, truncated_error(&format!("its record cannot be read: {why}")))?
            .clear(field::TIMEOUT_AT)
    }

    /// Sets the expiry of a failed or cancelled job, unless other jobs depend on it.
    pub fn set_failed_ttl(&self, write: RecordWrite, fields: &Fields) -> Result<RecordWrite> {
        match (self.settings().keep_failed_ms, fields.get(field::DEPENDENTS)) {
            (Some(ms), None) => {
                // Conditional: no job may have begun to depend on it meanwhile.
                let field = Field::new(field::DEPENDENTS)?;
                Ok(write.when(Condition::Field { field, is: None }).ttl(Ttl::Millis(ms)))
            }
            _ => Ok(write),
        }
    }

    pub fn write_updated(&self, name: &JobName) -> Result<RecordWrite> {
        RecordWrite::to(&self.key(name))?.set(field::UPDATED_AT, NOW)
    }
}

/// A step whose error does not fail the other steps.
pub(crate) fn optional(command: impl Into<Command>) -> Step {
    Step { command: command.into(), demand: mainstay::Demand::Nothing }
}

pub(crate) fn job_of(name: &JobName, record: Option<Record>) -> Result<Option<Job>> {
    record.map(|record| Job::of(name.clone(), record)).transpose()
}

/// Filters for the jobs of a type, and of one state if given.
fn in_state(task_type: &str, state: Option<State>) -> Result<Vec<Where>> {
    name::check_type(task_type)?;
    match state {
        None => Ok(Vec::new()),
        Some(state) => {
            Ok(vec![equal(field::TASK_TYPE, task_type)?, equal(field::STATE, state.as_str())?])
        }
    }
}

/// Maximum length of a stored error text, in bytes.
const ERROR_LIMIT_BYTES: usize = 4096;
/// Suffix of a truncated text.
const TRUNCATION_MARK: &str = " […]";

/// Truncates an error text to the stored length.
pub(crate) fn truncated_error(text: &str) -> String {
    if text.len() <= ERROR_LIMIT_BYTES {
        return text.to_owned();
    }
    let mut cut_positions = (0..=ERROR_LIMIT_BYTES - TRUNCATION_MARK.len()).rev();
    let end = cut_positions.find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}{TRUNCATION_MARK}", &text[..end])
}

/// The transaction's time.
pub(crate) const NOW: FieldValue = FieldValue::Millis { plus: 0 };

/// The transaction's time plus `ms`.
pub(crate) fn in_ms(ms: u64) -> FieldValue {
    FieldValue::Millis { plus: i64::try_from(ms).unwrap_or(i64::MAX) }
}

/// A step that must take effect, or the whole transaction fails.
pub(crate) fn must(command: impl Into<Command>) -> Step {
    Step { command: command.into(), demand: mainstay::Demand::Effect }
}

pub(crate) fn equal(field: &str, value: &str) -> Result<Where> {
    Ok(Where { field: Field::new(field)?, test: Test::Eq(value.into()) })
}

pub(crate) fn below(field: &str, value: &str) -> Result<Where> {
    Ok(Where { field: Field::new(field)?, test: Test::Lt(value.into()) })
}

pub(crate) fn not_below(field: &str, value: &str) -> Result<Where> {
    Ok(Where { field: Field::new(field)?, test: Test::Ge(value.into()) })
}
