//! `mainstay run append`, `batch`, `bootstrap`, `key` and `fork`.

use super::super::cell::{value_or_stdin, write};
use super::super::command_builder::CommandBuilder;
use super::super::context::Context;
use super::super::failure::{Failure, Result};
use super::super::field::{Field, Row};
use super::super::output::RawFields;
use super::super::reply::Reply;
use super::super::reply_formats;
use super::RunArgs;
use clap::Args;

/// Appending an event.
#[derive(Debug, Args)]
pub struct Append {
    #[command(flatten)]
    run: RunArgs,
    /// What happened, as RunStarted or StepCompleted
    #[arg(value_name = "TYPE")]
    event_type: String,
    /// What belongs to it: JSON where it parses, else text; - takes the standard input
    #[arg(value_name = "DATA", default_value = "null", allow_hyphen_values = true)]
    about: String,
    /// The step that it concerns
    #[arg(long)]
    step: Option<String>,
    /// The logical attempt [default: 1]
    #[arg(long, value_name = "N")]
    attempt: Option<String>,
    /// The version of the plan, of which with the rest its key is made
    #[arg(long, value_name = "VERSION")]
    plan: Option<String>,
    /// The plan, where it has a name beside its version
    #[arg(long, value_name = "PLAN")]
    plan_id: Option<String>,
    /// A key of its own: told twice with it, it is one event
    #[arg(long, value_name = "KEY")]
    own_key: Option<String>,
    /// The signal that caused it
    #[arg(long, value_name = "ID")]
    signal: Option<String>,
    /// Its own name [default: it gets one]
    #[arg(long, value_name = "ID")]
    event_id: Option<String>,
    /// When it happened, as 2026-11-15T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    emitted: Option<String>,
    /// Only if this is the last sequence of the run; 0: it has none
    #[arg(long, value_name = "SEQ")]
    expect: Option<u64>,
    /// Further fields, as a JSON object
    #[arg(long, value_name = "JSON")]
    more: Option<String>,
    /// A message of the run for the outbox, written only if the event is new
    #[arg(long, num_args = 2, value_names = ["SUBJECT", "PAYLOAD"], allow_hyphen_values = true)]
    message: Vec<String>,
}

/// Appending several events.
#[derive(Debug, Args)]
pub struct Batch {
    #[command(flatten)]
    run: RunArgs,
    /// A JSON array of events, as [{"eventType":"RunStarted","planVersion":"1"}]; - takes the standard input
    #[arg(default_value = "-")]
    events: String,
}

/// Making a run.
#[derive(Debug, Args)]
pub struct Bootstrap {
    #[command(flatten)]
    run: RunArgs,
    /// What is known of it, as JSON
    #[arg(default_value = "null")]
    metadata: String,
    /// Its first events, as a JSON array; - takes the standard input
    #[arg(long, value_name = "JSON", default_value = "[]")]
    events: String,
}

/// Making a key.
#[derive(Debug, Args)]
pub struct Key {
    /// The run
    run: String,
    /// The type of the event
    #[arg(value_name = "TYPE")]
    event_type: String,
    /// The version of the plan
    #[arg(long, value_name = "VERSION")]
    plan: String,
    /// The plan, where it has a name beside its version
    #[arg(long, value_name = "PLAN")]
    plan_id: Option<String>,
    /// The step
    #[arg(long)]
    step: Option<String>,
    /// The logical attempt [default: 1]
    #[arg(long, value_name = "N")]
    attempt: Option<String>,
}

/// Going on behind an event.
#[derive(Debug, Args)]
pub struct Fork {
    #[command(flatten)]
    run: RunArgs,
    /// The event that the run ends with there
    seq: u64,
    /// The new branch
    name: String,
}

impl Append {
    pub(super) fn call(&self, data: &[u8]) -> CommandBuilder {
        let call = self.run.call("RUN.APPEND").word(&self.event_type).word(data);
        let call = call
            .option("STEP", self.step.as_ref())
            .option("ATTEMPT", self.attempt.as_ref())
            .option("PLAN", self.plan.as_ref())
            .option("PLANID", self.plan_id.as_ref())
            .option("KEY", self.own_key.as_ref())
            .option("SIGNAL", self.signal.as_ref())
            .option("EVENTID", self.event_id.as_ref())
            .option("EMITTED", self.emitted.as_ref())
            .option("EXPECT", self.expect)
            .option("MORE", self.more.as_ref());
        match &self.message[..] {
            [subject, payload] => call.word("MESSAGE").word(subject).word(payload),
            _ => call,
        }
    }

    pub fn run(self, context: &mut Context) -> Result<()> {
        let data = value_or_stdin(self.about.clone(), context)?;
        let reply = write(context, &self.run.on, self.call(&data))
            .map_err(|failure| self.map_conflict(failure))?;
        context.show(reply_formats::of_command("RUN.APPEND"), self.run.row(), reply, String::new)
    }

    /// With `--expect`, a conflict is a failed condition and gets exit code 1.
    fn map_conflict(&self, failure: Failure) -> Failure {
        if self.expect.is_some() && failure.is_of_kind("CONFLICT") {
            Failure::negative(failure.to_string())
        } else {
            failure
        }
    }
}

impl Batch {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let events = value_or_stdin(self.events, context)?;
        let reply = write(context, &self.run.on, self.run.call("RUN.BATCH").word(events))?;
        context.show(reply_formats::of_command("RUN.BATCH"), self.run.row(), reply, String::new)
    }
}

impl Bootstrap {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let events = value_or_stdin(self.events, context)?;
        let call = self.run.call("RUN.BOOTSTRAP").word(&self.metadata).word(events);
        let reply = write(context, &self.run.on, call)?;
        context.show(reply_formats::of_command("RUN.BOOTSTRAP"), self.run.row(), reply, String::new)
    }
}

impl Key {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let mut key = mainstay::EventKey::of(&self.run, &self.event_type, &self.plan);
        key = self.step.iter().fold(key, |key, step| key.step(step));
        key = self.attempt.iter().fold(key, |key, attempt| key.attempt(attempt));
        key = self.plan_id.iter().fold(key, |key, plan_id| key.plan_id(plan_id));
        let reply = Reply::Text(key.hash()?.into_bytes());
        context.show(reply_formats::of_command("RUN.KEY"), Row::new(), reply, String::new)
    }
}

impl Fork {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let RunArgs { run, on } = &self.run;
        let from = on.branch.clone().unwrap_or_else(|| context.branch().to_owned());
        let revision = context.database(true)?.fork_at_event(&self.name, &from, run, self.seq)?;
        let row = vec![
            ("branch".into(), Field::text(&self.name)),
            ("run".into(), Field::text(run)),
            ("seq".into(), Field::number(self.seq)),
            ("revision".into(), Field::number(revision)),
        ];
        context.printer.one(row, RawFields::All);
        Ok(())
    }
}
