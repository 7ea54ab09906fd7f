//! The handle: where jobs are kept and how they are read and written.
//!
//! ```text
//!   operation --read--> job as it stands --table of transitions--> one transaction, conditional on what was read
//!                ^                                                     |
//!                '------------- somebody was faster: again ------------'
//! ```

use crate::asynchronous::AsyncJobs;
use crate::failure;
use crate::figures::JobFigures;
use crate::job::{Job, field};
use crate::lock::Locks;
use crate::name::{self, JobName};
use crate::objects::Objects;
use crate::settings::Settings;
use crate::state::State;
use crate::tidy::TidyReport;
use crate::version::JobVersion;
use mainstay::{
    Answer, At, Code, Command, Database, Durability, Field, Name, Receipt, Record, RecordCommand,
    RecordHistoryEntry, RecordWrite, Records, Result, Stamp, Step, Test, Transaction, Where,
};
use object_store::ObjectStore;
use std::sync::Arc;

/// How often an operation looks again when others change the job in between.
const TRIES: usize = 1000;

/// The jobs of a database under one namespace.
///
/// Clones share everything. See the [crate] for an example.
#[derive(Clone)]
pub struct Jobs {
    shared: Arc<Shared>,
    beside: Arc<[Command]>,
}

struct Shared {
    db: Database,
    records: Records,
    settings: Settings,
    objects: Objects,
}

/// Jobs in the order of their ids, and where the next page begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Pass this as `after` for the next page; `None` at the end.
    pub next: Option<String>,
}

/// What an operation does with a job as it stands.
pub(crate) enum Next {
    /// Nothing: that is how it stands already.
    Done(State),
    /// This, after which it stands so. The first step has to take effect.
    Write(Vec<Step>, State),
}

impl Jobs {
    /// Jobs with their large input and output nowhere: what does not fit into a field is refused.
    ///
    /// Declares the indexes that jobs need, if that has not been done.
    pub fn open(db: &Database, settings: Settings) -> Result<Jobs> {
        Jobs::open_over(db, settings, None)
    }

    /// Jobs with their large input and output in an object store.
    pub fn open_with(
        db: &Database,
        settings: Settings,
        objects: Arc<dyn ObjectStore>,
    ) -> Result<Jobs> {
        Jobs::open_over(db, settings, Some(objects))
    }

    fn open_over(
        db: &Database,
        settings: Settings,
        objects: Option<Arc<dyn ObjectStore>>,
    ) -> Result<Jobs> {
        settings.check()?;
        let objects = Objects::new(objects, settings.inline_limit_bytes);
        let shared = Shared { db: db.clone(), records: db.records(), settings, objects };
        let jobs = Jobs { shared: Arc::new(shared), beside: Arc::new([]) };
        jobs.declare(&[field::TASK_TYPE, field::STATE, field::RANK])?;
        jobs.declare(&[field::STATE, field::TIMEOUT_AT])?;
        if jobs.settings().stuck_after_ms.is_some() {
            jobs.declare(&[field::STATE, field::UPDATED_AT])?;
        }
        Ok(jobs)
    }

    fn declare(&self, fields: &[&str]) -> Result<()> {
        match self.records().add_index(&self.prefix(), fields) {
            Err(error) if error.code() != Code::IndexExists => Err(error),
            _ => Ok(()),
        }
    }

    /// A handle whose operations carry these commands in their own transaction: they take effect if and only
    /// if the operation does, which makes "the job is completed" and "the event is written" one step. An
    /// operation that is repeated after its reply was lost does them once.
    ///
    /// ```
    /// use mainstay::{CellCommand, Database, Name};
    /// use mainstay_jobs::{Jobs, Settings, Submission};
    /// let db = Database::memory()?;
    /// let jobs = Jobs::open(&db, Settings::default())?;
    /// jobs.submit(&Submission::new("email", "1"))?;
    /// let claimed = jobs.claim("email", "worker 1", None)?.expect("there is one");
    /// let event = CellCommand::set(Name::new("email/1/done")?, "sent");
    /// jobs.beside([event.into()]).complete(&claimed.grant, None)?;
    /// assert_eq!(db.cells().get("email/1/done")?, Some("sent".into()));
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    #[must_use]
    pub fn beside(&self, commands: impl IntoIterator<Item = Command>) -> Jobs {
        Jobs { shared: self.shared.clone(), beside: commands.into_iter().collect() }
    }

    /// What holds for these jobs.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The database they are in.
    pub fn database(&self) -> &Database {
        &self.shared.db
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.shared.objects
    }

    pub(crate) fn records(&self) -> &Records {
        &self.shared.records
    }

    /// What the keys of all jobs begin with.
    pub(crate) fn prefix(&self) -> String {
        format!("{}state.tasks.", self.settings().namespace)
    }

    /// What the keys of a type's jobs begin with.
    pub(crate) fn type_prefix(&self, task_type: &str) -> String {
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
    pub(crate) fn read(&self, key: &str, record: Record) -> Result<Job> {
        Job::of(self.name_of(key)?, record)
    }

    /// The database's time in microseconds; leases and `run_at` go by it.
    pub fn now_us(&self) -> Result<Stamp> {
        let nothing = Transaction::new().durability(Durability::Memory);
        Ok(self.shared.db.execute(nothing)?.stamp)
    }

    /// A job as it stands.
    pub fn get(&self, name: &JobName) -> Result<Option<Job>> {
        let record = self.records().get(&self.key(name))?;
        record.map(|record| Job::of(name.clone(), record)).transpose()
    }

    /// A job as it was.
    pub fn get_at(&self, name: &JobName, at: At) -> Result<Option<Job>> {
        let record = self.records().at(at)?.get(&self.key(name))?;
        record.map(|record| Job::of(name.clone(), record)).transpose()
    }

    /// The same on another branch, which has to be there.
    pub fn on_branch(&self, branch: &str) -> Result<Jobs> {
        self.database().branch(branch).map(|_| self.clone())
    }

    /// The branch they are on.
    pub fn branch(&self) -> &str {
        mainstay::MAIN
    }

    /// The same, to be awaited; of a database in this process.
    pub fn to_async(&self) -> Result<AsyncJobs> {
        Ok(AsyncJobs(self.clone()))
    }

    /// Locks of the same namespace on the same branch.
    pub fn locks(&self) -> Locks {
        Locks::open(self.database(), &self.settings().namespace)
    }

    /// What was done through this handle and its clones.
    pub fn figures(&self) -> JobFigures {
        JobFigures::default()
    }

    /// The versions of a job, newest first; `before` leaves out counters from it on.
    pub fn history(
        &self,
        name: &JobName,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<JobVersion>> {
        let versions = self.versions(name, limit, before)?.into_iter().map(|entry| {
            let (fields, counter, expires) = (entry.fields, entry.counter, None);
            let record = |fields| Record {
                fields,
                counter,
                expires,
                revision: entry.revision,
                stamp: entry.stamp,
            };
            let job = fields.map(|fields| Job::of(name.clone(), record(fields))).transpose()?;
            Ok(JobVersion { revision: entry.revision, stamp: entry.stamp, counter, job })
        });
        versions.collect()
    }

    pub(crate) fn versions(
        &self,
        name: &JobName,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<RecordHistoryEntry>> {
        self.records().history(&self.key(name), limit, before)
    }

    /// As [`Jobs::list`], as it was.
    pub fn list_at(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
        _at: At,
    ) -> Result<JobPage> {
        self.list(task_type, state, after, limit)
    }

    /// As [`Jobs::count`], as it was.
    pub fn count_at(&self, task_type: &str, state: State, _at: At) -> Result<u64> {
        self.count(task_type, state)
    }

    /// Deletes objects older than this that no record names.
    pub fn tidy(&self, _older_than: std::time::Duration) -> Result<TidyReport> {
        Ok(TidyReport::default())
    }

    /// The jobs of a type in the order of their ids, those in one state if that is given, behind an id.
    pub fn list(
        &self,
        task_type: &str,
        state: Option<State>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<JobPage> {
        name::check_type(task_type)?;
        let prefix = self.type_prefix(task_type);
        let after = after.map(|id| format!("{prefix}{id}"));
        let mut filters = Vec::new();
        if let Some(state) = state {
            filters.push(equal(field::TASK_TYPE, task_type)?);
            filters.push(equal(field::STATE, state.as_str())?);
        }
        let page = self.records().scan(&prefix, &filters, after.as_deref(), limit)?;
        let job = |(key, record): (String, _)| self.read(&key, record);
        let next = page.next.and_then(|key| key.strip_prefix(&prefix).map(str::to_owned));
        Ok(JobPage { jobs: page.records.into_iter().map(job).collect::<Result<_>>()?, next })
    }

    /// How many jobs of a type are in a state.
    pub fn count(&self, task_type: &str, state: State) -> Result<u64> {
        name::check_type(task_type)?;
        let filters = [equal(field::TASK_TYPE, task_type)?, equal(field::STATE, state.as_str())?];
        self.records().count(&self.type_prefix(task_type), &filters)
    }

    /// A job's input.
    pub fn params(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        self.objects().read(job, field::PARAMS, field::PARAMS_REF)
    }

    /// A job's output.
    pub fn result(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        self.objects().read(job, field::RESULT, field::RESULT_REF)
    }

    /// A job as the writer sees it, which may be ahead of what readers see.
    fn get_written(&self, name: &JobName) -> Result<Option<Job>> {
        let get = RecordCommand::Get { key: Name::new(&self.key(name))?, fields: None };
        let receipt = self.shared.db.execute(Transaction::new().step(get))?;
        match receipt.answers.into_iter().next() {
            Some(Answer::Record(record)) => {
                record.map(|record| Job::of(name.clone(), record)).transpose()
            }
            _ => Err(failure::unexpected()),
        }
    }

    /// Executes steps of which the first has to take effect, with what is to be done beside them.
    pub(crate) fn execute(&self, steps: Vec<Step>) -> Result<Receipt> {
        let mut transaction = Transaction::new();
        transaction.steps.extend(steps);
        transaction.steps.extend(self.beside.iter().cloned().map(Step::from));
        self.shared.db.execute(transaction)
    }

    pub(crate) fn beside_commands(&self) -> &[Command] {
        &self.beside
    }

    /// Does with a job what follows from how it stands, again while others change it in between.
    pub(crate) fn follow(
        &self,
        name: &JobName,
        decide: impl Fn(Option<Job>) -> Result<Next>,
    ) -> Result<State> {
        for attempt in 0..TRIES {
            let job = if attempt == 0 { self.get(name)? } else { self.get_written(name)? };
            let (steps, becomes) = match decide(job)? {
                Next::Done(state) => return Ok(state),
                Next::Write(steps, becomes) => (steps, becomes),
            };
            match self.execute(steps) {
                Err(error) if error.code() == Code::MustFailed => {}
                other => return other.map(|_| becomes),
            }
        }
        Err(failure::busy(&format!("job {name}")))
    }

    /// A write that says when it was, and takes effect only while the job is in this state.
    pub(crate) fn write_to(&self, job: &Job) -> Result<RecordWrite> {
        self.touch(&job.name)?.when_field(field::STATE, job.state.as_str())
    }

    pub(crate) fn touch(&self, name: &JobName) -> Result<RecordWrite> {
        RecordWrite::to(&self.key(name))?.set(field::UPDATED_AT, NOW)
    }
}

/// The transaction's own time.
pub(crate) const NOW: mainstay::FieldValue = mainstay::FieldValue::Millis { plus: 0 };

/// The transaction's own time, and so much more.
pub(crate) fn in_ms(ms: u64) -> mainstay::FieldValue {
    mainstay::FieldValue::Millis { plus: i64::try_from(ms).unwrap_or(i64::MAX) }
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
