//! `mainstay run`: append-only event logs, their snapshots, and tailing.

mod events;
mod write;

use super::archive::{Archive, ArchiveList, Restore};
use super::args::{AsOf, OnBranch};
use super::cell::read;
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::pages::Pages;
use super::reply::Reply;
use super::reply_format::{FormattedReply, ReplyFormat};
use super::{reply_formats, timeline};
use clap::{Args, Subcommand};
use events::{Fetch, Tail, Timeline};
use mainstay::Value;
use write::{Append, Batch, Bootstrap, Fork, Key};

/// What can be done with runs.
#[derive(Debug, Subcommand)]
pub enum RunVerb {
    /// Append an event; exit code 1 if the run is not where it was expected
    Append(Box<Append>),
    /// Append several events, all or none
    Batch(Batch),
    /// Make a run with its metadata and first events; exit code 1 if there is one
    Bootstrap(Bootstrap),
    /// Show what happened when, and what it came to
    #[command(visible_alias = "show")]
    Timeline(Timeline),
    /// Show events in order, with all they hold
    Fetch(Fetch),
    /// Show events as they come, until interrupted
    Tail(Tail),
    /// Show what the events add up to
    Snapshot(Snapshot),
    /// Add all events up anew, whatever is kept; the hash has to be that of the snapshot
    Project(RunArgs),
    /// Make the idempotency key of an event
    Key(Key),
    /// Show what is known of a run without its events
    Info(Info),
    /// Show events that could not follow those before them
    Alerts(Alerts),
    /// Show the revision that brought an event
    Revision(RevisionOf),
    /// Make a branch on which the run goes on behind an event, all else as it was then
    Fork(Fork),
    /// List runs in byte order of their names
    List(List),
    /// Delete a whole run; exit code 1 if there was none
    Delete(RunArgs),
    /// Write old runs that have ended to files, read them back, and delete them
    Archive(Archive),
    /// List the runs in an archive
    Archived(ArchiveList),
    /// Bring a run back from an archive; exit code 1 if it is not there
    Restore(Restore),
}

/// One run.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The run
    run: String,
    #[command(flatten)]
    on: OnBranch,
}

/// What events add up to.
#[derive(Debug, Args)]
pub struct Snapshot {
    #[command(flatten)]
    run: RunArgs,
    /// Only events up to this one
    #[arg(long)]
    seq: Option<u64>,
    #[command(flatten)]
    as_of: AsOf,
}

/// What is known of a run.
#[derive(Debug, Args)]
pub struct Info {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    as_of: AsOf,
}

/// Events that could not follow.
#[derive(Debug, Args)]
pub struct Alerts {
    #[command(flatten)]
    run: RunArgs,
    /// Only behind this event
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// At most this many
    #[arg(long, default_value_t = 1000)]
    limit: u64,
}

/// Where an event came.
#[derive(Debug, Args)]
pub struct RevisionOf {
    #[command(flatten)]
    run: RunArgs,
    /// The event
    seq: u64,
}

/// Listing runs.
#[derive(Debug, Args)]
pub struct List {
    /// Only names that begin with this
    #[arg(default_value = "")]
    prefix: String,
    /// Only those that stand here: pending, approved, running, paused, completed, failed, cancelled
    #[arg(long)]
    status: Option<String>,
    /// Only runs behind this one
    #[arg(long, value_name = "RUN")]
    after: Option<String>,
    /// At most this many
    #[arg(long)]
    limit: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    as_of: AsOf,
}

impl RunVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            RunVerb::Append(append) => append.run(context),
            RunVerb::Batch(batch) => batch.run(context),
            RunVerb::Bootstrap(bootstrap) => bootstrap.run(context),
            RunVerb::Timeline(timeline) => timeline.run(context),
            RunVerb::Fetch(fetch) => fetch.run(context),
            RunVerb::Tail(tail) => tail.run(context),
            RunVerb::Snapshot(snapshot) => snapshot.run(context),
            RunVerb::Project(run) => run.show_sum(context, run.call("RUN.PROJECT")),
            RunVerb::Key(key) => key.run(context),
            RunVerb::Info(info) => info.run(context),
            RunVerb::Alerts(alerts) => alerts.run(context),
            RunVerb::Revision(of) => of.run(context),
            RunVerb::Fork(fork) => fork.run(context),
            RunVerb::List(list) => list.run(context),
            RunVerb::Delete(run) => run.delete(context),
            RunVerb::Archive(archive) => archive.run(context),
            RunVerb::Archived(archived) => archived.run(context),
            RunVerb::Restore(restore) => restore.run(context),
        }
    }
}

impl RunArgs {
    fn call(&self, command: &str) -> CommandBuilder {
        CommandBuilder::new(command).word(&self.run)
    }

    /// Starts a row about this run.
    fn row(&self) -> Row {
        vec![("run".into(), Field::text(&self.run))]
    }

    fn missing(&self) -> String {
        format!("there is no run {}: `mainstay run list` lists them", self.run)
    }

    /// Prints a snapshot: an object as JSON, or one line per step for people.
    fn show_sum(&self, context: &mut Context, call: CommandBuilder) -> Result<()> {
        let reply = read(context, &self.on, call)?;
        if context.printer.is_json() {
            return context.show(ReplyFormat::Object, Row::new(), reply, || self.missing());
        }
        let snapshot = object(&reply).ok_or_else(|| Failure::negative(self.missing()))?;
        show_snapshot(context, &snapshot);
        Ok(())
    }

    fn delete(&self, context: &mut Context) -> Result<()> {
        let reply = read(context, &self.on, self.call("RUN.DELETE"))?;
        context.show(reply_formats::of_command("RUN.DELETE"), self.row(), reply, || self.missing())
    }

    /// The creation time in microseconds; `None` if the run does not exist.
    fn start_us(&self, context: &mut Context) -> Result<Option<u64>> {
        let reply = read(context, &self.on, self.call("RUN.INFO"))?;
        let Reply::Array(parts) = reply else { return Ok(None) };
        Ok(parts.get(3).and_then(Reply::as_u64))
    }

    /// Requests one page of events.
    fn events(&self, context: &mut Context, call: CommandBuilder) -> Result<Vec<(u64, Value)>> {
        let event = |row: Reply| match row {
            Reply::Array(mut parts) => {
                let event = object(&parts.pop()?)?;
                Some((parts.pop()?.as_u64()?, event))
            }
            _ => None,
        };
        match read(context, &self.on, call)? {
            Reply::Array(rows) => rows.into_iter().map(event).collect::<Option<_>>(),
            _ => None,
        }
        .ok_or_else(|| Failure::error("the server answered something else than events"))
    }
}

/// Parses a text reply as JSON.
fn object(reply: &Reply) -> Option<Value> {
    match reply {
        Reply::Text(text) => Value::from_json_exact(std::str::from_utf8(text).ok()?).ok(),
        _ => None,
    }
}

/// Prints a table of steps, and a line about the run.
fn show_snapshot(context: &mut Context, snapshot: &Value) {
    let steps = timeline::steps(snapshot);
    let any = !steps.is_empty();
    steps.into_iter().for_each(|row| context.printer.row(row));
    if any {
        context.printer.finish();
    }
    let part = |name| timeline::part(snapshot, name).map_or_else(String::new, timeline::word);
    let flags = match timeline::part(snapshot, "flags") {
        Some(Value::Array(flags)) => {
            flags.iter().map(|flag| format!(", {}", timeline::word(flag))).collect()
        }
        _ => String::new(),
    };
    let run = part("runId");
    let status = part("status");
    let seq = part("lastEventSeq");
    let hash = part("hash");
    let line = format!("{run} is {status} at event {seq}{flags}; hash {hash}");
    context.printer.text(&line);
}

impl Snapshot {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.run.call("RUN.SNAPSHOT").option("SEQ", self.seq);
        self.run.show_sum(context, self.as_of.add_to(call))
    }
}

impl Info {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.as_of.add_to(self.run.call("RUN.INFO"));
        let reply = read(context, &self.run.on, call)?;
        context.show(reply_formats::of_command("RUN.INFO"), self.run.row(), reply, || {
            self.run.missing()
        })
    }
}

impl Alerts {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.run.call("RUN.ALERTS").option("AFTER", Some(self.after));
        let reply = read(context, &self.run.on, call.option("LIMIT", Some(self.limit)))?;
        context.show(reply_formats::of_command("RUN.ALERTS"), Row::new(), reply, String::new)
    }
}

impl RevisionOf {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.run.call("RUN.REVISION").word(self.seq.to_string());
        let reply = read(context, &self.run.on, call)?;
        context.show(reply_formats::of_command("RUN.REVISION"), self.run.row(), reply, || {
            format!("the run {} has no event {}", self.run.run, self.seq)
        })
    }
}

impl List {
    fn run(self, context: &mut Context) -> Result<()> {
        let prefix = Some(self.prefix).filter(|prefix| !prefix.is_empty());
        let on = self.on;
        let status = self.status;
        Pages::new(self.as_of, self.after, self.limit).show(context, |context, pages, size| {
            let call = CommandBuilder::new("RUN.LIST").option("PREFIX", prefix.as_ref());
            let call = call.option("STATUS", status.as_ref()).option("AFTER", pages.after.as_ref());
            let call = pages.as_of.add_to(call.option("LIMIT", Some(size)));
            match reply_formats::of_command("RUN.LIST").apply(read(context, &on, call)?, false) {
                FormattedReply::Many(rows) => Ok(rows),
                odd => Err(Failure::error(format!("RUN.LIST answered {odd:?}"))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, DataNoun, Noun};
    use crate::command_builder::text_of;
    use clap::Parser;

    fn parsed(words: &[&str]) -> std::result::Result<RunVerb, clap::Error> {
        let all = ["mainstay", "run"].iter().chain(words);
        match Arguments::try_parse_from(all)?.noun {
            Some(Noun::Data(DataNoun::Run(verb))) => Ok(verb),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn verbs_become_the_words_of_commands() {
        let words =
            ["append", "r", "StepStarted", "-x", "--step", "a", "--attempt", "2", "--plan", "1"];
        let more = ["--plan-id", "p", "--own-key", "k", "--signal", "s", "--event-id", "e"];
        let last = ["--emitted", "2026-11-15T12:00:00Z", "--expect", "0", "--more", "{}"];
        let message = ["--message", "to", "-7"];
        let all = [&words[..], &more, &last, &message].concat();
        let Ok(RunVerb::Append(append)) = parsed(&all) else { panic!("no append") };
        let wanted = "RUN.APPEND r StepStarted -x STEP a ATTEMPT 2 PLAN 1 PLANID p KEY k SIGNAL s \
                      EVENTID e EMITTED 2026-11-15T12:00:00Z EXPECT 0 MORE {} MESSAGE to -7";
        assert_eq!(text_of(append.call(b"-x")), wanted);
        assert!(matches!(parsed(&["show", "r"]), Ok(RunVerb::Timeline(_))));
        for wrong in [
            &["append", "r"][..],
            &["append", "r", "T", "--expect", "x"],
            &["append", "r", "T", "--message", "to"],
            &["key", "r", "T"],
            &["tail", "r", "--wait", "soon"],
            &["revision", "r"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
