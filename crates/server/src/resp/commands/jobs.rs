//! Commands of the job queue: `JOB.*`.
//!
//! ```text
//!   JOB.SUBMIT, CLAIM, BEAT, … --> Order --> a task, or a step of the open transaction
//!   JOB.GET, LIST, COUNT       --> Plan: jobs are records, so reading them is reading records
//! ```

use super::branches::reply;
use super::cells::versions;
use super::records::{how_many, whole_record};
use crate::jobs::{Claim, Given, Keys, New, Order, Outcome};
use crate::resp::arguments::{Arguments, not_an_integer, syntax_error};
use crate::resp::plan::{Answers, Plan, Shape, only, unexpected};
use crate::resp::reply::Reply;
use crate::resp::rights::Needs;
use crate::resp::session::{Call, Job as Work, no_permission, no_user};
use crate::resp::table::{Group, Run, Spec};
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
    order("job.submit", -3, submit)
        .syntax(
            "type id [DATA bytes] [DEPENDS id[,id...]] [PRIORITY n] [RUNAT unix_ms] [TIMEOUT ms] \
             [RETRIES n]",
        )
        .about("A new job; its state, blocked while what it depends on is not completed"),
    order("job.claim", -4, claim)
        .syntax("type WORKER worker [LEASE ms] [WAIT ms]")
        .about("The next job of a type, with its token and its data, or nil"),
    order("job.beat", -4, beat)
        .syntax("type id token [LEASE ms]")
        .about("The worker is alive: its lease begins anew"),
    order("job.step", -5, step)
        .syntax("type id token n [OF m]")
        .about("A step is done; the lease begins anew"),
    order("job.done", -4, done)
        .syntax("type id token [RESULT bytes]")
        .about("The job is completed; what waited for it alone becomes pending"),
    order("job.fail", -5, fail)
        .syntax("type id token message [RETRY] [AFTER ms]")
        .about("The job did not succeed; its state: pending where it is tried again, else failed"),
    order("job.cancel", 3, cancel).syntax("type id").about("Calls a job off; its state"),
    order("job.retry", 3, retry)
        .syntax("type id")
        .about("Tries a job again that failed or was cancelled; its state"),
    of("job.get", -3, Run::Kept(get))
        .syntax("type id [REV revision | AT stamp_us]")
        .about("Fields, counter and time to live of a job, now or as it was"),
    of("job.list", -2, Run::Kept(list))
        .syntax("type [STATE state] [AFTER id] [LIMIT n] [REV revision | AT stamp_us]")
        .about("Jobs in the order of their ids: id, state, worker, retries, time, error"),
    of("job.count", -2, Run::Kept(count))
        .syntax("type [STATE state] [REV revision | AT stamp_us]")
        .about("How many jobs of a type there are"),
    of("job.history", -3, Run::Kept(history))
        .syntax("type id [LIMIT n] [BEFORE counter]")
        .about("What became of a job, newest first: counter, state, worker, step, error, time"),
    of("job.data", 3, Run::Slow(data)).syntax("type id").about("The input of a job, or nil"),
    of("job.result", 3, Run::Slow(result)).syntax("type id").about("The output of a job, or nil"),
    of("job.sweep", -1, Run::Slow(sweep))
        .writes()
        .needs(Needs::Right(Right::write(Area::Records)))
        .syntax("[STUCK ms]")
        .about("Takes jobs away from silent workers: how many are tried again, how many failed"),
];

const fn of(name: &'static str, arity: i32, run: Run) -> Spec {
    Spec::new(name, arity, Group::Jobs, run)
}

type Read = fn(&[&[u8]]) -> Result<Order, Reply>;

pub(super) const fn order(name: &'static str, arity: i32, read: Read) -> Spec {
    of(name, arity, Run::Order(read)).writes()
}

/// Consumes a duration in milliseconds.
pub(super) fn span(arguments: &mut Arguments<'_>) -> Result<Duration, Reply> {
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
    let mut arguments = Arguments::behind(words);
    let name = job_name(&mut arguments)?;
    let mut new = New::job(name);
    while arguments.left() > 0 {
        new = option(new, &mut arguments)?;
    }
    Ok(Order::Submit(vec![new]))
}

fn option(new: New, arguments: &mut Arguments<'_>) -> Result<New, Reply> {
    if arguments.take("DEPENDS") {
        let names = arguments.text()?.split(',');
        names.into_iter().try_fold(new, |new, name| Ok(new.depends_on(name)?))
    } else {
        new.with(|submission| set(submission, arguments))
    }
}

fn set(submission: Submission, arguments: &mut Arguments<'_>) -> Result<Submission, Reply> {
    Ok(if arguments.take("DATA") {
        submission.params(arguments.word()?)
    } else if arguments.take("PRIORITY") {
        submission.priority(number(arguments.whole()?)?)
    } else if arguments.take("RUNAT") {
        submission.run_at_ms(arguments.count()?)
    } else if arguments.take("TIMEOUT") {
        submission.timeout_ms(arguments.count()?)
    } else if arguments.take("RETRIES") {
        submission.max_retries(number(arguments.count()?)?)
    } else {
        return Err(syntax_error());
    })
}

fn number<A, B: TryFrom<A>>(number: A) -> Result<B, Reply> {
    B::try_from(number).map_err(|_| not_an_integer())
}

fn claim(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::behind(words);
    let task_type = arguments.text()?.to_owned();
    let mut claim = Claim { task_type, worker: String::new(), lease: None, wait: None };
    if !arguments.take("WORKER") {
        return Err(syntax_error());
    }
    claim.worker = arguments.text()?.to_owned();
    while arguments.left() > 0 {
        if arguments.take("LEASE") {
            claim.lease = Some(span(&mut arguments)?)
        } else if arguments.take("WAIT") {
            claim.wait = Some(span(&mut arguments)?)
        } else {
            return Err(syntax_error());
        }
    }
    Ok(Order::Claim(claim))
}

fn beat(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::behind(words);
    let grant = grant(&mut arguments)?;
    let lease = arguments.take("LEASE").then(|| span(&mut arguments)).transpose()?;
    arguments.end()?;
    Ok(Order::Beat(grant, lease))
}

fn step(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::behind(words);
    let grant = grant(&mut arguments)?;
    let step = arguments.count()?;
    let of = arguments.take("OF").then(|| arguments.count()).transpose()?;
    arguments.end()?;
    Ok(Order::Step(grant, step, of))
}

fn done(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::behind(words);
    let grant = grant(&mut arguments)?;
    let result = arguments.take("RESULT").then(|| arguments.word()).transpose()?;
    arguments.end()?;
    Ok(Order::Done(grant, result.map(<[u8]>::to_vec)))
}

fn fail(words: &[&[u8]]) -> Result<Order, Reply> {
    let mut arguments = Arguments::behind(words);
    let grant = grant(&mut arguments)?;
    let message = String::from_utf8_lossy(arguments.word()?).into_owned();
    let retry = if arguments.take("RETRY") {
        if arguments.take("AFTER") { Retry::After(span(&mut arguments)?) } else { Retry::Now }
    } else {
        Retry::Never
    };
    arguments.end()?;
    Ok(Order::Fail(grant, message, retry))
}

fn cancel(words: &[&[u8]]) -> Result<Order, Reply> {
    Ok(Order::Cancel(job_name(&mut Arguments::behind(words))?))
}

fn retry(words: &[&[u8]]) -> Result<Order, Reply> {
    Ok(Order::Retry(job_name(&mut Arguments::behind(words))?))
}

/// The outcome of a job command as a client sees it.
pub fn shown(outcome: mainstay::Result<Outcome>) -> Reply {
    match outcome {
        Err(error) => error.into(),
        Ok(Outcome::States(states)) => match &states[..] {
            [state] => Reply::text(state.as_str()),
            all => Reply::texts(all.iter().map(|state| state.as_str())),
        },
        Ok(Outcome::State(state)) => Reply::text(state.as_str()),
        Ok(Outcome::Held(_) | Outcome::Renewed) => Reply::Int(1),
        Ok(Outcome::Claimed(given)) => Reply::maybe(given.map(|given| claimed(*given))),
        Ok(Outcome::Taken(token)) => Reply::maybe(token.map(Reply::number)),
        Ok(Outcome::Freed(did)) => Reply::Int(did.into()),
        // The caller shows these outcomes with the revision of the transaction.
        Ok(Outcome::ClaimedIn(_) | Outcome::TakenIn(_)) => unexpected(),
    }
}

fn claimed((claimed, data): Given) -> Reply {
    let Grant { name, token } = &claimed.grant;
    let data = Reply::maybe(data.map(Reply::Bulk));
    Reply::Array(vec![Reply::text(name.id()), Reply::number(*token), data])
}

fn get(keys: &Keys, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = job_name(&mut arguments)?;
    let at = arguments.point()?;
    arguments.end()?;
    let key = Name::new(&keys.job(&name))?;
    Ok(Plan::one(RecordCommand::Get { key, fields: None }, Shape::ours(whole_record)).at(at))
}

/// The filter of `JOB.LIST` and `JOB.COUNT`.
struct Asked {
    task_type: String,
    state: Option<State>,
    after: Option<String>,
    limit: Option<usize>,
    at: Option<At>,
}

impl Asked {
    fn read(words: &[&[u8]]) -> Result<Asked, Reply> {
        let mut arguments = Arguments::behind(words);
        let task_type = arguments.text()?.to_owned();
        // Fails for an invalid type, which can have no jobs.
        JobName::new(&task_type, "any")?;
        let mut asked = Asked { task_type, state: None, after: None, limit: None, at: None };
        while arguments.left() > 0 {
            if arguments.take("STATE") {
                asked.state = Some(State::parse(arguments.text()?)?);
            } else if arguments.take("AFTER") {
                asked.after = Some(arguments.text()?.to_owned())
            } else if arguments.take("LIMIT") {
                asked.limit = Some(arguments.limit()?)
            } else {
                asked.at = Some(arguments.point()?.ok_or_else(syntax_error)?)
            }
        }
        Ok(asked)
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
    let asked = Asked::read(words)?;
    let prefix = keys.of_type(&asked.task_type);
    let filters = asked.filters()?;
    let after = asked.after.map(|id| format!("{prefix}{id}"));
    let limit = asked.limit.unwrap_or(DEFAULT_LIMIT);
    let scan = RecordCommand::Scan { prefix: prefix.clone(), filters, after, limit };
    let shape = Shape::asked(move |answers, _| jobs(answers, &prefix), Reply::from);
    Ok(Plan::one(scan, shape).at(asked.at))
}

fn jobs(answers: Answers, prefix: &str) -> Reply {
    let id = |key: &str| Reply::text(key.strip_prefix(prefix).unwrap_or(key));
    let row = |(key, record): (String, Record)| {
        let fields = &record.fields;
        Reply::Array(vec![
            id(&key),
            held(fields, field::STATE),
            held(fields, field::WORKER),
            count_of(fields, field::RETRY_COUNT),
            count_of(fields, field::UPDATED_AT),
            held(fields, field::ERROR),
        ])
    };
    match only(answers) {
        Some(Answer::Records(RecordPage { records, next })) => {
            let rows = Reply::Array(records.into_iter().map(row).collect());
            Reply::Array(vec![Reply::maybe(next.as_deref().map(id)), rows])
        }
        _ => unexpected(),
    }
}

/// Returns the value of a field, or nil.
pub(super) fn held(fields: &Fields, field: &str) -> Reply {
    Reply::maybe(fields.get(field).map(Reply::text))
}

/// Returns the number in a field, or nil.
pub(super) fn count_of(fields: &Fields, field: &str) -> Reply {
    Reply::maybe(fields.text(field).and_then(|text| text.parse().ok()).map(Reply::number))
}

fn count(keys: &Keys, words: &[&[u8]]) -> Result<Plan, Reply> {
    let asked = Asked::read(words)?;
    if asked.after.is_some() || asked.limit.is_some() {
        return Err(syntax_error());
    }
    let prefix = keys.of_type(&asked.task_type);
    let filters = asked.filters()?;
    let count = RecordCommand::Count { prefix, filters };
    Ok(Plan::one(count, Shape::ours(how_many)).at(asked.at))
}

/// Returns the jobs of the branch, if it has any and the user may read these keys.
fn looked(call: &Call<'_>, keys: &str) -> Result<Option<Jobs>, Reply> {
    allowed(call, |user| user.may_list(keys.as_bytes()))?;
    Ok(call.shared().jobs.look(&call.session.branch)?)
}

fn allowed(call: &Call<'_>, may: impl Fn(&User) -> Result<(), Denied>) -> Result<(), Reply> {
    let user = call.session.user.as_deref().ok_or_else(no_user)?;
    let spec = call.session.last.ok_or_else(unexpected)?;
    may(user).map_err(|denied| no_permission(spec, &denied))
}

fn history(keys: &Keys, words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = job_name(&mut arguments)?;
    let (limit, before) = versions(&mut arguments)?;
    let key = Name::new(&keys.job(&name))?;
    let rows = move |answers: Answers, _: Stamp| match only(answers) {
        Some(Answer::RecordHistory(versions)) => Reply::Array(
            versions.into_iter().map(|entry| version(JobVersion::of(&name, entry))).collect(),
        ),
        _ => unexpected(),
    };
    let shape = Shape::asked(rows, Reply::from);
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

fn data(call: &mut Call<'_>) -> Result<Work, Reply> {
    bytes(call, Jobs::params)
}

fn result(call: &mut Call<'_>) -> Result<Work, Reply> {
    bytes(call, Jobs::result)
}

type Bytes = fn(&Jobs, &Job) -> mainstay::Result<Option<Vec<u8>>>;

/// Returns bytes that the record of a job holds or refers to.
fn bytes(call: &mut Call<'_>, read: Bytes) -> Result<Work, Reply> {
    let name = job_name(&mut call.arguments())?;
    let key = call.shared().jobs.keys().job(&name);
    let Some(jobs) = looked(call, &key)? else { return Ok(Box::new(|| Reply::Nil)) };
    Ok(Box::new(move || {
        let job = match jobs.get(&name) {
            Ok(Some(job)) => job,
            Ok(None) => return Reply::Nil,
            Err(error) => return error.into(),
        };
        reply(read(&jobs, &job), |bytes| Reply::maybe(bytes.map(Reply::Bulk)))
    }))
}

fn sweep(call: &mut Call<'_>) -> Result<Work, Reply> {
    let mut arguments = call.arguments();
    let stuck_ms = arguments.take("STUCK").then(|| arguments.count()).transpose()?;
    arguments.end()?;
    let prefix = call.shared().jobs.keys().jobs();
    let Some(jobs) = looked(call, &prefix)? else { return Ok(Box::new(|| swept(NOTHING))) };
    Ok(Box::new(move || {
        let stuck_ms = stuck_ms.or(jobs.settings().stuck_after_ms);
        reply(jobs.sweep_stuck(stuck_ms), |report| swept([report.retried, report.failed]))
    }))
}

const NOTHING: [u64; 2] = [0, 0];

fn swept(counts: [u64; 2]) -> Reply {
    Reply::Array(counts.into_iter().map(Reply::number).collect())
}
