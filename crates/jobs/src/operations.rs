//! What all faces share: where jobs are kept and how they are read and written, however the caller waits.
//!
//! ```text
//!   Jobs (waits)   AsyncJobs (awaits)   JobsIn (in a transaction)
//!              \          |            /
//!               Operations { settings, objects, bell, port }
//!
//!   operation --read--> job as it stands --table of transitions--> one transaction, conditional on what was read
//!                ^                                                     |
//!                '------------- somebody was faster: again ------------'
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

/// How often an operation looks again when others change the job in between.
pub(crate) const TRIES: usize = 1000;

/// See the module. Clones share everything.
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
    /// Nothing where the database is served: there the server waits.
    pub bell: Option<Bell>,
}

/// Jobs in the order of their ids, and where the next page begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Pass this as `after` for the next page; `None` at the end.
    pub next: Option<String>,
    /// How many records of the page could not be read as jobs; they are left out.
    pub unreadable: u64,
}

/// What an operation does with a job as it stands.
pub(crate) enum Next {
    /// Nothing: that is how it stands already.
    Done(State),
    /// This, after which it stands so. The first step has to take effect.
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

    /// Declares the indexes that jobs need, if that has not been done.
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
            // Who works on some types only may not declare anything: whoever serves the jobs has done it.
            Err(error) if matches!(error.code(), Code::IndexExists | Code::Forbidden) => Ok(()),
            other => other.map(drop),
        }
    }

    /// The same on another branch, which has to be there.
    pub async fn on_branch(&self, branch: &str) -> Result<Operations<'static>> {
        let port = Arc::new(self.port.on_branch(branch).await?);
        Ok(Operations { shared: self.shared.clone(), port, beside: self.beside.clone() })
    }
}

impl<'t> Operations<'t> {
    /// The same by another way.
    pub fn by<'p>(&self, port: Port<'p>) -> Operations<'p> {
        Operations { shared: self.shared.clone(), port: Arc::new(port), beside: Arc::new([]) }
    }

    /// The same with these commands in each transaction.
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

    /// What the keys of all jobs begin with.
    pub fn prefix(&self) -> String {
        format!("{}state.tasks.", self.settings().namespace)
    }

    /// What the keys of a type's jobs begin with.
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

    /// The job that a record under a key is.
    pub fn read(&self, key: &str, record: Record) -> Result<Job> {
        Job::of(self.name_of(key)?, record)
    }

    /// Refuses to hand out or take away jobs where they are not served.
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
        let (prefix, filters) = (self.type_prefix(task_type), in_state(task_type, state)?);
        let after = after.map(|id| format!("{prefix}{id}"));
        let after = after.as_deref();
        let page = match self.past(at).await? {
            None => self.port.scan(&prefix, &filters, after, limit).await?,
            Some(past) => past.scan(&prefix, &filters, after, limit).await?,
        };
        Ok(self.page(&prefix, page))
    }

    fn page(&self, prefix: &str, page: RecordPage) -> JobPage {
        let (count, next) = (page.records.len(), page.next);
        let job = |(key, record): (String, _)| self.read(&key, record).ok();
        let jobs: Vec<Job> = page.records.into_iter().filter_map(job).collect();
        let unreadable = (count - jobs.len()) as u64;
        let next = next.and_then(|key| key.strip_prefix(prefix).map(str::to_owned));
        JobPage { jobs, next, unreadable }
    }

    pub async fn count(&self, task_type: &str, state: State, at: Option<At>) -> Result<u64> {
        let (prefix, filters) = (self.type_prefix(task_type), in_state(task_type, Some(state))?);
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

    /// Jobs as the writer sees them, which may be ahead of what readers see.
    pub async fn get_written(&self, names: &[JobName]) -> Result<Vec<Option<Job>>> {
        let keys: Vec<String> = names.iter().map(|name| self.key(name)).collect();
        let records = self.port.get_written(&keys).await?;
        names.iter().zip(records).map(|(name, record)| job_of(name, record)).collect()
    }

    /// Executes steps with what is to be done beside them.
    pub async fn execute(&self, mut steps: Vec<Step>) -> Result<Receipt> {
        steps.extend(self.beside.iter().cloned().map(Step::from));
        self.port.execute(steps).await
    }

    /// Does with a job what follows from how it stands, again while others change it in between.
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

    /// The record of a job, as the writer sees it if somebody was faster before.
    pub async fn record(&self, name: &JobName, again: bool) -> Result<Option<Record>> {
        let key = self.key(name);
        match again {
            false => self.port.get(&key).await,
            true => Ok(self.port.get_written(&[key]).await?.pop().flatten()),
        }
    }

    /// Does what was decided; nothing where somebody was faster.
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

    /// A write that says when it was, and takes effect only while the job is in this state.
    pub fn write_to(&self, name: &JobName, state: State) -> Result<RecordWrite> {
        self.touch(name)?.when_field(field::STATE, state.as_str())
    }

    /// What fails a record that cannot be read as a job.
    pub fn failed_as_unreadable(&self, key: &str, why: &Error) -> Result<RecordWrite> {
        RecordWrite::to(key)?
            .set(field::UPDATED_AT, NOW)?
            .set(field::STATE, State::Failed.as_str())?
            .set(field::ERROR, error_text(&format!("its record cannot be read: {why}")))?
            .clear(field::TIMEOUT_AT)
    }

    /// Lets what ended without success go after a while, unless somebody waits for it.
    pub fn let_expire(&self, write: RecordWrite, fields: &Fields) -> Result<RecordWrite> {
        match (self.settings().keep_failed_ms, fields.get(field::DEPENDENTS)) {
            (Some(ms), None) => {
                // Nor may anybody have begun to.
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

/// A step whose error is no error of the others.
pub(crate) fn attempt(command: impl Into<Command>) -> Step {
    Step { command: command.into(), demand: mainstay::Demand::Nothing }
}

pub(crate) fn job_of(name: &JobName, record: Option<Record>) -> Result<Option<Job>> {
    record.map(|record| Job::of(name.clone(), record)).transpose()
}

/// What finds the jobs of a type, those in one state if that is given.
fn in_state(task_type: &str, state: Option<State>) -> Result<Vec<Where>> {
    name::check_type(task_type)?;
    match state {
        None => Ok(Vec::new()),
        Some(state) => {
            Ok(vec![equal(field::TASK_TYPE, task_type)?, equal(field::STATE, state.as_str())?])
        }
    }
}

/// The longest text of an error that a record keeps, in bytes.
const ERROR_LIMIT_BYTES: usize = 4096;
/// What stands at the end of a text that was cut.
const CUT: &str = " […]";

/// The text of an error as a record keeps it.
pub(crate) fn error_text(text: &str) -> String {
    if text.len() <= ERROR_LIMIT_BYTES {
        return text.to_owned();
    }
    let mut ends = (0..=ERROR_LIMIT_BYTES - CUT.len()).rev();
    let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}{CUT}", &text[..end])
}

/// The transaction's own time.
pub(crate) const NOW: FieldValue = FieldValue::Millis { plus: 0 };

/// The transaction's own time, and so much more.
pub(crate) fn in_ms(ms: u64) -> FieldValue {
    FieldValue::Millis { plus: i64::try_from(ms).unwrap_or(i64::MAX) }
}

/// A step without whose effect nothing happens.
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
