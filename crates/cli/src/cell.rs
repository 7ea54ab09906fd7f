//! `mainstay cell`: named values with a write counter.

use super::args::{Moment, OnBranch};
use super::call::Call;
use super::failure::{Failure, Result};
use super::field::{Row, named};
use super::output::Bare;
use super::pages::Pages;
use super::reply::Reply;
use super::session::Session;
use super::shape::{Shape, Shown};
use super::{shapes, time};
use clap::{Args, Subcommand};
use std::io::Read;

/// What can be done with cells.
#[derive(Debug, Subcommand)]
pub enum CellVerb {
    /// Show the value of a cell
    Get(Get),
    /// Show the value with its counter, time and revision
    Getv(Get),
    /// Write; shows the new counter
    Set(Set),
    /// Write only if the counter is the expected one; exit code 1 if not
    Cas(Cas),
    /// Delete; exit code 1 if there was nothing to delete
    Delete(Delete),
    /// Add to a number; a cell that is not there counts as zero
    Incr(Incr),
    /// Show the versions of a cell, newest first
    History(History),
    /// List names, in byte order
    List(List),
}

/// Reading one cell.
#[derive(Debug, Args)]
pub struct Get {
    /// The cell
    name: String,
    /// Show the value as the JSON it is, not as text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    moment: Moment,
}

/// Writing one cell.
#[derive(Debug, Args)]
pub struct Set {
    /// The cell
    name: String,
    /// Its value, stored as text; - takes the standard input
    #[arg(allow_negative_numbers = true)]
    value: String,
    /// The value is JSON: store it as the number, list or object it is
    #[arg(long)]
    json: bool,
    /// How long it lives: milliseconds, or a span such as 30s
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms)]
    ttl: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
}

/// Writing one cell under a condition.
#[derive(Debug, Args)]
pub struct Cas {
    /// The cell
    name: String,
    /// The counter it must have; nil if it must not be there
    #[arg(value_parser = expected)]
    expected: Expected,
    /// Its value, stored as text; - takes the standard input
    #[arg(allow_negative_numbers = true)]
    value: String,
    /// The value is JSON: store it as the number, list or object it is
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    on: OnBranch,
}

/// The expected counter; `None` if the cell must not exist.
#[derive(Clone, Copy, Debug)]
struct Expected(Option<u64>);

fn expected(text: &str) -> std::result::Result<Expected, String> {
    if text.eq_ignore_ascii_case("nil") {
        Ok(Expected(None))
    } else {
        text.parse()
            .map(|counter| Expected(Some(counter)))
            .map_err(|_| "write the counter that `cell getv` shows, or nil".to_owned())
    }
}

/// Deleting one cell.
#[derive(Debug, Args)]
pub struct Delete {
    /// The cell
    name: String,
    /// Only if it has this counter
    #[arg(long = "if", value_name = "COUNTER")]
    condition: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
}

/// Adding to one cell.
#[derive(Debug, Args)]
pub struct Incr {
    /// The cell
    name: String,
    /// What to add, a whole number or not
    #[arg(default_value = "1", allow_negative_numbers = true)]
    by: String,
    #[command(flatten)]
    on: OnBranch,
}

/// Looking back at one cell.
#[derive(Debug, Args)]
pub struct History {
    /// The cell
    name: String,
    /// At most this many versions
    #[arg(long, default_value_t = 1000)]
    limit: u64,
    /// Only versions with a smaller counter
    #[arg(long, value_name = "COUNTER")]
    before: Option<u64>,
    /// Show the values as the JSON they are, not as text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    on: OnBranch,
}

/// Listing names.
#[derive(Debug, Args)]
pub struct List {
    /// Only names that begin with this
    #[arg(default_value = "")]
    prefix: String,
    /// Only names behind this one
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    /// At most this many names
    #[arg(long)]
    limit: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    moment: Moment,
}

impl CellVerb {
    pub fn run(self, session: &mut Session) -> Result<()> {
        match self {
            CellVerb::Get(get) => get.run(session, "CELL.GET"),
            CellVerb::Getv(get) => get.run(session, "CELL.GETV"),
            CellVerb::Set(set) => set.run(session),
            CellVerb::Cas(cas) => cas.run(session),
            CellVerb::Delete(delete) => delete.run(session),
            CellVerb::Incr(incr) => incr.run(session),
            CellVerb::History(history) => history.run(session),
            CellVerb::List(list) => list.run(session),
        }
    }
}

impl Get {
    fn run(self, session: &mut Session, command: &str) -> Result<()> {
        let call = self.moment.on(Call::new(command).word(&self.name));
        let reply = read(session, &self.on, call)?;
        let missing = || format!("there is no cell {}: `mainstay cell list` lists them", self.name);
        let known = named(&self.name);
        session.show_typed(shapes::shape(command), known, reply, self.json, missing)
    }
}

impl Set {
    fn run(self, session: &mut Session) -> Result<()> {
        let value = given(self.value, session)?;
        let call = Call::new("CELL.SET").word(&self.name).word(value);
        let call = call.flag("JSON", self.json).option("TTL", self.ttl);
        let reply = write(session, &self.on, call)?;
        session.show(Shape::One("counter"), named(&self.name), reply, String::new)
    }
}

impl Cas {
    fn run(self, session: &mut Session) -> Result<()> {
        let value = given(self.value, session)?;
        let counter = self.expected.0.map_or_else(|| "NIL".to_owned(), |n| n.to_string());
        let call = Call::new("CELL.CAS").word(&self.name).word(&counter).word(value);
        let reply = write(session, &self.on, call.flag("JSON", self.json))?;
        let name = &self.name;
        let missing = || match self.expected.0 {
            Some(n) => format!("the counter of {name} is not {n}: `mainstay cell getv {name}`"),
            None => format!("{name} is there already: `mainstay cell getv {name}`"),
        };
        session.show(Shape::One("counter"), named(name), reply, missing)
    }
}

impl Delete {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = Call::new("CELL.DEL").word(&self.name).option("IF", self.condition);
        // Uses `read`, because a directory without a database has nothing to delete and must not be created.
        let reply = read(session, &self.on, call)?;
        let missing = || match self.condition {
            Some(n) => format!("there is no cell {} with counter {n}", self.name),
            None => format!("there is no cell {}", self.name),
        };
        session.show(Shape::Did("deleted"), named(&self.name), reply, missing)
    }
}

impl Incr {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = Call::new("CELL.INCR").word(&self.name).word(&self.by);
        let reply = write(session, &self.on, call).map_err(|failure| self.hint(failure))?;
        // The reply has the sum as text. It is parsed as JSON, so that it is shown as a number.
        let shown = shapes::shape("CELL.INCR").show(reply, true);
        session.printer.shown(shown, named(&self.name), Bare::Field("value"));
        Ok(())
    }

    fn hint(&self, failure: Failure) -> Failure {
        if failure.to_string().ends_with(", not a number") {
            failure.hint(&format!(
                "`cell set {} NUMBER --json` stores a number; INCR of the repl and of Redis clients \
                 counts texts",
                self.name
            ))
        } else {
            failure
        }
    }
}

impl History {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = Call::new("CELL.HISTORY").word(&self.name).option("LIMIT", Some(self.limit));
        let reply = read(session, &self.on, call.option("BEFORE", self.before))?;
        let missing = || format!("{} has no versions that are kept", self.name);
        if reply == Reply::Array(Vec::new()) {
            return Err(Failure::not_held(missing()));
        }
        let shape = shapes::shape("CELL.HISTORY");
        session.show_typed(shape, Row::new(), reply, self.json, missing)
    }
}

impl List {
    fn run(self, session: &mut Session) -> Result<()> {
        let prefix = Some(self.prefix).filter(|prefix| !prefix.is_empty());
        let on = self.on;
        Pages::new(self.moment, self.after, self.limit).show(session, |session, pages, size| {
            let call = Call::new("CELL.LIST").option("PREFIX", prefix.as_ref());
            let call = call.option("AFTER", pages.after.as_ref()).option("LIMIT", Some(size));
            match Shape::List("name").show(read(session, &on, pages.moment.on(call))?, false) {
                Shown::Many(rows) => Ok(rows),
                odd => Err(Failure::error(format!("CELL.LIST answered {odd:?}"))),
            }
        })
    }
}

/// Calls a command on a store that must exist.
pub(super) fn read(session: &mut Session, on: &OnBranch, call: Call) -> Result<Reply> {
    session.store()?.on(on.branch.as_deref(), |store| store.call(call.words()))
}

/// Calls a command on a store. A missing database directory is created.
pub(super) fn write(session: &mut Session, on: &OnBranch, call: Call) -> Result<Reply> {
    session.store_to_write()?.on(on.branch.as_deref(), |store| store.call(call.words()))
}

/// The value; `-` reads it from the standard input, except in the repl.
pub(super) fn given(value: String, session: &Session) -> Result<Vec<u8>> {
    if value != "-" || session.interactive {
        return Ok(value.into_bytes());
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Failure::error(format!("the standard input could not be read: {error}")))?;
    Ok(bytes)
}
