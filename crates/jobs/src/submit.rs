//! Submitting: new jobs, alone or as a graph.
//!
//! ```text
//!   submissions --circles, doubles--> refused
//!        |
//!        v  one transaction
//!   each dependency: completed? -> nothing to wait for
//!                    there?     -> its `dependents` get the new job, the job's `blocked_by` counts it
//!                    absent?    -> refused
//! ```

use crate::failure;
use crate::graph;
use crate::job::{Job, field};
use crate::jobs::{Jobs, NOW, must};
use crate::name::{self, JobName};
use crate::rank;
use crate::settings::check_duration;
use crate::state::State;
use mainstay::{Answer, Code, Error, Interactive, Name, RecordCommand, RecordWrite, Result, Stamp};
use std::collections::BTreeMap;

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
    name: JobName,
    submission: &'s Submission,
    depends_on: Vec<JobName>,
    blocked_by: usize,
    dependents: Vec<JobName>,
}

impl Jobs {
    /// Submits a job; gives its state: pending, or blocked while something it depends on is not completed.
    ///
    /// A dependency that failed or was cancelled keeps it blocked: [`Jobs::retry`] of the dependency lets both
    /// go on, [`Jobs::cancel`] of the dependent gives it up.
    pub fn submit(&self, submission: &Submission) -> Result<State> {
        self.submit_all(std::slice::from_ref(submission)).map(|states| states[0])
    }

    /// Submits jobs that may depend on each other, all or none; gives their states.
    pub fn submit_all(&self, submissions: &[Submission]) -> Result<Vec<State>> {
        let graph = graph::check(submissions)?;
        for submission in submissions {
            check_input(submission)?;
        }
        let inputs =
            submissions.iter().map(|one| self.put_params(one)).collect::<Result<Vec<_>>>()?;
        let now = self.now_us()?;
        if let ([submission], [(name, depends_on)]) = (submissions, &graph[..])
            && depends_on.is_empty()
        {
            return self.submit_alone(submission, name, &inputs[0], now).map(|state| vec![state]);
        }
        self.database().transaction(|t| {
            let news = self.resolve(t, submissions, &graph)?;
            let written = news.iter().zip(&inputs).map(|(new, input)| {
                let (write, state) = self.write_of(new, input, now)?;
                match t.run(write)? {
                    Answer::MaybeCounter(Some(_)) => Ok(state),
                    _ => Err(failure::exists(&new.name)),
                }
            });
            let states = written.collect::<Result<Vec<_>>>()?;
            self.beside_commands()
                .iter()
                .try_for_each(|command| t.run(command.clone()).map(drop))?;
            Ok(states)
        })
    }

    fn submit_alone(
        &self,
        submission: &Submission,
        name: &JobName,
        input: &Input,
        now: Stamp,
    ) -> Result<State> {
        let (depends_on, dependents) = (Vec::new(), Vec::new());
        let new = New { name: name.clone(), submission, depends_on, blocked_by: 0, dependents };
        let (write, state) = self.write_of(&new, input, now)?;
        match self.execute(vec![must(write)]) {
            Ok(_) => Ok(state),
            Err(error) if error.code() == Code::MustFailed => Err(failure::exists(name)),
            Err(error) => Err(error),
        }
    }

    fn put_params(&self, submission: &Submission) -> Result<Input> {
        let Some(params) = &submission.params else { return Ok(Vec::new()) };
        let at = format!("{}/{}/params", submission.task_type, submission.id);
        self.objects().write(&at, params, field::PARAMS, field::PARAMS_REF).map(|pair| vec![pair])
    }

    /// Looks up what each job waits for, and tells those that it does.
    fn resolve<'s>(
        &self,
        t: &mut Interactive,
        submissions: &'s [Submission],
        graph: &[(JobName, Vec<JobName>)],
    ) -> Result<Vec<New<'s>>> {
        let inside: BTreeMap<&JobName, Vec<JobName>> = graph::dependents(graph);
        let mut outside: BTreeMap<&JobName, Vec<JobName>> = BTreeMap::new();
        let mut news = Vec::with_capacity(graph.len());
        for ((name, depends_on), submission) in graph.iter().zip(submissions) {
            let mut blocked_by = 0;
            for dependency in depends_on {
                if !inside.contains_key(dependency) {
                    if self.dependency(t, name, dependency)?.state == State::Completed {
                        continue;
                    }
                    outside.entry(dependency).or_default().push(name.clone());
                }
                blocked_by += 1;
            }
            let (name, depends_on) = (name.clone(), depends_on.clone());
            let dependents = inside.get(&name).cloned().unwrap_or_default();
            news.push(New { name, submission, depends_on, blocked_by, dependents });
        }
        for (dependency, more) in outside {
            self.add_dependents(t, dependency, more)?;
        }
        Ok(news)
    }

    fn dependency(&self, t: &mut Interactive, of: &JobName, name: &JobName) -> Result<Job> {
        let get = RecordCommand::Get { key: Name::new(&self.key(name))?, fields: None };
        match t.run(get)? {
            Answer::Record(Some(record)) => Job::of(name.clone(), record),
            _ => {
                let message =
                    format!("job {of} depends on {name}, which there is not: submit that first");
                Err(Error::new(Code::UnknownDependency, message))
            }
        }
    }

    fn add_dependents(
        &self,
        t: &mut Interactive,
        dependency: &JobName,
        more: Vec<JobName>,
    ) -> Result<()> {
        let mut all = self.dependency(t, dependency, dependency)?.dependents;
        all.extend(more);
        let write = RecordWrite::to(&self.key(dependency))?;
        t.run(write.set(field::DEPENDENTS, name::join(&all))?).map(drop)
    }

    fn write_of(&self, new: &New<'_>, input: &Input, now: Stamp) -> Result<(RecordWrite, State)> {
        let New { name, submission, .. } = new;
        let state = if new.blocked_by == 0 { State::Pending } else { State::Blocked };
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
            .set(field::PRIORITY, submission.priority.to_string())?
            .set(field::RANK, rank_of(submission, now))?;
        for (field, value) in input {
            write = write.set(field, value)?;
        }
        Ok((with_options(write, new)?, state))
    }
}

/// The field that holds an input, and what it holds.
type Input = Vec<(&'static str, Vec<u8>)>;

fn with_options(mut write: RecordWrite, new: &New<'_>) -> Result<RecordWrite> {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let names = |names: &[JobName]| (!names.is_empty()).then(|| name::join(names));
    let blocked_by = (!new.depends_on.is_empty()).then(|| new.blocked_by.to_string());
    let options = [
        (field::STEP_COUNT, number(new.submission.step_count)),
        (field::RUN_AT, number(new.submission.run_at_ms)),
        (field::DEPENDS_ON, names(&new.depends_on)),
        (field::DEPENDENTS, names(&new.dependents)),
        (field::BLOCKED_BY, blocked_by),
    ];
    for (field, value) in options {
        if let Some(value) = value {
            write = write.set(field, value)?;
        }
    }
    Ok(write)
}

fn rank_of(submission: &Submission, now: Stamp) -> String {
    match submission.run_at_ms {
        Some(run_at_ms) if run_at_ms > now / 1000 => rank::waiting(run_at_ms),
        Some(run_at_ms) => rank::ready(submission.priority, run_at_ms.saturating_mul(1000)),
        None => rank::ready(submission.priority, now),
    }
}

fn check_input(submission: &Submission) -> Result<()> {
    submission.timeout_ms.map_or(Ok(()), |timeout_ms| check_duration(timeout_ms, "timeout_ms"))
}
