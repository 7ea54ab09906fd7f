//! `mainstay record`: records with fields, conditions and times to live.

use super::args::{AsOf, OnBranch};
use super::cell::{read, value_or_stdin, write};
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::index::IndexVerb;
use super::output::RawFields;
use super::pages::Pages;
use super::reply::Reply;
use super::reply_format::{FormattedReply, ReplyFormat};
use super::store::{OpenTransaction, Store};
use super::{reply_formats, time};
use clap::{Args, Subcommand};
use mainstay::Value;

/// The most attempts of a deletion that conflicts with other writers.
const ATTEMPTS: usize = 100;

/// What can be done with records.
#[derive(Debug, Subcommand)]
pub enum RecordVerb {
    /// Show a record, or one field of it
    Get(Get),
    /// Put fields in and leave the others; shows the new counter
    Put(Put),
    /// Put fields in and drop all others; shows the new counter
    Replace(Put),
    /// Put one field in; shows the new counter
    Set(Set),
    /// Take fields out; exit code 1 if there was none of them
    Unset(Unset),
    /// Write a field only if it is as expected; exit code 1 if not
    Cas(Cas),
    /// Delete; exit code 1 if there was nothing to delete
    Delete(Delete),
    /// List records with their fields, in byte order of their keys
    List(List),
    /// Count records
    Count(Count),
    /// Show the versions of a record, newest first
    History(History),
    /// Show how long a record lives, in milliseconds, or change it
    Ttl(Ttl),
    /// Declare, drop and list indexes, which `list` and `count` use by themselves
    #[command(subcommand)]
    Index(IndexVerb),
    /// Say how `list` and `count` would go about it: by which index, or why by none
    Explain(Explain),
}

/// Reading one record.
#[derive(Debug, Args)]
pub struct Get {
    /// The record
    #[arg(value_name = "KEY")]
    record: String,
    /// Show only what this field holds
    field: Option<FieldName>,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    as_of: AsOf,
}

/// Writing several fields.
#[derive(Debug, Args)]
pub struct Put {
    /// The record
    #[arg(value_name = "KEY")]
    record: String,
    /// The fields and their values
    #[arg(required = true, value_name = "FIELD=VALUE")]
    fields: Vec<FieldValue>,
    /// Only if it has this counter
    #[arg(long = "if", value_name = "COUNTER")]
    condition: Option<u64>,
    /// How long it lives from now on: milliseconds, or a span such as 30s [default: as before]
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms)]
    ttl: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
}

/// Writing one field.
#[derive(Debug, Args)]
pub struct Set {
    /// The record
    #[arg(value_name = "KEY")]
    record: String,
    /// The field
    field: FieldName,
    /// Its value; - takes the standard input
    #[arg(allow_negative_numbers = true)]
    value: String,
    /// How long the record lives from now on: milliseconds, or a span such as 30s [default: as before]
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms)]
    ttl: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
}

/// Taking fields out.
#[derive(Debug, Args)]
pub struct Unset {
    /// The record
    #[arg(value_name = "KEY")]
    record: String,
    /// The fields
    #[arg(required = true)]
    fields: Vec<FieldName>,
    #[command(flatten)]
    on: OnBranch,
}

/// Writing under conditions.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("expected").required(true))]
pub struct Cas {
    /// The record
    #[arg(value_name = "KEY")]
    record: String,
    /// The field
    field: FieldName,
    /// Its new value; - takes the standard input; without it the options say what is written
    #[arg(allow_negative_numbers = true)]
    value: Option<String>,
    /// What the field must hold
    #[arg(long, group = "expected", value_name = "VALUE", allow_hyphen_values = true)]
    is: Option<String>,
    /// The field must not be there
    #[arg(long, group = "expected")]
    absent: bool,
    /// Another field must hold this
    #[arg(long, value_name = "FIELD=VALUE")]
    and: Vec<FieldValue>,
    /// Another field must not be there
    #[arg(long, value_name = "FIELD")]
    and_absent: Vec<FieldName>,
    /// Put another field in as well
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<FieldValue>,
    /// Take another field out as well; without a new value also this one
    #[arg(long, value_name = "FIELD")]
    unset: Vec<FieldName>,
    /// How long the record lives from now on: milliseconds, or a span such as 30s [default: as before]
    #[arg(long, value_name = "SPAN", value_parser = time::span_ms)]
    ttl: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
}

/// Deleting one record.
#[derive(Debug, Args)]
pub struct Delete {
    /// The record
    #[arg(value_name = "KEY")]
    record: String,
    /// Only if it has this counter
    #[arg(long = "if", value_name = "COUNTER")]
    condition: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
}

/// Listing records.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    filter: FilterArgs,
    /// Only keys behind this one
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
    /// At most this many records
    #[arg(long)]
    limit: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    as_of: AsOf,
}

/// Counting records.
#[derive(Debug, Args)]
pub struct Count {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    as_of: AsOf,
}

/// Explaining a scan.
#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    on: OnBranch,
}

/// Which records are wanted.
#[derive(Debug, Args)]
struct FilterArgs {
    /// Only keys that begin with this
    #[arg(default_value = "")]
    prefix: String,
    /// Only records whose field passes: state=pending, tries>=3, 'state in ["done", "failed"]'
    #[arg(long = "where", value_name = "TEST")]
    tests: Vec<FieldFilter>,
}

/// Looking back at one record.
#[derive(Debug, Args)]
pub struct History {
    /// The record
    #[arg(value_name = "KEY")]
    record: String,
    /// At most this many versions
    #[arg(long, default_value_t = 1000)]
    limit: u64,
    /// Only versions with a smaller counter
    #[arg(long, value_name = "COUNTER")]
    before: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
}

/// The time to live of one record.
#[derive(Debug, Args)]
pub struct Ttl {
    /// The record
    #[arg(value_name = "KEY")]
    record: String,
    /// How long it lives from now on: milliseconds, or a span such as 30s
    #[arg(value_name = "SPAN", value_parser = time::span_ms)]
    span: Option<u64>,
    /// It lives until it is deleted
    #[arg(long, conflicts_with = "span")]
    clear: bool,
    #[command(flatten)]
    on: OnBranch,
}

/// The name of a field: text, or `$bytes:` and base64.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldName(mainstay::Field);

impl std::str::FromStr for FieldName {
    type Err = mainstay::Error;

    fn from_str(text: &str) -> mainstay::Result<FieldName> {
        mainstay::Field::from_text(text).map(FieldName)
    }
}

impl AsRef<[u8]> for FieldName {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A field and its value.
#[derive(Clone, Debug, PartialEq)]
struct FieldValue {
    field: FieldName,
    value: String,
}

impl std::str::FromStr for FieldValue {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<FieldValue, String> {
        let Some((field, value)) = text.split_once('=') else {
            return Err("write FIELD=VALUE; `record set` takes a field with = in its name".into());
        };
        let field = field.parse().map_err(|error: mainstay::Error| error.to_string())?;
        Ok(FieldValue { field, value: value.to_owned() })
    }
}

/// A test on a field.
#[derive(Clone, Debug, PartialEq)]
struct FieldFilter {
    field: FieldName,
    operator: &'static str,
    bound: String,
}

/// `<` is also a prefix of `<=`, so at equal positions the longest match is taken.
const OPERATORS: [&str; 8] = ["!=", "<=", ">=", "=", "<", ">", " in ", " IN "];

impl std::str::FromStr for FieldFilter {
    type Err = String;

    /// Splits at the first operator; spaces around it are ignored.
    fn from_str(text: &str) -> std::result::Result<FieldFilter, String> {
        let places = OPERATORS.iter().filter_map(|found| Some((text.find(found)?, *found)));
        let first = places.min_by_key(|(place, found)| (*place, usize::MAX - found.len()));
        let Some((place, found)) = first else {
            return Err("write FIELD=VALUE, or one of != < <= > >= in between".into());
        };
        let field = text[..place].trim_end();
        let field = field.parse().map_err(|error: mainstay::Error| error.to_string())?;
        let bound = text[place + found.len()..].trim_start().to_owned();
        let operator = if found.starts_with(' ') { "IN" } else { found };
        Ok(FieldFilter { field, operator, bound })
    }
}

impl RecordVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            RecordVerb::Get(get) => get.run(context),
            RecordVerb::Put(put) => put.run(context, "REC.SET"),
            RecordVerb::Replace(put) => put.run(context, "REC.REPLACE"),
            RecordVerb::Set(set) => set.run(context),
            RecordVerb::Unset(unset) => unset.run(context),
            RecordVerb::Cas(cas) => cas.run(context),
            RecordVerb::Delete(delete) => delete.run(context),
            RecordVerb::List(list) => list.run(context),
            RecordVerb::Count(count) => count.run(context),
            RecordVerb::History(history) => history.run(context),
            RecordVerb::Ttl(ttl) => ttl.run(context),
            RecordVerb::Index(verb) => verb.run(context),
            RecordVerb::Explain(explain) => explain.run(context),
        }
    }
}

/// Starts a row about a record.
fn key_row(key: &str) -> Row {
    vec![("key".into(), Field::text(key))]
}

fn no_record(key: &str) -> String {
    format!("there is no record {key}: `mainstay record list` lists them")
}

impl Get {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.as_of.add_to(CommandBuilder::new("REC.GET").word(&self.record));
        let reply = read(context, &self.on, call)?;
        match &self.field {
            Some(field) => self.one(context, field, reply),
            None => self.all(context, reply),
        }
    }

    /// Prints one object as JSON; in the other formats one line per field.
    fn all(&self, context: &mut Context, reply: Reply) -> Result<()> {
        let format = reply_formats::of_command("REC.GET");
        let missing = || no_record(&self.record);
        if context.printer.is_json() {
            return context.show(format, key_row(&self.record), reply, missing);
        }
        let FormattedReply::One(mut row) = format.apply(reply, false) else {
            return Err(Failure::negative(missing()));
        };
        let row_of = |(name, value): (String, Value)| {
            vec![("field".into(), Field::text(name)), ("value".into(), Field::Plain(value))]
        };
        if let Some((_, Field::Plain(Value::Object(fields)))) = row.first_mut() {
            let fields = std::mem::take(fields);
            fields.into_iter().map(row_of).for_each(|row| context.printer.row(row));
        }
        context.printer.finish();
        let rest: Vec<_> =
            row.iter().skip(1).map(|(n, f)| format!("{n} {}", f.display())).collect();
        context.printer.note(&rest.join(", "));
        Ok(())
    }

    fn one(&self, context: &mut Context, field: &FieldName, reply: Reply) -> Result<()> {
        let name = field.0.to_text();
        let found = match reply_formats::of_command("REC.GET").apply(reply, false) {
            FormattedReply::One(row) => field_of(row, &name),
            _ => return Err(Failure::negative(no_record(&self.record))),
        };
        let Some(value) = found else {
            let message = format!("the record {} has no field {name}", self.record);
            return Err(Failure::negative(message));
        };
        let mut row = key_row(&self.record);
        row.push(("field".into(), Field::text(name)));
        row.push(("value".into(), Field::Plain(value)));
        context.printer.one(row, RawFields::Value);
        Ok(())
    }
}

/// The value of a field in the row of a record.
fn field_of(row: Row, name: &str) -> Option<Value> {
    match row.into_iter().next() {
        Some((_, Field::Plain(Value::Object(mut fields)))) => fields.remove(name),
        _ => None,
    }
}

impl Put {
    fn call(&self, command: &str) -> CommandBuilder {
        let call = CommandBuilder::new(command).word(&self.record).option("IF", self.condition);
        let call = call.option("TTL", self.ttl).word("FIELDS");
        self.fields.iter().fold(call, |call, pair| call.word(&pair.field).word(&pair.value))
    }

    fn run(self, context: &mut Context, command: &str) -> Result<()> {
        let reply = write(context, &self.on, self.call(command))?;
        let key = &self.record;
        let missing = || match self.condition {
            Some(n) => format!("the counter of {key} is not {n}: `mainstay record get {key}`"),
            None => no_record(key),
        };
        context.show(ReplyFormat::One("counter"), key_row(key), reply, missing)
    }
}

impl Set {
    fn run(self, context: &mut Context) -> Result<()> {
        let value = value_or_stdin(self.value, context)?;
        let call = CommandBuilder::new("REC.SET").word(&self.record).option("TTL", self.ttl);
        let reply = write(context, &self.on, call.word("FIELDS").word(&self.field).word(value))?;
        context.show(ReplyFormat::One("counter"), key_row(&self.record), reply, || {
            no_record(&self.record)
        })
    }
}

impl Unset {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = CommandBuilder::new("HDEL").word(&self.record);
        let call = self.fields.iter().fold(call, CommandBuilder::word);
        let reply = read(context, &self.on, call)?;
        if reply == Reply::Int(0) {
            let message = format!("the record {} has none of these fields", self.record);
            return Err(Failure::negative(message));
        }
        context.show(ReplyFormat::One("removed"), key_row(&self.record), reply, String::new)
    }
}

impl Cas {
    fn call(&self, value: Option<&[u8]>) -> CommandBuilder {
        let call = CommandBuilder::new("REC.CAS").word(&self.record).word(&self.field);
        let call = match &self.is {
            Some(expected) => call.word("IS").word(expected),
            None => call.word("ABSENT"),
        };
        let call = value.into_iter().fold(call, |call, value| call.word(value));
        let call = self.and.iter().fold(call, |call, pair| {
            call.word("AND").word(&pair.field).word("IS").word(&pair.value)
        });
        let call = self
            .and_absent
            .iter()
            .fold(call, |call, field| call.word("AND").word(field).word("ABSENT"));
        let call = self
            .set
            .iter()
            .fold(call, |call, pair| call.word("SET").word(&pair.field).word(&pair.value));
        let call = self.unset.iter().fold(call, |call, field| call.word("UNSET").word(field));
        call.option("TTL", self.ttl)
    }

    fn run(self, context: &mut Context) -> Result<()> {
        let value = self.value.clone().map(|value| value_or_stdin(value, context)).transpose()?;
        let reply = write(context, &self.on, self.call(value.as_deref()))?;
        let key = &self.record;
        context.show(ReplyFormat::One("counter"), key_row(key), reply, || {
            format!("{key} is not as expected: `mainstay record get {key}`")
        })
    }
}

impl Delete {
    /// Deletes a record by removing all its fields in a transaction, so a cell with the same name stays.
    fn run(self, context: &mut Context) -> Result<()> {
        let deleted = context.store()?.on(self.on.branch.as_deref(), |store| self.delete(store))?;
        let reply = Reply::Int(i64::from(deleted));
        let missing = || match self.condition {
            Some(n) => format!("there is no record {} with counter {n}", self.record),
            None => format!("there is no record {}", self.record),
        };
        context.show(ReplyFormat::Flag("deleted"), key_row(&self.record), reply, missing)
    }

    fn delete(&self, store: &mut Store) -> Result<bool> {
        match store.open_transaction() {
            Some(OpenTransaction::Interactive) => return self.remove_fields(store),
            Some(OpenTransaction::Multi) => {
                let message =
                    "a record is read before it is deleted, and MULTI reads nothing: use DEL";
                return Err(Failure::error(message));
            }
            None => {}
        }
        for _ in 1..ATTEMPTS {
            match self.in_transaction(store) {
                Err(failure) if failure.is_of_kind("CONFLICT") => {}
                done => return done,
            }
        }
        self.in_transaction(store)
    }

    fn in_transaction(&self, store: &mut Store) -> Result<bool> {
        store.call(CommandBuilder::new("TXN.BEGIN").words())?;
        let taken = self.remove_fields(store);
        if let Ok(true) = taken {
            return store.call(CommandBuilder::new("TXN.COMMIT").words()).map(|_| true);
        }
        // The first failure may have broken the connection, so it is reported rather than that of the
        // rollback.
        let back = store.call(CommandBuilder::new("TXN.ROLLBACK").words());
        taken.and_then(|taken| back.map(|_| taken))
    }

    fn remove_fields(&self, store: &mut Store) -> Result<bool> {
        let reply = store.call(CommandBuilder::new("REC.GET").word(&self.record).words())?;
        let FormattedReply::One(row) = reply_formats::of_command("REC.GET").apply(reply, false)
        else {
            return Ok(false);
        };
        let counter = row.iter().find(|(name, _)| name == "counter").map(|(_, field)| field);
        if self.condition.is_some_and(|n| counter != Some(&Field::number(n))) {
            return Ok(false);
        }
        let Some((_, Field::Plain(Value::Object(fields)))) = row.first() else { return Ok(false) };
        let names = fields.keys().map(|name| name.parse::<FieldName>());
        let names = names.collect::<mainstay::Result<Vec<_>>>()?;
        let call =
            names.iter().fold(CommandBuilder::new("HDEL").word(&self.record), CommandBuilder::word);
        store.call(call.words()).map(|reply| reply != Reply::Int(0))
    }
}

impl FilterArgs {
    fn add_to(&self, call: CommandBuilder) -> CommandBuilder {
        self.tests.iter().fold(call.word(&self.prefix), |call, test| {
            call.word("WHERE").word(&test.field).word(test.operator).word(&test.bound)
        })
    }
}

impl List {
    fn run(self, context: &mut Context) -> Result<()> {
        let filter = self.filter;
        let on = self.on;
        Pages::new(self.as_of, self.after, self.limit).show(context, |context, pages, size| {
            let call = filter
                .add_to(CommandBuilder::new("REC.SCAN"))
                .option("AFTER", pages.after.as_ref());
            let call = pages.as_of.add_to(call.option("LIMIT", Some(size)));
            match reply_formats::of_command("REC.SCAN").apply(read(context, &on, call)?, false) {
                FormattedReply::Many(rows) => Ok(rows),
                odd => Err(Failure::error(format!("REC.SCAN answered {odd:?}"))),
            }
        })
    }
}

impl Count {
    fn run(self, context: &mut Context) -> Result<()> {
        let call = self.as_of.add_to(self.filter.add_to(CommandBuilder::new("REC.COUNT")));
        let reply = read(context, &self.on, call)?;
        context.show(reply_formats::of_command("REC.COUNT"), Row::new(), reply, String::new)
    }
}

impl Explain {
    fn run(self, context: &mut Context) -> Result<()> {
        let reply =
            read(context, &self.on, self.filter.add_to(CommandBuilder::new("REC.EXPLAIN")))?;
        context.show(reply_formats::of_command("REC.EXPLAIN"), Row::new(), reply, String::new)
    }
}

impl History {
    fn run(self, context: &mut Context) -> Result<()> {
        let call =
            CommandBuilder::new("REC.HISTORY").word(&self.record).option("LIMIT", Some(self.limit));
        let reply = read(context, &self.on, call.option("BEFORE", self.before))?;
        let missing = || format!("{} has no versions that are kept", self.record);
        if reply == Reply::Array(Vec::new()) {
            return Err(Failure::negative(missing()));
        }
        context.show(reply_formats::of_command("REC.HISTORY"), Row::new(), reply, missing)
    }
}

impl Ttl {
    fn run(self, context: &mut Context) -> Result<()> {
        match self.span {
            None if !self.clear => self.show(context),
            span => self.change(context, span),
        }
    }

    fn show(&self, context: &mut Context) -> Result<()> {
        let reply = read(context, &self.on, CommandBuilder::new("REC.GET").word(&self.record))?;
        let FormattedReply::One(row) = reply_formats::of_command("REC.GET").apply(reply, false)
        else {
            return Err(Failure::negative(no_record(&self.record)));
        };
        let lives = row.into_iter().filter(|(name, _)| name == "ttl_ms");
        let row = key_row(&self.record).into_iter().chain(lives).collect();
        context.printer.one(row, RawFields::Field("ttl_ms"));
        Ok(())
    }

    fn change(&self, context: &mut Context, span: Option<u64>) -> Result<()> {
        let call = match span {
            Some(ms) => CommandBuilder::new("PEXPIRE").word(&self.record).word(ms.to_string()),
            None => CommandBuilder::new("PERSIST").word(&self.record),
        };
        let reply = read(context, &self.on, call)?;
        let missing = || match span {
            Some(_) => no_record(&self.record),
            None => {
                format!("the record {} is not there, or lives until it is deleted", self.record)
            }
        };
        context.show(ReplyFormat::Flag("changed"), key_row(&self.record), reply, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, DataNoun, Noun};
    use crate::command_builder::text_of;
    use clap::Parser;

    fn parsed(words: &[&str]) -> std::result::Result<RecordVerb, clap::Error> {
        let all = ["mainstay", "record"].iter().chain(words);
        match Arguments::try_parse_from(all)?.noun {
            Some(Noun::Data(DataNoun::Record(verb))) => Ok(verb),
            other => panic!("{other:?}"),
        }
    }

    proptest::proptest! {
        /// Any input is parsed or refused without a panic.
        #[test]
        fn any_text_is_a_field_a_pair_a_test_or_none(text in "[a-z$:=<>! inIN+/\\PC]{0,24}") {
            let _ = (text.parse::<FieldName>(), text.parse::<FieldValue>());
            if let Ok(test) = text.parse::<FieldFilter>() {
                let again = format!("{}{}{}", test.field.0.to_text(), test.operator, test.bound);
                let _ = again.parse::<FieldFilter>();
            }
        }
    }

    #[test]
    fn verbs_become_the_words_of_commands() {
        let words = ["put", "k", "a=1", "b=x=y", "c=", "--if", "3", "--ttl", "30s"];
        let Ok(RecordVerb::Put(put)) = parsed(&words) else { panic!("no put") };
        assert_eq!(text_of(put.call("REC.SET")), "REC.SET k IF 3 TTL 30000 FIELDS a 1 b x=y c ");
        let words = ["cas", "k", "state", "claimed", "--is", "-1", "--and", "w=", "--and-absent"];
        let more = ["e", "--set", "w=w1", "--unset", "e", "--ttl", "5"];
        let Ok(RecordVerb::Cas(cas)) = parsed(&[&words[..], &more].concat()) else {
            panic!("no cas")
        };
        assert_eq!(
            text_of(cas.call(Some(b"claimed"))),
            "REC.CAS k state IS -1 claimed AND w IS  AND e ABSENT SET w w1 UNSET e TTL 5"
        );
        let Ok(RecordVerb::Cas(cas)) = parsed(&["cas", "k", "f", "v", "--absent"]) else {
            panic!("no cas")
        };
        assert_eq!(text_of(cas.call(Some(b"v"))), "REC.CAS k f ABSENT v");
        let Ok(RecordVerb::Cas(cas)) = parsed(&["cas", "k", "f", "--is", "1", "--unset", "f"])
        else {
            panic!("no cas")
        };
        assert_eq!(text_of(cas.call(None)), "REC.CAS k f IS 1 UNSET f");
        let words =
            ["count", "p", "--where", "n >= 3", "--where", "s!=a=b", "--where", "x in [\"<\"]"];
        let Ok(RecordVerb::Count(count)) = parsed(&words) else { panic!("no count") };
        assert_eq!(
            text_of(count.filter.add_to(CommandBuilder::new("REC.COUNT"))),
            "REC.COUNT p WHERE n >= 3 WHERE s != a=b WHERE x IN [\"<\"]"
        );
        for wrong in [
            &["put", "k"][..],
            &["put", "k", "no pair"],
            &["cas", "k", "f", "v"],
            &["cas", "k", "f", "v", "--is", "x", "--absent"],
            &["count", "--where", "state"],
            &["get", "k", "$bytes:?"],
            &["ttl", "k", "5", "--clear"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
