//! Submission of new jobs, alone or as a dependency graph.
//!
//! ```text
//!   submissions --cycles, duplicates--> rejected
//!        |
//!        v
//!   each dependency: completed? -> nothing to wait for
//!                    exists?    -> its `dependents` get the new job, the job's `blocked_by` counts it
//!                    absent?    -> rejected
//!        |
//!        v  one transaction, conditional on the state of the dependencies; retried if one has changed
//! ```

use crate::failure;
use crate::model::job::{self, Job, field};
use crate::model::name::{self, JobName};
use crate::model::sort_key;
use crate::model::state::State;
use crate::objects::StoredField;
use crate::operations::graph;
use crate::operations::{MAX_ATTEMPTS, NOW, Operations, must};
use crate::settings::check_duration;
use mainstay::limits::TRANSACTION_LIMIT_COMMANDS;
use mainstay::{Code, Condition, Field, FieldValue, RecordWrite, Result, Stamp, Step, Ttl};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of dependents of one job: its completion frees all of them in one transaction.
const DEPENDENTS_LIMIT: usize = 10_000;
/// Maximum total size of the dependents' records: a quarter of a transaction's limit, because records grow
/// when other jobs begin to depend on them.
const DEPENDENTS_LIMIT_BYTES: u64 = 16 << 20;
/// Maximum overhead of a record field besides its name and value.
const FIELD_BYTES: usize = 24;

/// Value of the field that marks an open dependency.
pub(crate) const OPEN_DEPENDENCY_MARK: &str = "1";

/// Builder for a job to submit.
///
/// ```
/// use mainstay_jobs::Submission;
/// let send = Submission::new("email", "17").params("to: a@b.c").priority(5).max_retries(1);
/// let report = Submission::new("report", "17").depends_on_job("email", "17");
/// # let _ = (send, report);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submission {
    task_type: String,
    id: String,
    params: Option<Vec<u8>>,
    depends_on: Vec<(Option<String>, String)>,
    priority: i32,
    run_at_ms: Option<u64>,
    timeout_ms: Option<u64>,
    max_retries: Option<u32>,
    step_count: Option<u64>,
}

impl Submission {
    /// A job without input that can run at once.
    pub fn new(task_type: &str, id: &str) -> Submission {
        let task_type = task_type.to_owned();
        let id = id.to_owned();
        Submission { task_type, id, ..Submission::default() }
    }

    /// Sets the input.
    #[must_use]
    pub fn params(mut self, params: impl Into<Vec<u8>>) -> Submission {
        self.params = Some(params.into());
        self
    }

    /// Adds a dependency: a job of the same type, which must complete first.
    #[must_use]
    pub fn depends_on(mut self, id: &str) -> Submission {
        self.depends_on.push((None, id.to_owned()));
        self
    }

    /// Adds a dependency: a job of any type, which must complete first.
    #[must_use]
    pub fn depends_on_job(mut self, task_type: &str, id: &str) -> Submission {
        self.depends_on.push((Some(task_type.to_owned()), id.to_owned()));
        self
    }

    /// Sets the priority. Higher ones are claimed first. Default: 0.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Submission {
        self.priority = priority;
        self
    }

    /// Sets the earliest time to run, in milliseconds since 1970.
    #[must_use]
    pub fn run_at_ms(mut self, run_at_ms: u64) -> Submission {
        self.run_at_ms = Some(run_at_ms);
        self
    }

    /// Sets the lease of its workers in milliseconds, unless the claim sets another.
    #[must_use]
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Submission {
        self.timeout_ms = Some(timeout_ms);
        self
    }

    /// Sets the maximum number of retries.
    #[must_use]
    pub fn max_retries(mut self, max_retries: u32) -> Submission {
        self.max_retries = Some(max_retries);
        self
    }

    /// Sets the total number of steps, if known.
    #[must_use]
    pub fn step_count(mut self, step_count: u64) -> Submission {
        self.step_count = Some(step_count);
        self
    }

    pub(crate) fn name(&self) -> Result<JobName> {
        JobName::new(&self.task_type, &self.id)
    }

    pub(crate) fn dependencies(&self) -> Result<Vec<JobName>> {
        let name_of = |(task_type, id): &(Option<String>, String)| {
            JobName::new(task_type.as_deref().unwrap_or(&self.task_type), id)
        };
        self.depends_on.iter().map(name_of).collect()
    }
}

/// A validated submission with its open dependencies.
struct NewJob<'s> {
    name: &'s JobName,
    submission: &'s Submission,
    input: Option<&'s StoredField>,
    depends_on: &'s [JobName],
    open_dependencies: Vec<&'s JobName>,
    dependents: Vec<JobName>,
}

/// Validated submissions with their dependencies.
struct Batch<'s> {
    submissions: &'s [Submission],
    inputs: Vec<Option<StoredField>>,
    graph: Vec<(JobName, Vec<JobName>)>,
    /// Dependencies on jobs outside the batch.
    external: Vec<JobName>,
}

impl<'s> Batch<'s> {
    fn check(submissions: &'s [Submission]) -> Result<Batch<'s>> {
        let graph = graph::check(submissions)?;
        submissions.iter().try_for_each(check_timeout)?;
        let internal: BTreeSet<&JobName> = graph.iter().map(|(name, _)| name).collect();
        let all = graph.iter().flat_map(|(_, depends_on)| depends_on);
        let external: BTreeSet<&JobName> = all.filter(|name| !internal.contains(name)).collect();
        let external = external.into_iter().cloned().collect();
        Ok(Batch { submissions, inputs: Vec::new(), graph, external })
    }
}

impl Operations<'_> {
    pub async fn submit(&self, submission: &Submission) -> Result<State> {
        self.submit_all(std::slice::from_ref(submission)).await.map(|states| states[0])
    }

    pub async fn submit_all(&self, submissions: &[Submission]) -> Result<Vec<State>> {
        let mut batch = Batch::check(submissions)?;
        self.check_size(&batch)?;
        for submission in submissions {
            batch.inputs.push(self.put_params(submission).await?);
        }
        for attempt in 0..MAX_ATTEMPTS {
            let (steps, states) = self.plan(&batch, attempt > 0).await?;
            match self.execute(steps).await {
                Err(error) if error.code() == Code::MustFailed => {
                    // Failed steps are numbered in order: the new jobs come first, then their dependencies.
                    let job = error.position().and_then(|position| batch.graph.get(position));
                    job.map_or(Ok(()), |(name, _)| Err(failure::exists(name)))?;
                }
                Err(error) => return Err(error),
                Ok(_) => {
                    self.counters().add(|stats| stats.submitted += states.len() as u64);
                    return Ok(states);
                }
            }
        }
        Err(failure::busy("what the jobs depend on"))
    }

    fn check_size(&self, batch: &Batch<'_>) -> Result<()> {
        let limit = TRANSACTION_LIMIT_COMMANDS.saturating_sub(self.extra_commands.len());
        let count = batch.graph.len() + batch.external.len();
        if count > limit { Err(failure::too_many(count, limit)) } else { Ok(()) }
    }

    async fn put_params(&self, submission: &Submission) -> Result<Option<StoredField>> {
        let Some(params) = &submission.params else { return Ok(None) };
        let location = self.object_location(&submission.name()?, field::PARAMS);
        let write = self.objects().write(&location, params, field::PARAMS, field::PARAMS_REF);
        write.await.map(Some)
    }

    /// Builds the steps that write the jobs and update their dependencies, and the jobs' states.
    async fn plan(&self, batch: &Batch<'_>, is_retry: bool) -> Result<(Vec<Step>, Vec<State>)> {
        let external = self.read_dependencies(&batch.external, is_retry).await?;
        let new_jobs = resolve(batch, &external)?;
        if self.backend.is_in_transaction() {
            self.reject_existing(batch).await?;
        }
        let now = self.now_us().await?;
        let planned = new_jobs.iter().map(|new_job| self.job_write(new_job, now));
        let (writes, states): (Vec<_>, Vec<_>) =
            planned.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let names = batch.graph.iter().map(|(name, _)| name);
        let sizes: RecordSizes<'_> = names.zip(writes.iter().map(weight_bytes)).collect();
        let mut steps = Vec::with_capacity(writes.len() + external.len());
        for (write, new_job) in writes.into_iter().zip(&new_jobs) {
            steps.push(must(with_dependents(write, new_job, &sizes)?));
        }
        let mut waiting = graph::dependents_of(batch.external.iter(), &batch.graph);
        for job in external.values().filter(|job| job.state != State::Completed) {
            let added = waiting.remove(&job.name).unwrap_or_default();
            let added_bytes = added.iter().filter_map(|name| sizes.get(name)).sum();
            steps.push(must(self.add_dependents(job, added, added_bytes)?));
        }
        Ok((steps, states))
    }

    /// Reads dependencies in their current state.
    pub async fn read_dependencies(
        &self,
        names: &[JobName],
        is_retry: bool,
    ) -> Result<BTreeMap<JobName, Job>> {
        let jobs = match (names, is_retry) {
            ([], _) => Vec::new(),
            ([one], false) => vec![self.get(one).await?],
            _ => self.get_written(names).await?,
        };
        let pairs = names.iter().cloned().zip(jobs);
        Ok(pairs.filter_map(|(name, job)| job.map(|job| (name, job))).collect())
    }

    /// An open transaction keeps the steps before a failed one, so check for existing jobs first.
    async fn reject_existing(&self, batch: &Batch<'_>) -> Result<()> {
        for (name, _) in &batch.graph {
            if self.get(name).await?.is_some() {
                return Err(failure::exists(name));
            }
        }
        Ok(())
    }

    /// Builds the write that adds dependents to a job, conditional on the job being unchanged.
    pub fn add_dependents(
        &self,
        job: &Job,
        added: Vec<JobName>,
        added_bytes: u64,
    ) -> Result<RecordWrite> {
        // A dependent that was deleted and submitted again is already in the list.
        let listed: BTreeSet<&JobName> = job.dependents.iter().collect();
        let added = added.into_iter().filter(|name| !listed.contains(name));
        let all: Vec<JobName> = job.dependents.iter().cloned().chain(added).collect();
        let all_bytes = job.dependents_bytes.saturating_add(added_bytes);
        check_dependents(&job.name, all.len(), all_bytes)?;
        let is = job.fields.get(field::DEPENDENTS).map(<[u8]>::to_vec);
        Ok(RecordWrite::to(&self.key(&job.name))?
            .when_field(field::STATE, job.state.as_str())?
            .when(Condition::Field { field: Field::new(field::DEPENDENTS)?, is })
            .set(field::DEPENDENTS, name::join(&all))?
            .set(field::DEPENDENTS_BYTES, all_bytes.to_string())?
            // A job with dependents must not expire.
            .ttl(Ttl::Clear))
    }

    fn job_write(&self, new_job: &NewJob<'_>, now: Stamp) -> Result<(RecordWrite, State)> {
        let NewJob { name, submission, .. } = *new_job;
        let state =
            if new_job.open_dependencies.is_empty() { State::Pending } else { State::Blocked };
        let settings = self.settings();
        let task_type = name.task_type();
        let timeout_ms = submission.timeout_ms.unwrap_or_else(|| settings.timeout_ms(task_type));
        let max_retries = submission.max_retries.unwrap_or_else(|| settings.max_retries(task_type));
        let mut write = RecordWrite::to(&self.key(name))?
            .when_counter(None)
            .set(field::STATE, state.as_str())?
            .set(field::TASK_TYPE, task_type)?
            .set(field::TASK_ID, name.id())?
            .set(field::CREATED_AT, NOW)?
            .set(field::UPDATED_AT, NOW)?
            .set(field::RETRY_COUNT, "0")?
            .set(field::MAX_RETRIES, max_retries.to_string())?
            .set(field::TIMEOUT_MS, timeout_ms.to_string())?
            .set(field::PRIORITY, submission.priority.to_string())?;
        write = sort_key::SortKey::of(submission.priority, submission.run_at_ms, now)
            .apply_to(write)?;
        if let Some((field, value)) = new_job.input {
            write = write.set(field, value)?;
        }
        Ok((with_options(write, new_job)?, state))
    }
}

/// Resolves the open dependencies and the dependents of each new job.
fn resolve<'s>(batch: &'s Batch<'_>, external: &BTreeMap<JobName, Job>) -> Result<Vec<NewJob<'s>>> {
    let internal = graph::dependents(&batch.graph);
    let mut new_jobs = Vec::with_capacity(batch.graph.len());
    let inputs = batch.submissions.iter().zip(&batch.inputs);
    for ((name, depends_on), (submission, input)) in batch.graph.iter().zip(inputs) {
        let mut open_dependencies = Vec::new();
        for dependency in depends_on {
            let is_complete = match external.get(dependency) {
                Some(job) => job.state == State::Completed,
                None if internal.contains_key(dependency) => false,
                None => return Err(failure::unknown_dependency(name, dependency)),
            };
            if !is_complete {
                open_dependencies.push(dependency);
            }
        }
        let dependents = internal.get(name).cloned().unwrap_or_default();
        let input = input.as_ref();
        new_jobs.push(NewJob {
            name,
            submission,
            input,
            depends_on,
            open_dependencies,
            dependents,
        });
    }
    Ok(new_jobs)
}

fn with_options(mut write: RecordWrite, new_job: &NewJob<'_>) -> Result<RecordWrite> {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let names = |names: &[JobName]| (!names.is_empty()).then(|| name::join(names));
    let blocked_by =
        (!new_job.depends_on.is_empty()).then(|| new_job.open_dependencies.len().to_string());
    let options = [
        (field::STEP_COUNT, number(new_job.submission.step_count)),
        (field::RUN_AT, number(new_job.submission.run_at_ms)),
        (field::DEPENDS_ON, names(new_job.depends_on)),
        (field::BLOCKED_BY, blocked_by),
    ];
    for (field, value) in options {
        if let Some(value) = value {
            write = write.set(field, value)?;
        }
    }
    mark_dependencies(write, new_job.open_dependencies.iter().copied())
}

/// Approximate size of each new job's record in bytes.
type RecordSizes<'n> = BTreeMap<&'n JobName, u64>;

/// Approximate size in bytes of the record that a write creates.
fn weight_bytes(write: &RecordWrite) -> u64 {
    let field_bytes = |(field, value): &(Field, FieldValue)| match value {
        FieldValue::Bytes(bytes) => field.as_bytes().len() + bytes.len() + FIELD_BYTES,
        _ => field.as_bytes().len() + 2 * FIELD_BYTES,
    };
    (write.key.as_str().len() + write.set.iter().map(field_bytes).sum::<usize>()) as u64
}

/// Adds the dependents within the batch to a new job.
fn with_dependents(
    write: RecordWrite,
    new_job: &NewJob<'_>,
    sizes: &RecordSizes<'_>,
) -> Result<RecordWrite> {
    if new_job.dependents.is_empty() {
        return Ok(write);
    }
    let bytes = new_job.dependents.iter().filter_map(|name| sizes.get(name)).sum();
    check_dependents(new_job.name, new_job.dependents.len(), bytes)?;
    write
        .set(field::DEPENDENTS, name::join(&new_job.dependents))?
        .set(field::DEPENDENTS_BYTES, bytes.to_string())
}

/// Rejects dependents that would not fit into the transaction that completes the job.
fn check_dependents(name: &JobName, count: usize, bytes: u64) -> Result<()> {
    if count > DEPENDENTS_LIMIT {
        return Err(failure::too_many_dependents(name, DEPENDENTS_LIMIT));
    }
    if bytes > DEPENDENTS_LIMIT_BYTES {
        return Err(failure::too_large_dependents(name, DEPENDENTS_LIMIT_BYTES));
    }
    Ok(())
}

/// Marks the open dependencies in a job's record.
pub(crate) fn mark_dependencies<'n>(
    write: RecordWrite,
    all: impl Iterator<Item = &'n JobName>,
) -> Result<RecordWrite> {
    let mut all = all;
    all.try_fold(write, |write, dependency| {
        write.set(&job::waits_for(dependency), OPEN_DEPENDENCY_MARK)
    })
}

fn check_timeout(submission: &Submission) -> Result<()> {
    submission.timeout_ms.map_or(Ok(()), |timeout_ms| check_duration(timeout_ms, "timeout_ms"))
}
