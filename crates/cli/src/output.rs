//! Output formats: tables, JSON lines, or bare values.
//!
//! ```text
//!   rows --> table   collected, printed at the end
//!        --> json    one object per line, at once
//!        --> raw     bare values, at once, separated by tabs
//! ```

use super::failure::{Failure, Result};
use super::field::{Field, Row, escape_control};
use super::reply::Reply;
use super::reply_format::{self, FormattedReply, ReplyFormat};
use clap::ValueEnum;
use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use mainstay_server::resp::inline_command;
use std::io::{self, IsTerminal, Write};

/// Terminals that report a smaller width do not know it.
const MIN_WIDTH: u16 = 20;
const DEFAULT_WIDTH: u16 = 80;

/// How results are to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table, as on a terminal.
    Table,
    /// JSON, as in a pipe: one object, or one per line for lists.
    Json,
    /// Bare values, a tab between those of a line.
    Raw,
    /// A configuration file; of settings only.
    #[value(hide = true)]
    Toml,
}

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table; the default on a terminal.
    Table,
    /// JSON, the default in a pipe: one object, or one per line for lists.
    Json,
    /// Bare values, separated by tabs within a line.
    Raw,
}

/// The part of a result that `raw` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawFields {
    /// The exact bytes of the value, so that the output can be stored in a file. A line break is added only
    /// on a terminal, or after `end_lines`.
    Value,
    /// This field, as a line.
    Field(&'static str),
    /// These fields, as a line.
    Fields(&'static [&'static str]),
    /// All fields, as a line.
    All,
}

impl RawFields {
    fn has(self, name: &str) -> bool {
        match self {
            RawFields::Value => name == "value",
            RawFields::Field(field) => name == field,
            RawFields::Fields(fields) => fields.contains(&name),
            RawFields::All => true,
        }
    }
}

impl TryFrom<Output> for Format {
    type Error = Failure;

    fn try_from(output: Output) -> Result<Format> {
        match output {
            Output::Table => Ok(Format::Table),
            Output::Json => Ok(Format::Json),
            Output::Raw => Ok(Format::Raw),
            Output::Toml => {
                Err(Failure::error("only `config print` writes TOML: choose another -o"))
            }
        }
    }
}

/// Prints results to the standard output.
pub struct Printer {
    out: io::Stdout,
    format: Format,
    colours: bool,
    /// If set, a line break also follows a single value.
    lines: bool,
    rows: Vec<Row>,
    closed: bool,
}

impl Printer {
    /// Prints to the standard output. The default format is a table on a terminal, else JSON.
    pub fn stdout(format: Option<Format>) -> Printer {
        let out = io::stdout();
        let terminal = out.is_terminal();
        let fitting = if terminal { Format::Table } else { Format::Json };
        let format = format.unwrap_or(fitting);
        let colours = terminal && super::console::colours_enabled();
        Printer { out, format, colours, lines: terminal, rows: Vec::new(), closed: false }
    }

    /// Adds a line break after single values too, because several results follow each other.
    pub fn end_lines(&mut self) {
        self.lines = true;
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// True if the format is JSON.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// True if the reader has closed the pipe, as in `mainstay cell list | head -1`.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Prints a reply. Returns false if the reply means "nothing".
    pub fn reply(&mut self, format: ReplyFormat, reply: Reply, json: bool) -> bool {
        self.result(format.apply(reply, json), Row::new(), format.raw_fields())
    }

    /// Prints rows, each after the common fields `known`. Returns false if the result is empty.
    pub fn result(&mut self, reply: FormattedReply, known: Row, raw: RawFields) -> bool {
        match reply {
            FormattedReply::Nothing => return false,
            FormattedReply::One(row) => self.one(join(&known, row), raw),
            FormattedReply::Many(rows) => {
                rows.into_iter().for_each(|row| self.row(join(&known, row)));
                self.finish();
            }
            FormattedReply::Odd(reply) => self.unformatted(reply),
        }
        true
    }

    /// Prints a single result.
    pub fn one(&mut self, row: Row, raw: RawFields) {
        match self.format {
            Format::Table => {
                let table = self.table(std::slice::from_ref(&row));
                self.line(&table);
            }
            Format::Json => self.row(row),
            Format::Raw => {
                let row: Row = row.into_iter().filter(|(name, _)| raw.has(name)).collect();
                self.bytes(&join_tabs(&row), self.lines || raw != RawFields::Value);
            }
        }
    }

    /// Prints one row of a list; `finish` must follow the last.
    pub fn row(&mut self, row: Row) {
        match self.format {
            Format::Table => self.rows.push(row),
            Format::Json => self.line(&json(&row)),
            Format::Raw => self.bytes(&join_tabs(&row), true),
        }
    }

    /// Ends a list: prints the collected rows, or that the list is empty.
    pub fn finish(&mut self) {
        if self.format == Format::Table && self.rows.is_empty() {
            self.line("(none)")
        } else {
            self.flush()
        }
    }

    /// Prints the rows collected so far.
    pub fn flush(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            let table = self.table(&rows);
            self.line(&table);
        }
    }

    /// Prints a line for people; formats for programs omit it.
    pub fn note(&mut self, text: &str) {
        if self.format == Format::Table {
            self.line(text);
        }
    }

    /// Prints text in any format.
    pub fn text(&mut self, text: &str) {
        self.line(text.trim_end());
    }

    /// Prints a reply without a known format: like `redis-cli`, or as one JSON value.
    pub fn unformatted(&mut self, reply: Reply) {
        match self.format {
            Format::Table => self.line(&redis_text(&reply, "")),
            Format::Json => self.line(&reply_format::to_value(reply).to_json()),
            Format::Raw => raw_texts(&reply).into_iter().for_each(|text| self.bytes(&text, true)),
        }
    }

    fn line(&mut self, text: &str) {
        self.bytes(text.as_bytes(), true);
    }

    fn bytes(&mut self, bytes: &[u8], line: bool) {
        let mut out = self.out.lock();
        let written =
            out.write_all(bytes).and_then(|()| if line { out.write_all(b"\n") } else { Ok(()) });
        // Flush each line, because a feed may run for hours and its reader needs the lines at once.
        self.closed |= written.and_then(|()| out.flush()).is_err();
    }

    fn table(&self, rows: &[Row]) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        if table.width().is_some_and(|width| width < MIN_WIDTH) {
            // A terminal that does not know its width reports zero.
            table.set_width(DEFAULT_WIDTH);
        }
        let head = rows.first().map(Vec::as_slice).unwrap_or_default();
        table.set_header(head.iter().map(|(name, _)| self.heading(name)));
        for row in rows {
            table.add_row(row.iter().map(|(_, field)| Cell::new(field.display())));
        }
        table.to_string()
    }

    fn heading(&self, name: &str) -> Cell {
        let cell = Cell::new(heading(name).replace('_', " "));
        if self.colours { cell.add_attribute(Attribute::Bold) } else { cell }
    }
}

/// Removes the unit from a heading, because timestamps are shown as formatted times.
fn heading(name: &str) -> &str {
    let unit = if name.ends_with("_at_ms") { "_at_ms" } else { "_us" };
    name.strip_suffix(unit).unwrap_or(name)
}

fn join(known: &Row, row: Row) -> Row {
    known.iter().cloned().chain(row).collect()
}

fn join_tabs(row: &Row) -> Vec<u8> {
    row.iter().map(|(_, field)| field.raw()).collect::<Vec<_>>().join(&b'\t')
}

fn json(row: &Row) -> String {
    let name = |name: &str| Field::text(name).json();
    let fields = row.iter().map(|(n, field)| format!("{}:{}", name(n), field.json()));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// A reply as `redis-cli` shows it; nested lists are indented.
fn redis_text(reply: &Reply, indent: &str) -> String {
    match reply {
        Reply::Nil => "(nil)".to_owned(),
        Reply::Int(n) => format!("(integer) {n}"),
        Reply::Float(n) => format!("(double) {n}"),
        Reply::Bool(yes) => format!("({yes})"),
        Reply::Error(line) => format!("(error) {}", escape_control(line)),
        Reply::Text(text) if text == b"OK" || text == b"PONG" => {
            String::from_utf8_lossy(text).into_owned()
        }
        Reply::Text(text) => match inline_command::quote(text) {
            quoted if quoted.starts_with('"') => quoted,
            bare => format!("\"{bare}\""),
        },
        Reply::Array(items) if items.is_empty() => "(empty)".to_owned(),
        Reply::Array(items) => numbered_list(items, indent),
        Reply::Map(pairs) => {
            let flat: Vec<_> = pairs.iter().flat_map(|(k, v)| [k.clone(), v.clone()]).collect();
            numbered_list(&flat, indent)
        }
    }
}

fn numbered_list(items: &[Reply], indent: &str) -> String {
    let inner = format!("{indent}   ");
    let lines: Vec<String> = items
        .iter()
        .enumerate()
        .map(|(n, item)| format!("{}) {}", n + 1, redis_text(item, &inner)))
        .collect();
    lines.join(&format!("\n{indent}"))
}

/// The texts of a reply as `raw` prints them, in order.
fn raw_texts(reply: &Reply) -> Vec<Vec<u8>> {
    match reply {
        Reply::Array(items) => items.iter().flat_map(raw_texts).collect(),
        Reply::Map(pairs) => {
            pairs.iter().flat_map(|(k, v)| [raw_texts(k), raw_texts(v)].concat()).collect()
        }
        Reply::Error(line) => vec![line.clone().into_bytes()],
        other => vec![Field::Plain(reply_format::to_value(other.clone())).raw().into_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_object_in_its_own_order() {
        let row = vec![("b".into(), Field::number(1)), ("a".into(), Field::text("x\"y"))];
        assert_eq!(json(&row), r#"{"b":1,"a":"x\"y"}"#);
    }

    #[test]
    fn replies_without_rows_look_as_in_redis_cli() {
        let inner = Reply::Array(vec![Reply::text("x y"), Reply::Nil]);
        let reply = Reply::Array(vec![Reply::Int(1), inner, Reply::text("OK")]);
        assert_eq!(redis_text(&reply, ""), "1) (integer) 1\n2) 1) \"x y\"\n   2) (nil)\n3) OK");
        assert_eq!(redis_text(&Reply::text("a"), ""), "\"a\"");
        assert_eq!(raw_texts(&reply), [&b"1"[..], b"x y", b"", b"OK"]);
    }
}
