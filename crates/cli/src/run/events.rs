//! `mainstay run fetch`, `tail` and `timeline`: reads the events of a run.

use super::super::args::AsOf;
use super::super::cell::read;
use super::super::context::Context;
use super::super::failure::{Failure, Result};
use super::super::field::{Field, Row};
use super::super::interrupt;
use super::super::output::Format;
use super::super::reply::Reply;
use super::super::{reply_format, time, timeline};
use super::{RunArgs, object, show_snapshot};
use clap::Args;
use mainstay::Value;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// The number of events per request.
const PAGE: u64 = 1000;
/// The time that a server waits for the next event; it must be well below the reply timeout.
const WAIT_MS: u64 = 1000;

/// Reading events.
#[derive(Debug, Args)]
pub struct Fetch {
    #[command(flatten)]
    run: RunArgs,
    /// Only events behind this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// At most this many [default: all]
    #[arg(long)]
    limit: Option<u64>,
    #[command(flatten)]
    as_of: AsOf,
}

/// Following a run.
#[derive(Debug, Args)]
pub struct Tail {
    #[command(flatten)]
    run: RunArgs,
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
    run: RunArgs,
    /// Only events behind this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// At most this many events [default: all]
    #[arg(long)]
    limit: Option<u64>,
}

/// All fields of an event, its sequence number first.
fn event_row(seq: u64, event: Value) -> Row {
    let mut row = vec![("runSeq".into(), Field::number(seq))];
    if let Value::Object(fields) = event {
        let fields = fields.into_iter().filter(|(name, _)| name != "runSeq");
        row.extend(fields.map(|(name, value)| (name.into(), Field::Plain(value))));
    }
    row
}

impl Fetch {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let mut after = self.after;
        let mut remaining = self.limit.unwrap_or(u64::MAX);
        let start_us = self.run.start_us(context)?.unwrap_or(0);
        while remaining > 0 && !context.printer.is_closed() {
            let size = remaining.min(PAGE);
            let call = self.run.call("RUN.FETCH").option("AFTER", Some(after));
            let call = self.as_of.add_to(call.option("LIMIT", Some(size)));
            let events = self.run.events(context, call)?;
            let ended = (events.len() as u64) < size;
            after = events.last().map_or(after, |(seq, _)| *seq);
            remaining -= events.len() as u64;
            for (seq, event) in events {
                let row = if context.printer.is_json() {
                    event_row(seq, event)
                } else {
                    timeline::TimelineEvent::of(seq, &event).row(start_us, None)
                };
                context.printer.row(row);
            }
            if ended {
                break;
            }
        }
        context.printer.finish();
        Ok(())
    }
}

impl Tail {
    /// Prints events as they arrive. In the repl, Ctrl-C ends the tail and not the repl.
    pub fn run(self, context: &mut Context) -> Result<()> {
        if context.interactive {
            interrupt::with_stop_flag(|stop| self.follow(context, || stop.load(Ordering::Relaxed)))
        } else {
            self.follow(context, || false)
        }
    }

    fn follow(self, context: &mut Context, is_stopped: impl Fn() -> bool) -> Result<()> {
        let mut after = self.after;
        let mut remaining = self.limit.unwrap_or(u64::MAX);
        let mut start_us = None;
        let mut silent_ms = 0;
        while remaining > 0 && !context.printer.is_closed() && !is_stopped() {
            let wait_ms =
                self.wait.map_or(WAIT_MS, |wait| wait.saturating_sub(silent_ms).min(WAIT_MS));
            let events = self.page(context, after, remaining.min(PAGE), wait_ms)?;
            if events.is_empty() {
                silent_ms += wait_ms;
                if self.wait.is_some_and(|wait| silent_ms >= wait) {
                    break;
                }
                continue;
            }
            silent_ms = 0;
            remaining -= events.len() as u64;
            if start_us.is_none() {
                start_us = self.run.start_us(context)?;
            }
            for (seq, event) in events {
                after = seq;
                show_event(context, seq, event, start_us.unwrap_or(0));
            }
        }
        Ok(())
    }

    fn page(
        &self,
        context: &mut Context,
        after: u64,
        limit: u64,
        wait_ms: u64,
    ) -> Result<Vec<(u64, Value)>> {
        let call =
            self.run.call("RUN.TAIL").option("AFTER", Some(after)).option("LIMIT", Some(limit));
        self.run.events(context, call.option("WAIT", Some(wait_ms)))
    }
}

/// Prints a new event: a line for people, all fields for programs.
fn show_event(context: &mut Context, seq: u64, event: Value, start_us: u64) {
    let shown = timeline::TimelineEvent::of(seq, &event);
    match context.printer.format() {
        Format::Table => context.printer.note(&shown.line(start_us)),
        Format::Json => context.printer.row(event_row(seq, event)),
        Format::Raw => context.printer.row(shown.row(start_us, None)),
    }
}

impl Timeline {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let Some(start_us) = self.run.start_us(context)? else {
            return Err(Failure::negative(self.run.missing()));
        };
        let mut after = self.after;
        let mut remaining = self.limit.unwrap_or(u64::MAX);
        while remaining > 0 && !context.printer.is_closed() {
            let size = remaining.min(PAGE);
            let call = self.run.call("RUN.FETCH").option("AFTER", Some(after));
            let events = self.run.events(context, call.option("LIMIT", Some(size)))?;
            let alerts = self.alerts(context, after, &events)?;
            let ended = (events.len() as u64) < size;
            after = events.last().map_or(after, |(seq, _)| *seq);
            remaining -= events.len() as u64;
            for (seq, event) in events {
                let why = alerts.get(&seq).map(String::as_str);
                context.printer.row(timeline_row(
                    context.printer.is_json(),
                    seq,
                    event,
                    start_us,
                    why,
                ));
            }
            if ended {
                break;
            }
        }
        context.printer.finish();
        self.show_sum(context)
    }

    /// The alerts of these events, by sequence number.
    fn alerts(
        &self,
        context: &mut Context,
        after: u64,
        events: &[(u64, Value)],
    ) -> Result<BTreeMap<u64, String>> {
        let Some((last, _)) = events.last() else { return Ok(BTreeMap::new()) };
        let call = self.run.call("RUN.ALERTS").option("AFTER", Some(after));
        let reply = read(context, &self.run.on, call.option("LIMIT", Some(events.len())))?;
        let Reply::Array(rows) = reply else { return Ok(BTreeMap::new()) };
        let alert = |row: Reply| match row {
            Reply::Array(parts) => {
                let message = reply_format::to_value(parts.get(1)?.clone());
                Some((parts.first()?.as_u64()?, timeline::word(&message)))
            }
            _ => None,
        };
        Ok(rows.into_iter().filter_map(alert).filter(|(seq, _)| seq <= last).collect())
    }

    /// Prints the snapshot of the run.
    fn show_sum(&self, context: &mut Context) -> Result<()> {
        let reply = read(context, &self.run.on, self.run.call("RUN.SNAPSHOT"))?;
        let Some(snapshot) = object(&reply) else { return Ok(()) };
        if context.printer.is_json() {
            context.printer.row(vec![("snapshot".into(), Field::Plain(snapshot))])
        } else {
            show_snapshot(context, &snapshot)
        }
        Ok(())
    }
}

/// A row of the timeline. A program gets the whole event, and its alert.
fn timeline_row(json: bool, seq: u64, event: Value, start_us: u64, why: Option<&str>) -> Row {
    if !json {
        return timeline::TimelineEvent::of(seq, &event).row(start_us, why);
    }
    let mut row = event_row(seq, event);
    row.extend(why.map(|why| ("illegal".into(), Field::text(why))));
    row
}
