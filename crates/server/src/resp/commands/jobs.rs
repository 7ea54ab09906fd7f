//! Commands of the job queue: `JOB.*`.
//!
//! ```text
//!   JOB.SUBMIT, CLAIM, BEAT, … --> Order --> a task, or a step of the open transaction
//!   JOB.GET, LIST, COUNT       --> Plan: jobs are records, so reading them is reading records
//! ```

use super::branches::reply_from;
use super::cells::versions;
use super::records::{count_reply, whole_record};
use crate::jobs::{Claim, Given, Keys, New, Order, Outcome};
use crate::resp::arguments::{Arguments, not_an_integer, syntax_error};
use crate::resp::connection_state::{CommandContext, WorkerJob, no_permission, not_authenticated};
use crate::resp::permissions::Requirement;
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Handler, Spec};
use crate::security::{Area, Denied, Right, User};
use mainstay::{
    Answer, At, Field, Fields, Name, Record, RecordCommand, RecordPage, Stamp, Test, Where,
};
use mainstay_jobs::{Grant, Job, JobName, JobVersion, Jobs, Retry, State, Submission, field};
use std::time::Duration;

/// The default limit for jobs or versions.
const DEFAULT_LIMIT: usize = 100;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    job_request("job.submit", -3, submit)
        .syntax(
            "type id [DATA bytes] [DEPENDS id[,id...]] [PRIORITY n] [RUNAT unix_ms] [TIMEOUT ms] \
             [RETRIES n]",
        )
        .summarize("A new job; its state, blocked while what it depends on is not completed"),
    job_request("job.claim", -4, claim)
        .syntax("type WORKER worker [LEASE ms] [WAIT ms]")
        .summarize("The next job of a type, with its token and its data, or nil"),
    job_request("job.beat", -4, beat)
        .syntax("type id token [LEASE ms]")
        .summarize("The worker is alive: its lease begins anew"),
    job_request("job.step", -5, step)
        .syntax("type id token n [OF m]")
        .summarize("A step is done; the lease begins anew"),
    job_request("job.done", -4, done)
        .syntax("type id token [RESULT bytes]")
        .summarize("The job is completed; what waited for it alone becomes pending"),
    job_request("job.fail", -5, fail).syntax("type id token message [RETRY] [AFTER ms]").summarize(
        "The job did not succeed; its state: pending where it is tried again, else failed",
    ),
    job_request("job.cancel", 3, cancel).syntax("type id").summarize("Calls a job off; its state"),
    job_request("job.retry", 3, retry)
        .syntax("type id")
        .summarize("Tries a job again that failed or was cancelled; its state"),
    of("job.get", -3, Handler::JobPlan(get))
        .syntax("type id [REV revision | AT stamp_us]")
        .summarize("Fields, counter and time to live of a job, now or as it was"),
    of("job.list", -2, Handler::JobPlan(list))
        .syntax("type [STATE state] [AFTER id] [LIMIT n] [REV revision | AT stamp_us]")
        .summarize("Jobs in the order of their ids: id, state, worker, retries, time, error"),
    of("job.count", -2, Handler::JobPlan(count))
        .syntax("type [STATE state] [REV revision | AT stamp_us]")
        .summarize("How many jobs of a type there are"),
    of("job.history", -3, Handler::JobPlan(history))
        .syntax("type id [LIMIT n] [BEFORE counter]")
        .summarize("What became of a job, newest first: counter, state, worker, step, error, time"),
    of("job.data", 3, Handler::LongWork(data))
        .syntax("type id")
        .summarize("The input of a job, or nil"),
    of("job.result", 3, Handler::LongWork(result))
        .syntax("type id")
        .summarize("The output of a job, or nil"),
    of("job.sweep", -1, Handler::LongWork(sweep))
        .writes()
        .requires(Requirement::Permission(Right::write(Area::Records)))
        .syntax("[STUCK ms]")
        .summarize(
            "Takes jobs away from silent workers: how many are tried again, how many failed",
        ),
];

const fn of(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Jobs, run)
}

type RequestParser = fn(&[&[u8]]) -> Result<Order, Reply>;

pub(super) const fn job_request(name: &'static str, arity: i32, read: RequestParser) -> Spec {
    of(name, arity, Handler::JobRequest(read)).writes()
}

/// Consumes a duration in milliseconds.
pub(super) fn duration(arguments: &mut Arguments<'_>) -> Result<Duration, Reply> {
    Ok(Duration::from_millis(arguments.count()?))
}

/// Consumes the type and the id of a job.
fn job_name(arguments: &mut Arguments<'_>) -> Result<JobName, Reply> {
    let task_type = arguments.text()?;
    let id = arguments.text()?;
    Ok(JobName::new(task_type, id)?)
}

fn grant(arguments: &mut Arguments<'_>) -> Result<Grant, Reply> {
    Ok(Grant { name: job_name(arguments)?, token: arguments.count()? })
}

fn submit(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = job_name(&mut arguments)?;
    let mut new = New::job(name);
    while arguments.remaining() > 0 {
        new = parse_option(new, &mut arguments)?;
    }
    Ok(Order::Submit(vec![new]))
}

fn parse_option(new: New, arguments: &mut Arguments<'_>) -> Result<New, Reply> {
    if arguments.take_keyword("DEPENDS") {
        let names = arguments.text()?.split(',');
        names.into_iter().try_fold(new, |new, name| Ok(new.depends_on(name)?))
    } else {
        new.with(|submission| set_option(submission, arguments))
    }
}

fn set_option(submission: Submission, arguments: &mut Arguments<'_>) -> Result<Submission, Reply> {
    Ok(if arguments.take_keyword("DATA") {
        submission.params(arguments.word()?)
    } else if arguments.take_keyword("PRIORITY") {
        submission.priority(number(arguments.integer()?)?)
    } else if arguments.take_keyword("RUNAT") {
        submission.run_at_ms(arguments.count()?)
    } else if arguments.take_keyword("TIMEOUT") {
        submission.timeout_ms(arguments.count()?)
    } else if arguments.take_keyword("RETRIES") {
        submission.max_retries(number(arguments.count()?)?)
    } else {
        return Err(syntax_error());
    })
}

fn number<A, B: TryFrom<A>>(number: A) -> Result<B, Reply> {
    B::try_from(number).map_err(|_| not_an_integer())
}

fn claim(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::after_first(words);
    let task_type = arguments.text()?.to_owned();
    let mut claim = Claim { task_type, worker: String::new(), lease: None, wait: None };
    if !arguments.take_keyword("WORKER") {
        return Err(syntax_error());
    }
    claim.worker = arguments.text()?.to_owned();
    while arguments.remaining() > 0 {
        if arguments.take_keyword("LEASE") {
            claim.lease = Some(duration(&mut arguments)?)
        } else if arguments.take_keyword("WAIT") {
            claim.wait = Some(duration(&mut arguments)?)
        } else {
            return Err(syntax_error());
        }
    }
    Ok(Order::Claim(claim))
}

fn beat(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::after_first(words);
    let grant = grant(&mut arguments)?;
    let lease = arguments.take_keyword("LEASE").then(|| duration(&mut arguments)).transpose()?;
    arguments.end()?;
    Ok(Order::Beat(grant, lease))
}

fn step(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::after_first(words);
    let grant = grant(&mut arguments)?;
    let step = arguments.count()?;
    let of = arguments.take_keyword("OF").then(|| arguments.count()).transpose()?;
    arguments.end()?;
    Ok(Order::Step(grant, step, of))
}

fn done(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::after_first(words);
    let grant = grant(&mut arguments)?;
    let result = arguments.take_keyword("RESULT").then(|| arguments.word()).transpose()?;
    arguments.end()?;
    Ok(Order::Done(grant, result.map(<[u8]>::to_vec)))
}

fn fail(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::after_first(words);
    let grant = grant(&mut arguments)?;
    let message = String::from_utf8_lossy(arguments.word()?).into_owned();
    let retry = if arguments.take_keyword("RETRY") {
        if arguments.take_keyword("AFTER") {
            Retry::After(duration(&mut arguments)?)
        } else {
            Retry::Now
        }
    } else {
        Retry::Never
    };
    arguments.end()?;
    Ok(Order::Fail(grant, message, retry))
}

fn cancel(words: &[&[u8]]) -> Result<Order, Reply> {
    Ok(Order::Cancel(job_name(&mut Arguments::after_first(words))?))
}

fn retry(words: &[&[u8]]) -> Result<Order, Reply> {
    Ok(Order::Retry(job_name(&mut Arguments::after_first(words))?))
}

/// The outcome of a job command as a client sees it.
pub fn outcome_reply(outcome: mainstay::Result<Outcome>) -> Reply {
    match outcome {
        Err(error) => error.into(),
        Ok(Outcome::States(states)) => match &states[..] {
            [state] => Reply::text(state.as_str()),
            all => Reply::texts(all.iter().map(|state| state.as_str())),
        },
        Ok(Outcome::State(state)) => Reply::text(state.as_str()),
        Ok(Outcome::Held(_) | Outcome::Renewed) => Reply::Int(1),
        Ok(Outcome::Claimed(claimed)) => Reply::maybe(claimed.map(|claimed| claim_reply(*claimed))),
        Ok(Outcome::Taken(token)) => Reply::maybe(token.map(Reply::number)),
        Ok(Outcome::Freed(did)) => Reply::Int(did.into()),
        // The caller shows these outcomes with the revision of the transaction.
        Ok(Outcome::ClaimedIn(_) | Outcome::TakenIn(_)) => unexpected_answer(),
    }
}

fn claim_reply((claimed, data): Given) -> Reply {
    let Grant { name, token } = &claimed.grant;
    let data = Reply::maybe(data.map(Reply::Bulk));
    Reply::Array(vec![Reply::text(name.id()), Reply::number(*token), data])
}

fn get(keys: &Keys, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = job_name(&mut arguments)?;
    let at = arguments.point_in_time()?;
    arguments.end()?;
    let key = Name::new(&keys.job(&name))?;
    Ok(Plan::one(RecordCommand::Get { key, fields: None }, ReplyFormat::plain(whole_record)).at(at))
}

/// The filter of `JOB.LIST` and `JOB.COUNT`.
struct JobFilter {
    task_type: String,
    state: Option<State>,
    after: Option<String>,
    limit: Option<usize>,
    at: Option<At>,
}

impl JobFilter {
    fn read(words: &[&[u8]]) -> Result<JobFilter, Reply> {
        let mut arguments = Arguments::after_first(words);
        let task_type = arguments.text()?.to_owned();
        // Fails for an invalid type, which can have no jobs.
        JobName::new(&task_type, "any")?;
        let mut filter = JobFilter { task_type, state: None, after: None, limit: None, at: None };
        while arguments.remaining() > 0 {
            if arguments.take_keyword("STATE") {
                filter.state = Some(State::parse(arguments.text()?)?);
            } else if arguments.take_keyword("AFTER") {
                filter.after = Some(arguments.text()?.to_owned())
            } else if arguments.take_keyword("LIMIT") {
                filter.limit = Some(arguments.limit()?)
            } else {
                filter.at = Some(arguments.point_in_time()?.ok_or_else(syntax_error)?)
            }
        }
        Ok(filter)
    }

    /// Returns filters by type and state, the fields of the job index.
    fn filters(&self) -> Result<Vec<Where>, Reply> {
        let Some(state) = self.state else { return Ok(Vec::new()) };
        let is = |field: &str, value: &str| -> Result<Where, Reply> {
            Ok(Where { field: Field::new(field)?, test: Test::Eq(value.into()) })
        };
        Ok(vec![is(field::TASK_TYPE, &self.task_type)?, is(field::STATE, state.as_str())?])
    }
}

fn list(keys: &Keys, words: &[&[u8]]) -> Result<Plan, Reply> {
    let filter = JobFilter::read(words)?;
    let prefix = keys.of_type(&filter.task_type);
    let filters = filter.filters()?;
    let after = filter.after.map(|id| format!("{prefix}{id}"));
    let limit = filter.limit.unwrap_or(DEFAULT_LIMIT);
    let scan = RecordCommand::Scan { prefix: prefix.clone(), filters, after, limit };
    let shape = ReplyFormat::closure(move |answers, _| jobs_reply(answers, &prefix), Reply::from);
    Ok(Plan::one(scan, shape).at(filter.at))
}

fn jobs_reply(answers: Answers, prefix: &str) -> Reply {
    let id = |key: &str| Reply::text(key.strip_prefix(prefix).unwrap_or(key));
    let row = |(key, record): (String, Record)| {
        let fields = &record.fields;
        Reply::Array(vec![
            id(&key),
            field_reply(fields, field::STATE),
            field_reply(fields, field::WORKER),
            number_reply(fields, field::RETRY_COUNT),
            number_reply(fields, field::UPDATED_AT),
            field_reply(fields, field::ERROR),
        ])
    };
    match single(answers) {
        Some(Answer::Records(RecordPage { records, next })) => {
            let rows = Reply::Array(records.into_iter().map(row).collect());
            Reply::Array(vec![Reply::maybe(next.as_deref().map(id)), rows])
        }
        _ => unexpected_answer(),
    }
}

/// Returns the value of a field, or nil.
pub(super) fn field_reply(fields: &Fields, field: &str) -> Reply {
    Reply::maybe(fields.get(field).map(Reply::text))
}

/// Returns the number in a field, or nil.
pub(super) fn number_reply(fields: &Fields, field: &str) -> Reply {
    Reply::maybe(fields.text(field).and_then(|text| text.parse().ok()).map(Reply::number))
}

fn count(keys: &Keys, words: &[&[u8]]) -> Result<Plan, Reply> {
    let filter = JobFilter::read(words)?;
    if filter.after.is_some() || filter.limit.is_some() {
        return Err(syntax_error());
    }
    let prefix = keys.of_type(&filter.task_type);
    let filters = filter.filters()?;
    let count = RecordCommand::Count { prefix, filters };
    Ok(Plan::one(count, ReplyFormat::plain(count_reply)).at(filter.at))
}

/// Returns the jobs of the branch, if it has any and the user may read these keys.
fn open_jobs(context: &CommandContext<'_>, keys: &str) -> Result<Option<Jobs>, Reply> {
    check_permission(context, |user| user.may_list(keys.as_bytes()))?;
    Ok(context.shared().jobs.look(&context.state.branch)?)
}

fn check_permission(
    context: &CommandContext<'_>,
    may: impl Fn(&User) -> Result<(), Denied>,
) -> Result<(), Reply> {
    let user = context.state.user.as_deref().ok_or_else(not_authenticated)?;
    let spec = context.state.last_command.ok_or_else(unexpected_answer)?;
    may(user).map_err(|denied| no_permission(spec, &denied))
}

fn history(keys: &Keys, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = job_name(&mut arguments)?;
    let (limit, before) = versions(&mut arguments)?;
    let key = Name::new(&keys.job(&name))?;
    let rows = move |answers: Answers, _: Stamp| match single(answers) {
        Some(Answer::RecordHistory(versions)) => Reply::Array(
            versions.into_iter().map(|entry| version(JobVersion::of(&name, entry))).collect(),
        ),
        _ => unexpected_answer(),
    };
    let shape = ReplyFormat::closure(rows, Reply::from);
    Ok(Plan::one(RecordCommand::History { key, limit, before }, shape))
}

/// One version of a job: its state, its worker and its progress.
fn version(version: JobVersion) -> Reply {
    let job = version.job.as_ref();
    let text = |text: Option<&str>| Reply::maybe(text.map(Reply::text));
    Reply::Array(vec![
        Reply::number(version.counter),
        text(job.map(|job| job.state.as_str())),
        text(job.and_then(|job| job.worker.as_deref())),
        Reply::maybe(job.and_then(|job| job.current_step).map(Reply::number)),
        text(job.and_then(|job| job.error.as_deref())),
        Reply::number(version.stamp),
        Reply::number(version.revision),
    ])
}

fn data(context: &mut CommandContext<'_>) -> Result<WorkerJob, Reply> {
    blob(context, Jobs::params)
}

fn result(context: &mut CommandContext<'_>) -> Result<WorkerJob, Reply> {
    blob(context, Jobs::result)
}

type Bytes = fn(&Jobs, &Job) -> mainstay::Result<Option<Vec<u8>>>;

/// Returns bytes that the record of a job holds or refers to.
fn blob(context: &mut CommandContext<'_>, read: Bytes) -> Result<WorkerJob, Reply> {
    let name = job_name(&mut context.arguments())?;
    let key = context.shared().jobs.keys().job(&name);
    let Some(jobs) = open_jobs(context, &key)? else { return Ok(Box::new(|| Reply::Nil)) };
    Ok(Box::new(move || {
        let job = match jobs.get(&name) {
            Ok(Some(job)) => job,
            Ok(None) => return Reply::Nil,
            Err(error) => return error.into(),
        };
        reply_from(read(&jobs, &job), |bytes| Reply::maybe(bytes.map(Reply::Bulk)))
    }))
}

fn sweep(context: &mut CommandContext<'_>) -> Result<WorkerJob, Reply> {
    let mut arguments = context.arguments();
    let stuck_ms = arguments.take_keyword("STUCK").then(|| arguments.count()).transpose()?;
    arguments.end()?;
    let prefix = context.shared().jobs.keys().jobs();
    let Some(jobs) = open_jobs(context, &prefix)? else {
        return Ok(Box::new(|| sweep_reply(NOTHING)));
    };
    Ok(Box::new(move || {
        let stuck_ms = stuck_ms.or(jobs.settings().stuck_after_ms);
        reply_from(jobs.sweep_stuck(stuck_ms), |report| {
            sweep_reply([report.retried, report.failed])
        })
    }))
}

const NOTHING: [u64; 2] = [0, 0];

fn sweep_reply(counts: [u64; 2]) -> Reply {
    Reply::Array(counts.into_iter().map(Reply::number).collect())
}
