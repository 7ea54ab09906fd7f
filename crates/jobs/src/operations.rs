//! Operations on jobs, shared by the blocking, async and in-transaction handles.
//!
//! ```text
//!   Jobs (blocking)   AsyncJobs (async)   JobsIn (in a transaction)
//!               \          |            /
//!                Operations { settings, objects, bell, port }
//!
//!   operation --read--> current job --transition table--> one transaction, conditional on the job as read
//!                ^                                                     |
//!                '------------- job changed meanwhile: retry ----------'
//! ```

use crate::bell::Bell;
use crate::failure;
use crate::figures::{Act, Tally};
use crate::job::{Job, field};
use crate::name::{self, JobName};
use crate::objects::Objects;
use crate::port::{Past, Port};
use crate::settings::{Serve, Settings};
use crate::state::State;
use crate::version::JobVersion;
use mainstay::{
    At, Code, Command, Condition, Database, Error, Field, FieldValue, Fields, IndexCommand, MAIN,
    Receipt, Record, RecordPage, RecordWrite, Result, Stamp, Step, Test, Ttl, Where,
};
use object_store::ObjectStore;
use std::sync::Arc;

/// Maximum number of attempts of an operation when other writers change the job meanwhile.
pub(crate) const TRIES: usize = 1000;

/// The operations; see the module. Clones share everything.
#[derive(Clone)]
pub(crate) struct Operations<'t> {
    pub shared: Arc<Shared>,
    pub port: Arc<Port<'t>>,
    pub beside: Arc<[Command]>,
}

pub(crate) struct Shared {
    pub settings: Settings,
    pub objects: Objects,
    pub tally: Tally,
    /// `None` for a served database, where the server waits.
    pub bell: Option<Bell>,
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
pub(crate) enum Next {
    /// No write is needed: the job is already in this state.
    Done(State),
    /// The steps to execute, and the resulting state. The first step must take effect.
    Write(Vec<Step>, State),
}

impl Shared {
    pub fn new(
        db: Option<&Database>,
        settings: Settings,
        objects: Option<Arc<dyn ObjectStore>>,
    ) -> Arc<Shared> {
        let objects = Objects::new(objects, settings.inline_limit_bytes);
        let bell = db.filter(|db| db.is_here()).map(Bell::new);
        Arc::new(Shared { settings, objects, tally: Tally::default(), bell })
    }
}

impl Operations<'static> {
    pub fn new(shared: Arc<Shared>, port: Port<'static>) -> Operations<'static> {
        Operations { shared, port: Arc::new(port), beside: Arc::new([]) }
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
        match self.port.execute(vec![Command::from(command).into()]).await {
            // A user who may access only some job types may not declare indexes. The server's own jobs have
            // declared them already.
            Err(error) if matches!(error.code(), Code::IndexExists | Code::Forbidden) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Returns the operations on another branch. Fails if no such branch exists.
    pub async fn on_branch(&self, branch: &str) -> Result<Operations<'static>> {
        let port = Arc::new(self.port.on_branch(branch).await?);
        Ok(Operations { shared: self.shared.clone(), port, beside: self.beside.clone() })
    }
}

impl<'t> Operations<'t> {
    /// Returns the operations over another port.
    pub fn by<'p>(&self, port: Port<'p>) -> Operations<'p> {
        Operations { shared: self.shared.clone(), port: Arc::new(port), beside: Arc::new([]) }
    }

    /// Returns operations that execute these commands in each transaction.
    pub fn beside(&self, commands: impl IntoIterator<Item = Command>) -> Operations<'t> {
        let beside = commands.into_iter().collect();
        Operations { shared: self.shared.clone(), port: self.port.clone(), beside }
    }

    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub fn objects(&self) -> &Objects {
        &self.shared.objects
    }

    pub fn tally(&self) -> &Tally {
        &self.shared.tally
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
        let rest = key.strip_prefix(&self.prefix()).and_then(|rest| rest.split_once('.'));
        let (task_type, id) = rest.ok_or_else(failure::unexpected)?;
        JobName::new(task_type, id)
    }

    /// Decodes the record under a key as a job.
    pub fn read(&self, key: &str, record: Record) -> Result<Job> {
        Job::of(self.name_of(key)?, record)
    }

    /// Rejects claims and sweeps on a branch where jobs are not served.
    pub fn check_served(&self) -> Result<()> {
        match (self.settings().serve, self.port.branch()) {
            (Serve::AllBranches, _) | (_, MAIN) => Ok(()),
            (Serve::Main, branch) => Err(failure::not_served(branch)),
        }
    }

    pub async fn now_us(&self) -> Result<Stamp> {
        self.port.now_us().await
    }

    pub async fn get(&self, name: &JobName) -> Result<Option<Job>> {
        job_of(name, self.port.get(&self.key(name)).await?)
    }

    pub async fn get_at(&self, name: &JobName, at: At) -> Result<Option<Job>> {
        job_of(name, self.port.at(at).await?.get(&self.key(name)).await?)
    }

    pub async fn history(
        &self,
        name: &JobName,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<JobVersion>> {
        let versions = self.port.history(&self.key(name), limit, before).await?;
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
        let page = match self.past(at).await? {
            None => self.port.scan(&prefix, &filters, after, limit).await?,
            Some(past) => past.scan(&prefix, &filters, after, limit).await?,
        };
        Ok(self.page(&prefix, page))
    }

    fn page(&self, prefix: &str, page: RecordPage) -> JobPage {
        let count = page.records.len();
        let next = page.next;
        let jobs: Vec<Job> = page
            .records
            .into_iter()
            .filter_map(|(key, record)| self.read(&key, record).ok())
            .collect();
        let unreadable = (count - jobs.len()) as u64;
        let next = next.and_then(|key| key.strip_prefix(prefix).map(str::to_owned));
        JobPage { jobs, next, unreadable }
    }

    pub async fn count(&self, task_type: &str, state: State, at: Option<At>) -> Result<u64> {
        let prefix = self.type_prefix(task_type);
        let filters = in_state(task_type, Some(state))?;
        match self.past(at).await? {
            None => self.port.count(&prefix, &filters).await,
            Some(past) => past.count(&prefix, &filters).await,
        }
    }

    async fn past(&self, at: Option<At>) -> Result<Option<Past>> {
        match at {
            None | Some(At::Latest) => Ok(None),
            Some(at) => self.port.at(at).await.map(Some),
        }
    }

    pub async fn params(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        let at = self.object_at(&job.name, field::PARAMS);
        self.objects().read(&at, job, field::PARAMS, field::PARAMS_REF).await
    }

    pub async fn result(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        let at = self.object_at(&job.name, field::RESULT);
        self.objects().read(&at, job, field::RESULT, field::RESULT_REF).await
    }

    /// Reads jobs as the writer sees them, which may be ahead of the published state.
    pub async fn get_written(&self, names: &[JobName]) -> Result<Vec<Option<Job>>> {
        let keys: Vec<String> = names.iter().map(|name| self.key(name)).collect();
        let records = self.port.get_written(&keys).await?;
        names.iter().zip(records).map(|(name, record)| job_of(name, record)).collect()
    }

    /// Executes steps together with the commands beside them.
    pub async fn execute(&self, mut steps: Vec<Step>) -> Result<Receipt> {
        steps.extend(self.beside.iter().cloned().map(Step::from));
        self.port.execute(steps).await
    }

    /// Reads a job, decides by its state and writes. Retries if the job changed meanwhile (optimistic
    /// concurrency).
    pub async fn follow(
        &self,
        act: Act,
        name: &JobName,
        decide: impl Fn(Option<Record>) -> Result<Next>,
    ) -> Result<State> {
        for attempt in 0..TRIES {
            let next = decide(self.record(name, attempt > 0).await?)?;
            if let Some(state) = self.settle(act, next).await? {
                return Ok(state);
            }
        }
        Err(failure::busy(&format!("job {name}")))
    }

    /// Reads a job's record. A retry reads it as the writer sees it, to include the write that it
    /// conflicted with.
    pub async fn record(&self, name: &JobName, again: bool) -> Result<Option<Record>> {
        let key = self.key(name);
        if again {
            Ok(self.port.get_written(&[key]).await?.pop().flatten())
        } else {
            self.port.get(&key).await
        }
    }

    /// Executes a decision. Returns `None` if the job changed meanwhile.
    pub async fn settle(&self, act: Act, next: Next) -> Result<Option<State>> {
        let (steps, becomes) = match next {
            Next::Done(state) => return Ok(Some(state)),
            Next::Write(steps, becomes) => (steps, becomes),
        };
        match self.execute(steps).await {
            Err(error) if error.code() == Code::MustFailed => Ok(None),
            Err(error) => Err(error),
            Ok(_) => {
                self.tally().did(act, becomes);
                Ok(Some(becomes))
            }
        }
    }

    /// A write that sets the update time and is conditional on the job's state.
    pub fn write_to(&self, name: &JobName, state: State) -> Result<RecordWrite> {
        self.touch(name)?.when_field(field::STATE, state.as_str())
    }

    /// A write that fails a record that is not a readable job.
    pub fn failed_as_unreadable(&self, key: &str, why: &Error) -> Result<RecordWrite> {
        RecordWrite::to(key)?
            .set(field::UPDATED_AT, NOW)?
            .set(field::STATE, State::Failed.as_str())?
            .set(field::ERROR, error_text(&format!("its record cannot be read: {why}")))?
            .clear(field::TIMEOUT_AT)
    }

    /// Sets the expiry of a failed or cancelled job, unless other jobs depend on it.
    pub fn let_expire(&self, write: RecordWrite, fields: &Fields) -> Result<RecordWrite> {
        match (self.settings().keep_failed_ms, fields.get(field::DEPENDENTS)) {
            (Some(ms), None) => {
                // Conditional: no job may have begun to depend on it meanwhile.
                let field = Field::new(field::DEPENDENTS)?;
                Ok(write.when(Condition::Field { field, is: None }).ttl(Ttl::Millis(ms)))
            }
            _ => Ok(write),
        }
    }

    pub fn touch(&self, name: &JobName) -> Result<RecordWrite> {
        RecordWrite::to(&self.key(name))?.set(field::UPDATED_AT, NOW)
    }
}

/// A step whose error does not fail the other steps.
pub(crate) fn attempt(command: impl Into<Command>) -> Step {
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
const CUT: &str = " […]";

/// Truncates an error text to the stored length.
pub(crate) fn error_text(text: &str) -> String {
    if text.len() <= ERROR_LIMIT_BYTES {
        return text.to_owned();
    }
    let mut ends = (0..=ERROR_LIMIT_BYTES - CUT.len()).rev();
    let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}{CUT}", &text[..end])
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
