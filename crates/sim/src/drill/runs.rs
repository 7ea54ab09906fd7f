//! Run and outbox part of a transfer: each transaction that moves money also appends an event and sends a
//! message.
//!
//! ```text
//!   one transaction   accounts, mark/3 = its name   the cells, which the ledger checks
//!                     run/1  event { key: its name }   in a run that several writers append to
//!                     outbox { its name }              a message about it
//! ```
//!
//! The cells are matched with the acknowledgements. If the version of the mark, the event or the message
//! exists without the others, the transaction was torn, lost or executed twice.

use super::op::Id;
use super::{Outcome, WRITERS, mark_cell};
use mainstay::{Database, Name, NewEvent, OutboxCommand, Result, RunCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Number of runs that the writers share.
const RUNS: u64 = 5;
/// Events, versions or messages per read.
const PAGE: usize = 500;
/// A lease longer than any check takes.
const LEASE: Duration = Duration::from_secs(3600);

/// The run to which an operation appends.
fn run_of(id: Id) -> String {
    format!("run/{}", (id.thread + id.seq) % RUNS)
}

/// The event of an operation.
pub fn event(id: Id) -> NewEvent {
    let kinds = ["RunStarted", "Noted", "RunPaused", "RunResumed"];
    let kind = kinds[(id.seq % 4) as usize];
    NewEvent::new(&run_of(id), kind).with_key(&id.to_string()).value(id.seq as i64)
}

/// The command that appends the event.
pub fn append(id: Id) -> RunCommand {
    RunCommand::Append { event: Box::new(event(id)), expected: None }
}

/// The message about the event: subject, payload and run.
pub fn message(id: Id) -> (&'static str, Vec<u8>, String) {
    ("moved", id.to_string().into_bytes(), run_of(id))
}

/// The command that sends the message.
pub fn put(id: Id) -> Result<OutboxCommand> {
    let (subject, payload, run) = message(id);
    Ok(OutboxCommand::Put { subject: subject.to_owned(), payload, run: Some(Name::new(&run)?) })
}

/// The verified runs and messages, over all crashes.
#[derive(Default)]
pub struct Runs {
    /// By run: the number of events so far, and the key of the last one.
    seen: BTreeMap<String, (u64, String)>,
    /// By writer: the counter of the last mark found.
    marks: BTreeMap<u64, u64>,
    /// The operations whose marks, events and messages were found.
    marked: BTreeSet<String>,
    appended: BTreeSet<String>,
    sent: BTreeSet<String>,
    /// By run: the id of the last message received.
    last_sent: BTreeMap<String, u64>,
}

impl Runs {
    /// The names of all operations with a mark, as of the last check.
    pub fn marked(&self) -> &BTreeSet<String> {
        &self.marked
    }

    /// Checks everything new: each operation with a mark has an event and a message, and no other operation
    /// has any.
    pub fn check(&mut self, db: &Database) -> Outcome<()> {
        let told = |error: mainstay::Error| format!("looking at runs: {error}");
        (0..WRITERS).try_for_each(|thread| self.look_at_marks(db, thread)).map_err(told)?;
        for run in (0..RUNS).map(|k| format!("run/{k}")) {
            self.look_at_run(db, &run)?;
            let kept = db.runs().snapshot(&run).map_err(told)?;
            let whole = db.runs().project(&run).map_err(told)?;
            if kept != whole {
                return Err(format!("`{run}` is kept as {kept:?}, its log says {whole:?}"));
            }
        }
        self.take_messages(db)?;
        let differing = |what: &str, one: &BTreeSet<String>, other: &BTreeSet<String>| {
            let first = one.difference(other).next();
            first.map_or(Ok(()), |id| Err(format!("LOST: {id} has {what}")))
        };
        differing("a mark, but no event", &self.marked, &self.appended)?;
        differing("an event, but no mark", &self.appended, &self.marked)?;
        differing("an event, but there was no message", &self.appended, &self.sent)?;
        differing("a message, but no event", &self.sent, &self.appended)
    }

    /// Reads the marks after the last known one.
    fn look_at_marks(&mut self, db: &Database, thread: u64) -> Result<()> {
        let last = self.marks.get(&thread).copied().unwrap_or(0);
        let mut newest = last;
        let mut before = None;
        loop {
            let page = db.cells().history(&mark_cell(thread), PAGE, before)?;
            for version in page.iter().filter(|version| version.counter > last) {
                newest = newest.max(version.counter);
                let text = version.value.as_ref().and_then(|value| value.as_str());
                let name = text.unwrap_or_default().trim_end_matches(':');
                self.marked.insert(name.to_owned());
            }
            before = page.last().map(|version| version.counter).filter(|counter| *counter > last);
            if before.is_none() {
                self.marks.insert(thread, newest);
                return Ok(());
            }
        }
    }

    /// Reads the events after the last known one, which must be unchanged. Sequence numbers have no gap, and
    /// keys are unique.
    fn look_at_run(&mut self, db: &Database, run: &str) -> Outcome<()> {
        let (mut last, key) = self.seen.get(run).cloned().unwrap_or_default();
        let fetch = |after| {
            let events = db.runs().fetch(run, after, PAGE);
            events.map_err(|error| format!("fetching `{run}`: {error}"))
        };
        let there = fetch(last.saturating_sub(1))?;
        if last > 0 && there.first().is_none_or(|event| event.idempotency_key != key) {
            return Err(format!("LOST: event {last} of `{run}` was {key} and is not any more"));
        }
        loop {
            let events = fetch(last)?;
            if events.is_empty() {
                return Ok(());
            }
            for event in events {
                if event.run_seq != last + 1 {
                    return Err(format!("`{run}` goes from event {last} to {}", event.run_seq));
                }
                last = event.run_seq;
                if !self.appended.insert(event.idempotency_key.clone()) {
                    return Err(format!("{} is in `{run}` twice", event.idempotency_key));
                }
                self.seen.insert(run.to_owned(), (last, event.idempotency_key));
            }
        }
    }

    /// Claims and acknowledges all messages. None may arrive twice, and those of a run must arrive in its
    /// order.
    fn take_messages(&mut self, db: &Database) -> Outcome<()> {
        let told = |error: mainstay::Error| format!("looking at the outbox: {error}");
        loop {
            let messages = db.outbox().claim(PAGE, LEASE).map_err(told)?;
            if messages.is_empty() {
                return Ok(());
            }
            let ids: Vec<u64> = messages.iter().map(|message| message.id).collect();
            db.outbox().ack(&ids).map_err(told)?;
            for message in messages {
                let name = String::from_utf8_lossy(&message.payload).into_owned();
                let last = self.last_sent.entry(message.run.unwrap_or_default()).or_default();
                if message.id <= *last || !self.sent.insert(name.clone()) {
                    return Err(format!("message {} about {name} came behind {last}", message.id));
                }
                *last = message.id;
            }
        }
    }
}
