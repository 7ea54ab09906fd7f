//! Submitting: new jobs, alone or as a graph.
//!
//! ```text
//!   submissions --circles, doubles--> refused
//!        |
//!        v
//!   each dependency: completed? -> nothing to wait for
//!                    there?     -> its `dependents` get the new job, the job's `blocked_by` counts it
//!                    absent?    -> refused
//!        |
//!        v  one transaction, conditional on how the dependencies stand; again if one has moved on
//! ```

use crate::failure;
use crate::graph;
use crate::job::{self, Job, field};
use crate::name::{self, JobName};
use crate::objects::Placed;
use crate::operations::{NOW, Operations, TRIES, must};
use crate::rank;
use crate::settings::check_duration;
use crate::state::State;
use mainstay::limits::TRANSACTION_LIMIT_COMMANDS;
use mainstay::{Code, Condition, Field, FieldValue, RecordWrite, Result, Stamp, Step, Ttl};
use std::collections::{BTreeMap, BTreeSet};

/// How many jobs may wait for one: its completion frees all of them in one transaction.
const DEPENDENTS_LIMIT: usize = 10_000;
/// How many bytes their records may take together: a quarter of what a transaction may write, since they grow when
/// others begin to wait for them.
const DEPENDENTS_LIMIT_BYTES: u64 = 16 << 20;
/// What a field of a record takes beside its name and its value, at most.
const FIELD_BYTES: usize = 24;

/// What stands in the field of a dependency that is waited for.
pub(crate) const WAITS: &str = "1";

/// A job to be submitted.
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
        let (task_type, id) = (task_type.to_owned(), id.to_owned());
        Submission { task_type, id, ..Submission::default() }
    }

    /// Its input.
    #[must_use]
    pub fn params(mut self, params: impl Into<Vec<u8>>) -> Submission {
        self.params = Some(params.into());
        self
    }

    /// It runs once the job of its own type with this id is completed.
    #[must_use]
    pub fn depends_on(mut self, id: &str) -> Submission {
        self.depends_on.push((None, id.to_owned()));
        self
    }

    /// It runs once a job of any type is completed.
    #[must_use]
    pub fn depends_on_job(mut self, task_type: &str, id: &str) -> Submission {
        self.depends_on.push((Some(task_type.to_owned()), id.to_owned()));
        self
    }

    /// Jobs of a higher priority are claimed first; 0 where nothing is said.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Submission {
        self.priority = priority;
        self
    }

    /// It is not claimed before this moment, in milliseconds since 1970.
    #[must_use]
    pub fn run_at_ms(mut self, run_at_ms: u64) -> Submission {
        self.run_at_ms = Some(run_at_ms);
        self
    }

    /// How long its worker may be silent, unless the claim says otherwise.
    #[must_use]
    pub fn timeout_ms(mut self, timeout_ms: u64) -> Submission {
        self.timeout_ms = Some(timeout_ms);
        self
    }

    /// How often it may be tried again.
    #[must_use]
    pub fn max_retries(mut self, max_retries: u32) -> Submission {
        self.max_retries = Some(max_retries);
        self
    }

    /// How many steps it has, if that is known.
    #[must_use]
    pub fn step_count(mut self, step_count: u64) -> Submission {
        self.step_count = Some(step_count);
        self
    }

    pub(crate) fn name(&self) -> Result<JobName> {
        JobName::new(&self.task_type, &self.id)
    }

    pub(crate) fn dependencies(&self) -> Result<Vec<JobName>> {
        let one = |(task_type, id): &(Option<String>, String)| {
            JobName::new(task_type.as_deref().unwrap_or(&self.task_type), id)
        };
        self.depends_on.iter().map(one).collect()
    }
}

/// A checked submission, and what it waits for.
struct New<'s> {
    name: &'s JobName,
    submission: &'s Submission,
    input: Option<&'s Placed>,
    depends_on: &'s [JobName],
    waits_for: Vec<&'s JobName>,
    dependents: Vec<JobName>,
}

/// Submissions that make sense, each with what it depends on.
struct Batch<'s> {
    submissions: &'s [Submission],
    inputs: Vec<Option<Placed>>,
    graph: Vec<(JobName, Vec<JobName>)>,
    /// What they depend on beside each other.
    outside: Vec<JobName>,
}

impl<'s> Batch<'s> {
    fn check(submissions: &'s [Submission]) -> Result<Batch<'s>> {
        let graph = graph::check(submissions)?;
        submissions.iter().try_for_each(check_input)?;
        let inside: BTreeSet<&JobName> = graph.iter().map(|(name, _)| name).collect();
        let all = graph.iter().flat_map(|(_, depends_on)| depends_on);
        let outside: BTreeSet<&JobName> = all.filter(|name| !inside.contains(name)).collect();
        let outside = outside.into_iter().cloned().collect();
        Ok(Batch { submissions, inputs: Vec::new(), graph, outside })
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
        for attempt in 0..TRIES {
            let (steps, states) = self.plan(&batch, attempt > 0).await?;
            match self.execute(steps).await {
                Err(error) if error.code() == Code::MustFailed => {
                    // The jobs come first, then what they depend on.
                    let job = error.position().and_then(|position| batch.graph.get(position));
                    job.map_or(Ok(()), |(name, _)| Err(failure::exists(name)))?;
                }
                Err(error) => return Err(error),
                Ok(_) => {
                    self.tally().add(|figures| figures.submitted += states.len() as u64);
                    return Ok(states);
                }
            }
        }
        Err(failure::busy("what the jobs depend on"))
    }

    fn check_size(&self, batch: &Batch<'_>) -> Result<()> {
        let limit = TRANSACTION_LIMIT_COMMANDS.saturating_sub(self.beside.len());
        let count = batch.graph.len() + batch.outside.len();
        if count > limit { Err(failure::too_many(count, limit)) } else { Ok(()) }
    }

    async fn put_params(&self, submission: &Submission) -> Result<Option<Placed>> {
        let Some(params) = &submission.params else { return Ok(None) };
        let at = self.object_at(&submission.name()?, field::PARAMS);
        let placed = self.objects().write(&at, params, field::PARAMS, field::PARAMS_REF);
        placed.await.map(Some)
    }

    /// What writes the jobs and tells those that they wait for, as these stand.
    async fn plan(&self, batch: &Batch<'_>, again: bool) -> Result<(Vec<Step>, Vec<State>)> {
        let outside = self.look_up(&batch.outside, again).await?;
        let news = resolve(batch, &outside)?;
        if self.port.is_within() {
            self.refuse_existing(batch).await?;
        }
        let now = self.now_us().await?;
        let written = news.iter().map(|new| self.write_of(new, now));
        let (writes, states): (Vec<_>, Vec<_>) =
            written.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let names = batch.graph.iter().map(|(name, _)| name);
        let sizes: Sizes<'_> = names.zip(writes.iter().map(weight_bytes)).collect();
        let mut steps = Vec::with_capacity(writes.len() + outside.len());
        for (write, new) in writes.into_iter().zip(&news) {
            steps.push(must(with_dependents(write, new, &sizes)?));
        }
        let mut waiting = graph::dependents_of(batch.outside.iter(), &batch.graph);
        for job in outside.values().filter(|job| job.state != State::Completed) {
            let more = waiting.remove(&job.name).unwrap_or_default();
            let more_bytes = more.iter().filter_map(|name| sizes.get(name)).sum();
            steps.push(must(self.tell(job, more, more_bytes)?));
        }
        Ok((steps, states))
    }

    /// What is depended on, as it stands.
    pub async fn look_up(&self, names: &[JobName], again: bool) -> Result<BTreeMap<JobName, Job>> {
        let found = match (names, again) {
            ([], _) => Vec::new(),
            ([one], false) => vec![self.get(one).await?],
            _ => self.get_written(names).await?,
        };
        let named = names.iter().cloned().zip(found);
        Ok(named.filter_map(|(name, job)| job.map(|job| (name, job))).collect())
    }

    /// An open transaction keeps what was done before a refusal, so that comes first.
    async fn refuse_existing(&self, batch: &Batch<'_>) -> Result<()> {
        for (name, _) in &batch.graph {
            if self.get(name).await?.is_some() {
                return Err(failure::exists(name));
            }
        }
        Ok(())
    }

    /// What tells a job that more wait for it, unless it has moved on.
    pub fn tell(&self, job: &Job, more: Vec<JobName>, more_bytes: u64) -> Result<RecordWrite> {
        // One that was deleted and submitted again stands there already.
        let known: BTreeSet<&JobName> = job.dependents.iter().collect();
        let more = more.into_iter().filter(|name| !known.contains(name));
        let all: Vec<JobName> = job.dependents.iter().cloned().chain(more).collect();
        let all_bytes = job.dependents_bytes.saturating_add(more_bytes);
        check_dependents(&job.name, all.len(), all_bytes)?;
        let is = job.fields.get(field::DEPENDENTS).map(<[u8]>::to_vec);
        Ok(RecordWrite::to(&self.key(&job.name))?
            .when_field(field::STATE, job.state.as_str())?
            .when(Condition::Field { field: Field::new(field::DEPENDENTS)?, is })
            .set(field::DEPENDENTS, name::join(&all))?
            .set(field::DEPENDENTS_BYTES, all_bytes.to_string())?
            // What is waited for stays.
            .ttl(Ttl::Clear))
    }

    fn write_of(&self, new: &New<'_>, now: Stamp) -> Result<(RecordWrite, State)> {
        let New { name, submission, .. } = *new;
        let state = if new.waits_for.is_empty() { State::Pending } else { State::Blocked };
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
        write = rank::Place::of(submission.priority, submission.run_at_ms, now).put(write)?;
        if let Some((field, value)) = new.input {
            write = write.set(field, value)?;
        }
        Ok((with_options(write, new)?, state))
    }
}

/// What each job waits for, and which of them wait for it.
fn resolve<'s>(batch: &'s Batch<'_>, outside: &BTreeMap<JobName, Job>) -> Result<Vec<New<'s>>> {
    let inside = graph::dependents(&batch.graph);
    let mut news = Vec::with_capacity(batch.graph.len());
    let inputs = batch.submissions.iter().zip(&batch.inputs);
    for ((name, depends_on), (submission, input)) in batch.graph.iter().zip(inputs) {
        let mut waits_for = Vec::new();
        for dependency in depends_on {
            let is_complete = match outside.get(dependency) {
                Some(job) => job.state == State::Completed,
                None if inside.contains_key(dependency) => false,
                None => return Err(failure::unknown_dependency(name, dependency)),
            };
            if !is_complete {
                waits_for.push(dependency);
            }
        }
        let dependents = inside.get(name).cloned().unwrap_or_default();
        let input = input.as_ref();
        news.push(New { name, submission, input, depends_on, waits_for, dependents });
    }
    Ok(news)
}

fn with_options(mut write: RecordWrite, new: &New<'_>) -> Result<RecordWrite> {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let names = |names: &[JobName]| (!names.is_empty()).then(|| name::join(names));
    let blocked_by = (!new.depends_on.is_empty()).then(|| new.waits_for.len().to_string());
    let options = [
        (field::STEP_COUNT, number(new.submission.step_count)),
        (field::RUN_AT, number(new.submission.run_at_ms)),
        (field::DEPENDS_ON, names(new.depends_on)),
        (field::BLOCKED_BY, blocked_by),
    ];
    for (field, value) in options {
        if let Some(value) = value {
            write = write.set(field, value)?;
        }
    }
    wait_for(write, new.waits_for.iter().copied())
}

/// How many bytes the record of each new job takes, about.
type Sizes<'n> = BTreeMap<&'n JobName, u64>;

/// How many bytes a record takes that is written so, about.
fn weight_bytes(write: &RecordWrite) -> u64 {
    let one = |(field, value): &(Field, FieldValue)| match value {
        FieldValue::Bytes(bytes) => field.as_bytes().len() + bytes.len() + FIELD_BYTES,
        _ => field.as_bytes().len() + 2 * FIELD_BYTES,
    };
    (write.key.as_str().len() + write.set.iter().map(one).sum::<usize>()) as u64
}

/// Tells a new job which of the others wait for it.
fn with_dependents(write: RecordWrite, new: &New<'_>, sizes: &Sizes<'_>) -> Result<RecordWrite> {
    if new.dependents.is_empty() {
        return Ok(write);
    }
    let bytes = new.dependents.iter().filter_map(|name| sizes.get(name)).sum();
    check_dependents(new.name, new.dependents.len(), bytes)?;
    write
        .set(field::DEPENDENTS, name::join(&new.dependents))?
        .set(field::DEPENDENTS_BYTES, bytes.to_string())
}

/// Refuses what could not be written together when the job is completed.
fn check_dependents(name: &JobName, count: usize, bytes: u64) -> Result<()> {
    if count > DEPENDENTS_LIMIT {
        return Err(failure::too_many_dependents(name, DEPENDENTS_LIMIT));
    }
    if bytes > DEPENDENTS_LIMIT_BYTES {
        return Err(failure::too_large_dependents(name, DEPENDENTS_LIMIT_BYTES));
    }
    Ok(())
}

/// Writes what a job waits for into its record.
pub(crate) fn wait_for<'n>(
    write: RecordWrite,
    all: impl Iterator<Item = &'n JobName>,
) -> Result<RecordWrite> {
    let mut all = all;
    all.try_fold(write, |write, dependency| write.set(&job::waits_for(dependency), WAITS))
}

fn check_input(submission: &Submission) -> Result<()> {
    submission.timeout_ms.map_or(Ok(()), |timeout_ms| check_duration(timeout_ms, "timeout_ms"))
}
