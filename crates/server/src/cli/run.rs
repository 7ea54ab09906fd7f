//! `mainstay run`: logs of events, what they add up to, and those who follow them.

use super::archive::{Archive, Archived, Restore};
use super::args::{Moment, OnBranch};
use super::call::Call;
use super::cell::{given, read, write};
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::interrupt;
use super::output::{Bare, Format};
use super::pages::Pages;
use super::reply::Reply;
use super::session::Session;
use super::shape::{Shape, Shown};
use super::{shapes, time, timeline};
use clap::{Args, Subcommand};
use mainstay::Value;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// How many events are asked for at once.
const PAGE: u64 = 1000;
/// How long a server is asked to wait for the next event; well within the time an answer may take.
const WAIT_MS: u64 = 1000;

/// What can be done with runs.
#[derive(Debug, Subcommand)]
pub enum RunVerb {
    /// Append an event; exit code 1 if the run is not where it was expected
    Append(Append),
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
    Project(Which),
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
    Delete(Which),
    /// Write old runs that have ended to files, read them back, and delete them
    Archive(Archive),
    /// List the runs in an archive
    Archived(Archived),
    /// Bring a run back from an archive; exit code 1 if it is not there
    Restore(Restore),
}

/// One run.
#[derive(Debug, Args)]
pub struct Which {
    /// The run
    run: String,
    #[command(flatten)]
    on: OnBranch,
}

/// Appending an event.
#[derive(Debug, Args)]
pub struct Append {
    #[command(flatten)]
    run: Which,
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
}

/// Appending several events.
#[derive(Debug, Args)]
pub struct Batch {
    #[command(flatten)]
    run: Which,
    /// A JSON array of events, as [{"eventType":"RunStarted","planVersion":"1"}]; - takes the standard input
    #[arg(default_value = "-")]
    events: String,
}

/// Making a run.
#[derive(Debug, Args)]
pub struct Bootstrap {
    #[command(flatten)]
    run: Which,
    /// What is known of it, as JSON
    #[arg(default_value = "null")]
    metadata: String,
    /// Its first events, as a JSON array; - takes the standard input
    #[arg(long, value_name = "JSON", default_value = "[]")]
    events: String,
}

/// Reading events.
#[derive(Debug, Args)]
pub struct Fetch {
    #[command(flatten)]
    run: Which,
    /// Only events behind this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// At most this many [default: all]
    #[arg(long)]
    limit: Option<u64>,
    #[command(flatten)]
    moment: Moment,
}

/// Following a run.
#[derive(Debug, Args)]
pub struct Tail {
    #[command(flatten)]
    run: Which,
    /// Only events behind this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// End after so many events [default: go on]
    #[arg(long)]
    limit: Option<u64>,
    /// End when no event came for so long: milliseconds, or a span such as 30s [default: go on]
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms)]
    wait: Option<u64>,
}

/// What a run came to.
#[derive(Debug, Args)]
pub struct Timeline {
    #[command(flatten)]
    run: Which,
    /// Only events behind this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// At most this many events [default: all]
    #[arg(long)]
    limit: Option<u64>,
}

/// What events add up to.
#[derive(Debug, Args)]
pub struct Snapshot {
    #[command(flatten)]
    run: Which,
    /// Only events up to this one
    #[arg(long)]
    seq: Option<u64>,
    #[command(flatten)]
    moment: Moment,
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

/// What is known of a run.
#[derive(Debug, Args)]
pub struct Info {
    #[command(flatten)]
    run: Which,
    #[command(flatten)]
    moment: Moment,
}

/// Events that could not follow.
#[derive(Debug, Args)]
pub struct Alerts {
    #[command(flatten)]
    run: Which,
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
    run: Which,
    /// The event
    seq: u64,
}

/// Going on behind an event.
#[derive(Debug, Args)]
pub struct Fork {
    #[command(flatten)]
    run: Which,
    /// The event that the run ends with there
    seq: u64,
    /// The new branch
    name: String,
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
    moment: Moment,
}

impl RunVerb {
    /// Does it.
    pub fn run(self, session: &mut Session) -> Result<()> {
        match self {
            RunVerb::Append(append) => append.run(session),
            RunVerb::Batch(batch) => batch.run(session),
            RunVerb::Bootstrap(bootstrap) => bootstrap.run(session),
            RunVerb::Timeline(timeline) => timeline.run(session),
            RunVerb::Fetch(fetch) => fetch.run(session),
            RunVerb::Tail(tail) => tail.run(session),
            RunVerb::Snapshot(snapshot) => snapshot.run(session),
            RunVerb::Project(run) => run.summed(session, run.call("RUN.PROJECT")),
            RunVerb::Key(key) => key.run(session),
            RunVerb::Info(info) => info.run(session),
            RunVerb::Alerts(alerts) => alerts.run(session),
            RunVerb::Revision(of) => of.run(session),
            RunVerb::Fork(fork) => fork.run(session),
            RunVerb::List(list) => list.run(session),
            RunVerb::Delete(run) => run.delete(session),
            RunVerb::Archive(archive) => archive.run(session),
            RunVerb::Archived(archived) => archived.run(session),
            RunVerb::Restore(restore) => restore.run(session),
        }
    }
}

impl Which {
    fn call(&self, command: &str) -> Call {
        Call::new(command).word(&self.run)
    }

    /// The beginning of a row about this run.
    fn row(&self) -> Row {
        vec![("run".into(), Field::text(&self.run))]
    }

    fn missing(&self) -> String {
        format!("there is no run {}: `mainstay run list` lists them", self.run)
    }

    /// What a run came to: an object for programs, a line for each part of it for people.
    fn summed(&self, session: &mut Session, call: Call) -> Result<()> {
        let reply = read(session, &self.on, call)?;
        if session.printer.is_json() {
            return session.show(Shape::Object, Row::new(), reply, || self.missing());
        }
        let snapshot = object(&reply).ok_or_else(|| Failure::not_held(self.missing()))?;
        show_snapshot(session, &snapshot);
        Ok(())
    }

    fn delete(&self, session: &mut Session) -> Result<()> {
        let reply = read(session, &self.on, self.call("RUN.DELETE"))?;
        session.show(shapes::shape("RUN.DELETE"), self.row(), reply, || self.missing())
    }

    /// When it was made, in microseconds; nothing where there is none.
    fn start_us(&self, session: &mut Session) -> Result<Option<u64>> {
        let reply = read(session, &self.on, self.call("RUN.INFO"))?;
        let Reply::Array(parts) = reply else { return Ok(None) };
        Ok(parts.get(3).and_then(Reply::as_u64))
    }

    /// A page of its events.
    fn events(&self, session: &mut Session, call: Call) -> Result<Vec<(u64, Value)>> {
        let event = |row: Reply| match row {
            Reply::Array(mut parts) => {
                let event = object(&parts.pop()?)?;
                Some((parts.pop()?.as_u64()?, event))
            }
            _ => None,
        };
        match read(session, &self.on, call)? {
            Reply::Array(rows) => rows.into_iter().map(event).collect::<Option<_>>(),
            _ => None,
        }
        .ok_or_else(|| Failure::error("the server answered something else than events"))
    }
}

/// A text of JSON.
fn object(reply: &Reply) -> Option<Value> {
    match reply {
        Reply::Text(text) => Value::from_json(std::str::from_utf8(text).ok()?).ok(),
        _ => None,
    }
}

/// All fields of an event, its place first.
fn whole(seq: u64, event: Value) -> Row {
    let mut row = vec![("runSeq".into(), Field::number(seq))];
    if let Value::Object(fields) = event {
        let fields = fields.into_iter().filter(|(name, _)| name != "runSeq");
        row.extend(fields.map(|(name, value)| (name.into(), Field::Plain(value))));
    }
    row
}

impl Append {
    fn call(&self, data: &[u8]) -> Call {
        let call = self.run.call("RUN.APPEND").word(&self.event_type).word(data);
        call.option("STEP", self.step.as_ref())
            .option("ATTEMPT", self.attempt.as_ref())
            .option("PLAN", self.plan.as_ref())
            .option("PLANID", self.plan_id.as_ref())
            .option("KEY", self.own_key.as_ref())
            .option("SIGNAL", self.signal.as_ref())
            .option("EVENTID", self.event_id.as_ref())
            .option("EMITTED", self.emitted.as_ref())
            .option("EXPECT", self.expect)
            .option("MORE", self.more.as_ref())
    }

    fn run(self, session: &mut Session) -> Result<()> {
        let data = given(self.about.clone(), session)?;
        let reply = write(session, &self.run.on, self.call(&data))
            .map_err(|failure| self.moved(failure))?;
        session.show(shapes::shape("RUN.APPEND"), self.run.row(), reply, String::new)
    }

    /// Who expected another place is told as with all conditions.
    fn moved(&self, failure: Failure) -> Failure {
        match self.expect.is_some() && failure.is_of_kind("CONFLICT") {
            true => Failure::not_held(failure.to_string()),
            false => failure,
        }
    }
}

impl Batch {
    fn run(self, session: &mut Session) -> Result<()> {
        let events = given(self.events, session)?;
        let reply = write(session, &self.run.on, self.run.call("RUN.BATCH").word(events))?;
        session.show(shapes::shape("RUN.BATCH"), self.run.row(), reply, String::new)
    }
}

impl Bootstrap {
    fn run(self, session: &mut Session) -> Result<()> {
        let events = given(self.events, session)?;
        let call = self.run.call("RUN.BOOTSTRAP").word(&self.metadata).word(events);
        let reply = write(session, &self.run.on, call)?;
        session.show(shapes::shape("RUN.BOOTSTRAP"), self.run.row(), reply, String::new)
    }
}

impl Fetch {
    fn run(self, session: &mut Session) -> Result<()> {
        let (mut after, mut left) = (self.after, self.limit.unwrap_or(u64::MAX));
        let start_us = self.run.start_us(session)?.unwrap_or(0);
        while left > 0 && !session.printer.is_closed() {
            let size = left.min(PAGE);
            let call = self.run.call("RUN.FETCH").option("AFTER", Some(after));
            let call = self.moment.on(call.option("LIMIT", Some(size)));
            let events = self.run.events(session, call)?;
            let ended = (events.len() as u64) < size;
            after = events.last().map_or(after, |(seq, _)| *seq);
            left -= events.len() as u64;
            for (seq, event) in events {
                let row = match session.printer.is_json() {
                    true => whole(seq, event),
                    false => timeline::Moment::of(seq, &event).row(start_us, None),
                };
                session.printer.row(row);
            }
            if ended {
                break;
            }
        }
        session.printer.finish();
        Ok(())
    }
}

impl Tail {
    /// In the repl Ctrl-C ends the following, not the repl.
    fn run(self, session: &mut Session) -> Result<()> {
        match session.interactive {
            true => interrupt::until(|told| self.follow(session, || told.load(Ordering::Relaxed))),
            false => self.follow(session, || false),
        }
    }

    fn follow(self, session: &mut Session, is_told: impl Fn() -> bool) -> Result<()> {
        let (mut after, mut left) = (self.after, self.limit.unwrap_or(u64::MAX));
        let (mut start_us, mut silent_ms) = (None, 0);
        while left > 0 && !session.printer.is_closed() && !is_told() {
            let wait_ms =
                self.wait.map_or(WAIT_MS, |wait| wait.saturating_sub(silent_ms).min(WAIT_MS));
            let events = self.page(session, after, left.min(PAGE), wait_ms)?;
            if events.is_empty() {
                silent_ms += wait_ms;
                if self.wait.is_some_and(|wait| silent_ms >= wait) {
                    break;
                }
                continue;
            }
            (silent_ms, left) = (0, left - events.len() as u64);
            if start_us.is_none() {
                start_us = self.run.start_us(session)?;
            }
            for (seq, event) in events {
                after = seq;
                show_event(session, seq, event, start_us.unwrap_or(0));
            }
        }
        Ok(())
    }

    fn page(
        &self,
        session: &mut Session,
        after: u64,
        limit: u64,
        wait_ms: u64,
    ) -> Result<Vec<(u64, Value)>> {
        let call =
            self.run.call("RUN.TAIL").option("AFTER", Some(after)).option("LIMIT", Some(limit));
        self.run.events(session, call.option("WAIT", Some(wait_ms)))
    }
}

/// An event as it comes: a line for people, everything for programs.
fn show_event(session: &mut Session, seq: u64, event: Value, start_us: u64) {
    let moment = timeline::Moment::of(seq, &event);
    match session.printer.format() {
        Format::Table => session.printer.note(&moment.line(start_us)),
        Format::Json => session.printer.row(whole(seq, event)),
        Format::Raw => session.printer.row(moment.row(start_us, None)),
    }
}

impl Timeline {
    fn run(self, session: &mut Session) -> Result<()> {
        let Some(start_us) = self.run.start_us(session)? else {
            return Err(Failure::not_held(self.run.missing()));
        };
        let (mut after, mut left) = (self.after, self.limit.unwrap_or(u64::MAX));
        while left > 0 && !session.printer.is_closed() {
            let size = left.min(PAGE);
            let call = self.run.call("RUN.FETCH").option("AFTER", Some(after));
            let events = self.run.events(session, call.option("LIMIT", Some(size)))?;
            let wrong = self.wrong(session, after, &events)?;
            let ended = (events.len() as u64) < size;
            after = events.last().map_or(after, |(seq, _)| *seq);
            left -= events.len() as u64;
            for (seq, event) in events {
                let why = wrong.get(&seq).map(String::as_str);
                session.printer.row(row(session.printer.is_json(), seq, event, start_us, why));
            }
            if ended {
                break;
            }
        }
        session.printer.finish();
        self.sum(session)
    }

    /// Which of these events could not follow those before them, and why.
    fn wrong(
        &self,
        session: &mut Session,
        after: u64,
        events: &[(u64, Value)],
    ) -> Result<BTreeMap<u64, String>> {
        let Some((last, _)) = events.last() else { return Ok(BTreeMap::new()) };
        let call = self.run.call("RUN.ALERTS").option("AFTER", Some(after));
        let reply = read(session, &self.run.on, call.option("LIMIT", Some(events.len())))?;
        let Reply::Array(rows) = reply else { return Ok(BTreeMap::new()) };
        let alert = |row: Reply| match row {
            Reply::Array(parts) => {
                let message = super::shape::value(parts.get(1)?.clone());
                Some((parts.first()?.as_u64()?, timeline::word(&message)))
            }
            _ => None,
        };
        Ok(rows.into_iter().filter_map(alert).filter(|(seq, _)| seq <= last).collect())
    }

    /// What it all came to.
    fn sum(&self, session: &mut Session) -> Result<()> {
        let reply = read(session, &self.run.on, self.run.call("RUN.SNAPSHOT"))?;
        let Some(snapshot) = object(&reply) else { return Ok(()) };
        match session.printer.is_json() {
            true => session.printer.row(vec![("snapshot".into(), Field::Plain(snapshot))]),
            false => show_snapshot(session, &snapshot),
        }
        Ok(())
    }
}

/// A row of the timeline; a program gets the whole event and why it is illegal.
fn row(json: bool, seq: u64, event: Value, start_us: u64, why: Option<&str>) -> Row {
    if !json {
        return timeline::Moment::of(seq, &event).row(start_us, why);
    }
    let mut row = whole(seq, event);
    row.extend(why.map(|why| ("illegal".into(), Field::text(why))));
    row
}

/// A table of steps, and a line about the run.
fn show_snapshot(session: &mut Session, snapshot: &Value) {
    let steps = timeline::steps(snapshot);
    let any = !steps.is_empty();
    steps.into_iter().for_each(|row| session.printer.row(row));
    if any {
        session.printer.finish();
    }
    let part = |name| timeline::part(snapshot, name).map_or_else(String::new, timeline::word);
    let flags = match timeline::part(snapshot, "flags") {
        Some(Value::Array(flags)) => {
            flags.iter().map(|flag| format!(", {}", timeline::word(flag))).collect()
        }
        _ => String::new(),
    };
    let (run, status, seq, hash) =
        (part("runId"), part("status"), part("lastEventSeq"), part("hash"));
    let line = format!("{run} is {status} at event {seq}{flags}; hash {hash}");
    session.printer.text(&line);
}

impl Snapshot {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = self.run.call("RUN.SNAPSHOT").option("SEQ", self.seq);
        self.run.summed(session, self.moment.on(call))
    }
}

impl Key {
    fn run(self, session: &mut Session) -> Result<()> {
        let mut key = mainstay::EventKey::of(&self.run, &self.event_type, &self.plan);
        key = self.step.iter().fold(key, |key, step| key.step(step));
        key = self.attempt.iter().fold(key, |key, attempt| key.attempt(attempt));
        key = self.plan_id.iter().fold(key, |key, plan_id| key.plan_id(plan_id));
        let reply = Reply::Text(key.hash()?.into_bytes());
        session.show(shapes::shape("RUN.KEY"), Row::new(), reply, String::new)
    }
}

impl Info {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = self.moment.on(self.run.call("RUN.INFO"));
        let reply = read(session, &self.run.on, call)?;
        session.show(shapes::shape("RUN.INFO"), self.run.row(), reply, || self.run.missing())
    }
}

impl Alerts {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = self.run.call("RUN.ALERTS").option("AFTER", Some(self.after));
        let reply = read(session, &self.run.on, call.option("LIMIT", Some(self.limit)))?;
        session.show(shapes::shape("RUN.ALERTS"), Row::new(), reply, String::new)
    }
}

impl RevisionOf {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = self.run.call("RUN.REVISION").word(self.seq.to_string());
        let reply = read(session, &self.run.on, call)?;
        let missing = || format!("the run {} has no event {}", self.run.run, self.seq);
        session.show(shapes::shape("RUN.REVISION"), self.run.row(), reply, missing)
    }
}

impl Fork {
    fn run(self, session: &mut Session) -> Result<()> {
        let Which { run, on } = &self.run;
        let from = on.branch.clone().unwrap_or_else(|| session.branch().to_owned());
        let revision = session.database(true)?.fork_at_event(&self.name, &from, run, self.seq)?;
        let row = vec![
            ("branch".into(), Field::text(&self.name)),
            ("run".into(), Field::text(run)),
            ("seq".into(), Field::number(self.seq)),
            ("revision".into(), Field::number(revision)),
        ];
        session.printer.one(row, Bare::All);
        Ok(())
    }
}

impl List {
    fn run(self, session: &mut Session) -> Result<()> {
        let (prefix, on) = (Some(self.prefix).filter(|prefix| !prefix.is_empty()), self.on);
        let status = self.status;
        Pages::new(self.moment, self.after, self.limit).show(session, |session, pages, size| {
            let call = Call::new("RUN.LIST").option("PREFIX", prefix.as_ref());
            let call = call.option("STATUS", status.as_ref()).option("AFTER", pages.after.as_ref());
            let call = pages.moment.on(call.option("LIMIT", Some(size)));
            match shapes::shape("RUN.LIST").show(read(session, &on, call)?, false) {
                Shown::Many(rows) => Ok(rows),
                odd => Err(Failure::error(format!("RUN.LIST answered {odd:?}"))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Arguments, DataNoun, Noun};
    use crate::cli::call::said;
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
        let Ok(RunVerb::Append(append)) = parsed(&[&words[..], &more, &last].concat()) else {
            panic!("no append")
        };
        let wanted = "RUN.APPEND r StepStarted -x STEP a ATTEMPT 2 PLAN 1 PLANID p KEY k SIGNAL s \
                      EVENTID e EMITTED 2026-11-15T12:00:00Z EXPECT 0 MORE {}";
        assert_eq!(said(append.call(b"-x")), wanted);
        assert!(matches!(parsed(&["show", "r"]), Ok(RunVerb::Timeline(_))));
        for wrong in [
            &["append", "r"][..],
            &["append", "r", "T", "--expect", "x"],
            &["key", "r", "T"],
            &["tail", "r", "--wait", "soon"],
            &["revision", "r"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
