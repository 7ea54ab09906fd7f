//! `mainstay cell`: named values with a write counter.

use super::args::{AsOf, OnBranch};
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Row, name_row};
use super::output::RawFields;
use super::pages::Pages;
use super::reply::Reply;
use super::reply_format::{FormattedReply, ReplyFormat};
use super::{reply_formats, time};
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
    as_of: AsOf,
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
    as_of: AsOf,
}

impl CellVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            CellVerb::Get(get) => get.run(context, "CELL.GET"),
            CellVerb::Getv(get) => get.run(context, "CELL.GETV"),
            CellVerb::Set(set) => set.run(context),
            CellVerb::Cas(cas) => cas.run(context),
            CellVerb::Delete(delete) => delete.run(context),
            CellVerb::Incr(incr) => incr.run(context),
            CellVerb::History(history) => history.run(context),
            CellVerb::List(list) => list.run(context),
        }
    }
}

impl Get {
    fn run(self, context: &mut Context, command: &str) -> Result<()> {
        let call = self.as_of.add_to(CommandBuilder::new(command).word(&self.name));
        let reply = read(context, &self.on, call)?;
        let missing = || format!("there is no cell {}: `mainstay cell list` lists them", self.name);
        let known = name_row(&self.name);
        context.show_typed(reply_formats::of_command(command), known, reply, self.json, missing)
    }
}

impl Set {
    fn run(self, context: &mut Context) -> Result<()> {
        let value = value_or_stdin(self.value, context)?;
        let call = CommandBuilder::new("CELL.SET").word(&self.name).word(value);
        let call = call.flag("JSON", self.json).option("TTL", self.ttl);
        let reply = write(context, &self.on, call)?;
        context.show(ReplyFormat::One("counter"), name_row(&self.name), reply, String::new)
    }
}

impl Cas {
    fn run(self, context: &mut Context) -> Result<()> {
        let value = value_or_stdin(self.value, context)?;
        let counter = self.expected.0.map_or_else(|| "NIL".to_owned(), |n| n.to_string());
        let call = CommandBuilder::new("CELL.CAS").word(&self.name).word(&counter).word(value);
        let reply = write(context, &self.on, call.flag("JSON", self.json))?;
        let name = &self.name;
        let missing = || match self.expected.0 {
            Some(n) => format!("the counter of {name} is not {n}: `mainstay cell getv {name}`"),
            None => format!("{name} is there already: `mainstay cell getv {name}`"),
        };
        context.show(ReplyFormat::One("counter"), name_row(name), reply, missing)
    }
}

impl Delete {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("CELL.DEL").word(&self.name).option("IF", self.condition);
        // Uses `read`, because a directory without a database has nothing to delete and must not be created.
        let reply = read(context, &self.on, call)?;
        let missing = || match self.condition {
            Some(n) => format!("there is no cell {} with counter {n}", self.name),
            None => format!("there is no cell {}", self.name),
        };
        context.show(ReplyFormat::Flag("deleted"), name_row(&self.name), reply, missing)
    }
}

impl Incr {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("CELL.INCR").word(&self.name).word(&self.by);
        let reply = write(context, &self.on, call).map_err(|failure| self.hint(failure))?;
        // The reply has the sum as text. It is parsed as JSON, so that it is shown as a number.
        let shown = reply_formats::of_command("CELL.INCR").apply(reply, true);
        context.printer.result(shown, name_row(&self.name), RawFields::Field("value"));
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
    fn run(self, context: &mut Context) -> Result<()> {
        let call =
            CommandBuilder::new("CELL.HISTORY").word(&self.name).option("LIMIT", Some(self.limit));
        let reply = read(context, &self.on, call.option("BEFORE", self.before))?;
        let missing = || format!("{} has no versions that are kept", self.name);
        if reply == Reply::Array(Vec::new()) {
            return Err(Failure::negative(missing()));
        }
        let format = reply_formats::of_command("CELL.HISTORY");
        context.show_typed(format, Row::new(), reply, self.json, missing)
    }
}

impl List {
    fn run(self, context: &mut Context) -> Result<()> {
        let prefix = Some(self.prefix).filter(|prefix| !prefix.is_empty());
        let on = self.on;
        Pages::new(self.as_of, self.after, self.limit).show(context, |context, pages, size| {
            let call = CommandBuilder::new("CELL.LIST").option("PREFIX", prefix.as_ref());
            let call = call.option("AFTER", pages.after.as_ref()).option("LIMIT", Some(size));
            match ReplyFormat::List("name")
                .apply(read(context, &on, pages.as_of.add_to(call))?, false)
            {
                FormattedReply::Many(rows) => Ok(rows),
                odd => Err(Failure::error(format!("CELL.LIST answered {odd:?}"))),
            }
        })
    }
}

/// Calls a command on a store that must exist.
pub(super) fn read(context: &mut Context, on: &OnBranch, call: CommandBuilder) -> Result<Reply> {
    context.store()?.on(on.branch.as_deref(), |store| store.call(call.words()))
}

/// Calls a command on a store. A missing database directory is created.
pub(super) fn write(context: &mut Context, on: &OnBranch, call: CommandBuilder) -> Result<Reply> {
    context.store_to_write()?.on(on.branch.as_deref(), |store| store.call(call.words()))
}

/// The value; `-` reads it from the standard input, except in the repl.
pub(super) fn value_or_stdin(value: String, context: &Context) -> Result<Vec<u8>> {
    if value != "-" || context.interactive {
        return Ok(value.into_bytes());
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Failure::error(format!("the standard input could not be read: {error}")))?;
    Ok(bytes)
}
