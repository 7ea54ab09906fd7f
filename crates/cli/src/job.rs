//! `mainstay job`: a job queue whose jobs are claimed by one worker at a time.

use super::args::{AsOf, OnBranch};
use super::cell::{read, value_or_stdin, write};
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::output::RawFields;
use super::pages::Pages;
use super::reply::Reply;
use super::reply_format::{FormattedReply, ReplyFormat};
use super::{reply_formats, time};
use clap::{Args, Subcommand};
use mainstay::Value;

/// The time that a server waits for a job per request; it must be well below the reply timeout.
const WAIT_MS: u64 = 1000;

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// Submit a job; shows its state
    Submit(Submit),
    /// Take the next job of a type; shows its id, its token and its data; exit code 1 if there is none
    Claim(Claim),
    /// Say that the worker is alive; exit code 1 if the job was taken away
    Beat(Beat),
    /// Say that a step is done; exit code 1 if the job was taken away
    Step(Step),
    /// Say that the job is done; shows its state; exit code 1 if it was taken away
    Done(Done),
    /// Say that the job did not succeed; shows its state; exit code 1 if it was taken away
    Fail(Fail),
    /// Call a job off; shows its state
    Cancel(JobArgs),
    /// Try a job again that failed or was cancelled; shows its state
    Retry(JobArgs),
    /// Show a job, now or as it was
    Get(Get),
    /// Show what a job was given
    Input(JobArgs),
    /// Show what a job gave
    Result(JobArgs),
    /// List jobs of a type, in byte order of their ids
    List(List),
    /// Count jobs of a type
    Count(Count),
    /// Show what became of a job, newest first
    History(History),
    /// Take jobs away from workers that are silent; shows how many are tried again and how many failed
    Sweep(Sweep),
}

/// One job.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Its type
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// Its id
    id: String,
    #[command(flatten)]
    on: OnBranch,
}

/// One job, and what its claim gave.
#[derive(Debug, Args)]
pub struct ClaimArgs {
    #[command(flatten)]
    job: JobArgs,
    /// The token of the claim
    token: u64,
}

/// A new job.
#[derive(Debug, Args)]
pub struct Submit {
    #[command(flatten)]
    job: JobArgs,
    /// What it is given, as text; - takes the standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    input: Option<String>,
    /// What has to be completed before it: ids of its type, or TYPE/ID, with commas between
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    depends: Vec<String>,
    /// Higher ones are claimed first [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Not before this time: microseconds since 1970 or 2026-11-15T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::stamp_us)]
    run_at: Option<u64>,
    /// How long its worker may be silent: milliseconds, or a span such as 30s [default: as configured]
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms)]
    lease: Option<u64>,
    /// How often it may be tried again
    #[arg(long)]
    retries: Option<u32>,
}

/// The next job.
#[derive(Debug, Args)]
pub struct Claim {
    /// Of which type
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// Who takes it
    #[arg(short, long)]
    worker: String,
    /// How long the worker may be silent: milliseconds, or a span such as 30s [default: as submitted]
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms)]
    lease: Option<u64>,
    /// How long to wait for one: milliseconds, or a span such as 30s [default: not at all]
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms, default_value = "0")]
    wait: u64,
    #[command(flatten)]
    on: OnBranch,
}

/// A worker that is alive.
#[derive(Debug, Args)]
pub struct Beat {
    #[command(flatten)]
    held: ClaimArgs,
    /// How long it may be silent from now on [default: as before]
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms)]
    lease: Option<u64>,
}

/// A step that is done.
#[derive(Debug, Args)]
pub struct Step {
    #[command(flatten)]
    held: ClaimArgs,
    /// The step
    step: u64,
    /// How many there are
    #[arg(long, value_name = "STEPS")]
    of: Option<u64>,
}

/// A job that is done.
#[derive(Debug, Args)]
pub struct Done {
    #[command(flatten)]
    held: ClaimArgs,
    /// What it gave, as text; - takes the standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    result: Option<String>,
}

/// A job that did not succeed.
#[derive(Debug, Args)]
pub struct Fail {
    #[command(flatten)]
    held: ClaimArgs,
    /// What went wrong
    message: String,
    /// Try it again while it has retries left
    #[arg(long)]
    retry: bool,
    /// Try it again after a while: milliseconds, or a span such as 30s
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms)]
    retry_after: Option<u64>,
}

/// Reading one job.
#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    as_of: AsOf,
}

/// Listing jobs.
#[derive(Debug, Args)]
pub struct List {
    /// Of which type
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// Only those in this state
    #[arg(long)]
    state: Option<String>,
    /// Only ids behind this one
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// At most this many [default: all]
    #[arg(long)]
    limit: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    as_of: AsOf,
}

/// Counting jobs.
#[derive(Debug, Args)]
pub struct Count {
    /// Of which type
    #[arg(value_name = "TYPE")]
    task_type: String,
    /// Only those in this state
    #[arg(long)]
    state: Option<String>,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    as_of: AsOf,
}

/// The versions of one job.
#[derive(Debug, Args)]
pub struct History {
    #[command(flatten)]
    job: JobArgs,
    /// At most this many versions
    #[arg(long, default_value_t = 100)]
    limit: u64,
    /// Only versions before this counter
    #[arg(long, value_name = "COUNTER")]
    before: Option<u64>,
}

/// A sweep.
#[derive(Debug, Args)]
pub struct Sweep {
    /// Also those that nobody has written to for so long: milliseconds, or a span such as 5m
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms)]
    stuck: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
}

impl JobVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            JobVerb::Submit(submit) => submit.run(context),
            JobVerb::Claim(claim) => claim.run(context),
            JobVerb::Beat(beat) => beat.run(context),
            JobVerb::Step(step) => step.run(context),
            JobVerb::Done(done) => done.run(context),
            JobVerb::Fail(fail) => fail.run(context),
            JobVerb::Cancel(job) => job.change(context, "JOB.CANCEL"),
            JobVerb::Retry(job) => job.change(context, "JOB.RETRY"),
            JobVerb::Get(get) => get.run(context),
            JobVerb::Input(job) => job.bytes(context, "JOB.DATA", "was given nothing"),
            JobVerb::Result(job) => job.bytes(context, "JOB.RESULT", "gave nothing"),
            JobVerb::List(list) => list.run(context),
            JobVerb::Count(count) => count.run(context),
            JobVerb::History(history) => history.run(context),
            JobVerb::Sweep(sweep) => sweep.run(context),
        }
    }
}

impl JobArgs {
    fn call(&self, command: &str) -> CommandBuilder {
        CommandBuilder::new(command).word(&self.task_type).word(&self.id)
    }

    /// Starts a row about this job.
    fn row(&self) -> Row {
        vec![("type".into(), Field::text(&self.task_type)), ("id".into(), Field::text(&self.id))]
    }

    fn missing(&self) -> String {
        format!(
            "there is no job {}/{}: `mainstay job list {}`",
            self.task_type, self.id, self.task_type
        )
    }

    /// Calls a command that replies with the job's state.
    fn show_state(&self, context: &mut Context, call: CommandBuilder) -> Result<()> {
        let reply = write(context, &self.on, call)?;
        context.show(ReplyFormat::One("state"), self.row(), reply, || self.missing())
    }

    fn change(&self, context: &mut Context, command: &str) -> Result<()> {
        self.show_state(context, self.call(command))
    }

    fn bytes(&self, context: &mut Context, command: &str, lack: &str) -> Result<()> {
        let reply = read(context, &self.on, self.call(command))?;
        context.show(ReplyFormat::One("value"), self.row(), reply, || {
            format!("the job {}/{} is not there or {lack}", self.task_type, self.id)
        })
    }
}

impl ClaimArgs {
    fn call(&self, command: &str) -> CommandBuilder {
        self.job.call(command).word(self.token.to_string())
    }

    /// Calls a command that replies 1, or an error if the claim was lost.
    fn show_held(&self, context: &mut Context, call: CommandBuilder) -> Result<()> {
        let reply = write(context, &self.job.on, call)?;
        context.show(ReplyFormat::Flag("held"), self.job.row(), reply, || self.job.missing())
    }
}

impl Submit {
    fn call(&self, data: Option<Vec<u8>>) -> CommandBuilder {
        let call = self.job.call("JOB.SUBMIT");
        let call = match data {
            Some(data) => call.word("DATA").word(data),
            None => call,
        };
        let depends = (!self.depends.is_empty()).then(|| self.depends.join(","));
        call.option("DEPENDS", depends)
            .option("PRIORITY", self.priority)
            .option("RUNAT", self.run_at.map(|us| us / 1000))
            .option("TIMEOUT", self.lease)
            .option("RETRIES", self.retries)
    }

    fn run(self, context: &mut Context) -> Result<()> {
        let data = self.input.clone().map(|input| value_or_stdin(input, context)).transpose()?;
        self.job.show_state(context, self.call(data))
    }
}

impl Claim {
    fn call(&self, wait_ms: u64) -> CommandBuilder {
        let call = CommandBuilder::new("JOB.CLAIM")
            .word(&self.task_type)
            .word("WORKER")
            .word(&self.worker);
        call.option("LEASE", self.lease).option("WAIT", (wait_ms > 0).then_some(wait_ms))
    }

    /// Splits a long wait into short requests, so that each is answered before the reply timeout.
    fn run(self, context: &mut Context) -> Result<()> {
        let mut remaining_ms = self.wait;
        let reply = loop {
            let wait_ms = remaining_ms.min(WAIT_MS);
            let reply = write(context, &self.on, self.call(wait_ms))?;
            remaining_ms -= wait_ms;
            if reply != Reply::Nil || remaining_ms == 0 {
                break reply;
            }
        };
        let missing = || format!("there is no job of the type {} to be claimed", self.task_type);
        let known = vec![("type".into(), Field::text(&self.task_type))];
        context.show(reply_formats::of_command("JOB.CLAIM"), known, reply, missing)
    }
}

impl Beat {
    fn run(self, context: &mut Context) -> Result<()> {
        self.held.show_held(context, self.held.call("JOB.BEAT").option("LEASE", self.lease))
    }
}

impl Step {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.held.call("JOB.STEP").word(self.step.to_string());
        self.held.show_held(context, call.option("OF", self.of))
    }
}

impl Done {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.held.call("JOB.DONE");
        let call = match self.result {
            Some(result) => call.word("RESULT").word(value_or_stdin(result, context)?),
            None => call,
        };
        self.held.job.show_state(context, call)
    }
}

impl Fail {
    fn call(&self) -> CommandBuilder {
        let again = self.retry || self.retry_after.is_some();
        let call = self.held.call("JOB.FAIL").word(&self.message);
        call.flag("RETRY", again).option("AFTER", self.retry_after)
    }

    fn run(self, context: &mut Context) -> Result<()> {
        self.held.job.show_state(context, self.call())
    }
}

impl Get {
    /// Prints one object as JSON; in the other formats one line per field.
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.as_of.add_to(self.job.call("JOB.GET"));
        let reply = read(context, &self.job.on, call)?;
        let format = reply_formats::of_command("JOB.GET");
        if context.printer.is_json() {
            return context.show(format, self.job.row(), reply, || self.job.missing());
        }
        let FormattedReply::One(row) = format.apply(reply, false) else {
            return Err(Failure::negative(self.job.missing()));
        };
        let Some((_, Field::Plain(Value::Object(fields)))) = row.into_iter().next() else {
            return Err(Failure::error("JOB.GET answered something else than a job"));
        };
        for (name, value) in fields {
            let value = job_field(&name, value);
            context.printer.row(vec![("field".into(), Field::text(name)), ("value".into(), value)]);
        }
        context.printer.finish();
        Ok(())
    }
}

/// The value of a job's field. Names that end with `_at` are timestamps in milliseconds.
fn job_field(name: &str, value: Value) -> Field {
    let ms = std::str::from_utf8(&value.as_text()).ok().and_then(|text| text.parse().ok());
    match ms.filter(|_| name.ends_with("_at")) {
        Some(ms) => Field::Millis(ms),
        None => Field::Plain(value),
    }
}

impl List {
    fn run(self, context: &mut Context) -> Result<()> {
        let of = self.task_type;
        let state = self.state;
        let on = self.on;
        Pages::new(self.as_of, self.after, self.limit).show(context, |context, pages, size| {
            let call = CommandBuilder::new("JOB.LIST").word(&of).option("STATE", state.as_ref());
            let call = call.option("AFTER", pages.after.as_ref()).option("LIMIT", Some(size));
            match reply_formats::of_command("JOB.LIST")
                .apply(read(context, &on, pages.as_of.add_to(call))?, false)
            {
                FormattedReply::Many(rows) => Ok(rows),
                odd => Err(Failure::error(format!("JOB.LIST answered {odd:?}"))),
            }
        })
    }
}

impl Count {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("JOB.COUNT")
            .word(&self.task_type)
            .option("STATE", self.state.as_ref());
        let reply = read(context, &self.on, self.as_of.add_to(call))?;
        context.show(reply_formats::of_command("JOB.COUNT"), Row::new(), reply, String::new)
    }
}

impl History {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.job.call("JOB.HISTORY").option("LIMIT", Some(self.limit));
        let reply = read(context, &self.job.on, call.option("BEFORE", self.before))?;
        if reply == Reply::Array(Vec::new()) {
            return Err(Failure::negative(self.job.missing()));
        }
        context.show(reply_formats::of_command("JOB.HISTORY"), Row::new(), reply, || {
            self.job.missing()
        })
    }
}

impl Sweep {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("JOB.SWEEP").option("STUCK", self.stuck);
        let reply = read(context, &self.on, call)?;
        let FormattedReply::One(row) = reply_formats::of_command("JOB.SWEEP").apply(reply, false)
        else {
            return Err(Failure::error("JOB.SWEEP answered something else than counts"));
        };
        context.printer.one(row, RawFields::All);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, DataNoun, Noun};
    use crate::command_builder::text_of;
    use clap::Parser;

    fn parsed(words: &[&str]) -> std::result::Result<JobVerb, clap::Error> {
        let all = ["mainstay", "job"].iter().chain(words);
        match Arguments::try_parse_from(all)?.noun {
            Some(Noun::Data(DataNoun::Job(verb))) => Ok(verb),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn verbs_become_the_words_of_commands() {
        let words = ["submit", "email", "1", "--input", "-x", "--depends", "a,report/2"];
        let more = ["--priority", "-3", "--run-at", "5000000", "--lease", "2s", "--retries", "0"];
        let Ok(JobVerb::Submit(submit)) = parsed(&[&words[..], &more].concat()) else {
            panic!("no submit")
        };
        let wanted = "JOB.SUBMIT email 1 DATA -x DEPENDS a,report/2 PRIORITY -3 RUNAT 5000 \
                      TIMEOUT 2000 RETRIES 0";
        assert_eq!(text_of(submit.call(Some(b"-x".to_vec()))), wanted);
        let words = ["claim", "email", "-w", "w 1", "--lease", "1m", "--wait", "5s"];
        let Ok(JobVerb::Claim(claim)) = parsed(&words) else { panic!("no claim") };
        assert_eq!(text_of(claim.call(0)), "JOB.CLAIM email WORKER w 1 LEASE 60000");
        assert_eq!(text_of(claim.call(7)), "JOB.CLAIM email WORKER w 1 LEASE 60000 WAIT 7");
        let words = ["fail", "email", "1", "9", "no paper", "--retry-after", "3s"];
        let Ok(JobVerb::Fail(fail)) = parsed(&words) else { panic!("no fail") };
        assert_eq!(text_of(fail.call()), "JOB.FAIL email 1 9 no paper RETRY AFTER 3000");
        for wrong in [
            &["submit", "email"][..],
            &["claim", "email"],
            &["beat", "email", "1", "x"],
            &["done", "email", "1"],
            &["sweep", "--stuck", "soon"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
