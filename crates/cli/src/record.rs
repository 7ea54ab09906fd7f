//! `mainstay record`: records with fields, conditions and times to live.

use super::args::{Moment, OnBranch};
use super::call::Call;
use super::cell::{given, read, write};
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::index::IndexVerb;
use super::output::Bare;
use super::pages::Pages;
use super::reply::Reply;
use super::session::Session;
use super::shape::{Shape, Shown};
use super::store::{Begun, Store};
use super::{shapes, time};
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
    moment: Moment,
}

/// Writing several fields.
#[derive(Debug, Args)]
pub struct Put {
    /// The record
    #[arg(value_name = "KEY")]
    record: String,
    /// The fields and their values
    #[arg(required = true, value_name = "FIELD=VALUE")]
    fields: Vec<Pair>,
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
    and: Vec<Pair>,
    /// Another field must not be there
    #[arg(long, value_name = "FIELD")]
    and_absent: Vec<FieldName>,
    /// Put another field in as well
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<Pair>,
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
    wanted: Wanted,
    /// Only keys behind this one
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
    /// At most this many records
    #[arg(long)]
    limit: Option<u64>,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    moment: Moment,
}

/// Counting records.
#[derive(Debug, Args)]
pub struct Count {
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    moment: Moment,
}

/// Explaining a scan.
#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    on: OnBranch,
}

/// Which records are wanted.
#[derive(Debug, Args)]
struct Wanted {
    /// Only keys that begin with this
    #[arg(default_value = "")]
    prefix: String,
    /// Only records whose field passes: state=pending, tries>=3, 'state in ["done", "failed"]'
    #[arg(long = "where", value_name = "TEST")]
    tests: Vec<Test>,
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
struct Pair {
    field: FieldName,
    value: String,
}

impl std::str::FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Pair, String> {
        let Some((field, value)) = text.split_once('=') else {
            return Err("write FIELD=VALUE; `record set` takes a field with = in its name".into());
        };
        let field = field.parse().map_err(|error: mainstay::Error| error.to_string())?;
        Ok(Pair { field, value: value.to_owned() })
    }
}

/// A test on a field.
#[derive(Clone, Debug, PartialEq)]
struct Test {
    field: FieldName,
    operator: &'static str,
    bound: String,
}

/// `<` is also a prefix of `<=`, so at equal positions the longest match is taken.
const OPERATORS: [&str; 8] = ["!=", "<=", ">=", "=", "<", ">", " in ", " IN "];

impl std::str::FromStr for Test {
    type Err = String;

    /// Splits at the first operator; spaces around it are ignored.
    fn from_str(text: &str) -> std::result::Result<Test, String> {
        let places = OPERATORS.iter().filter_map(|found| Some((text.find(found)?, *found)));
        let first = places.min_by_key(|(place, found)| (*place, usize::MAX - found.len()));
        let Some((place, found)) = first else {
            return Err("write FIELD=VALUE, or one of != < <= > >= in between".into());
        };
        let field = text[..place].trim_end();
        let field = field.parse().map_err(|error: mainstay::Error| error.to_string())?;
        let bound = text[place + found.len()..].trim_start().to_owned();
        let operator = if found.starts_with(' ') { "IN" } else { found };
        Ok(Test { field, operator, bound })
    }
}

impl RecordVerb {
    pub fn run(self, session: &mut Session) -> Result<()> {
        match self {
            RecordVerb::Get(get) => get.run(session),
            RecordVerb::Put(put) => put.run(session, "REC.SET"),
            RecordVerb::Replace(put) => put.run(session, "REC.REPLACE"),
            RecordVerb::Set(set) => set.run(session),
            RecordVerb::Unset(unset) => unset.run(session),
            RecordVerb::Cas(cas) => cas.run(session),
            RecordVerb::Delete(delete) => delete.run(session),
            RecordVerb::List(list) => list.run(session),
            RecordVerb::Count(count) => count.run(session),
            RecordVerb::History(history) => history.run(session),
            RecordVerb::Ttl(ttl) => ttl.run(session),
            RecordVerb::Index(verb) => verb.run(session),
            RecordVerb::Explain(explain) => explain.run(session),
        }
    }
}

/// Starts a row about a record.
fn keyed(key: &str) -> Row {
    vec![("key".into(), Field::text(key))]
}

fn no_record(key: &str) -> String {
    format!("there is no record {key}: `mainstay record list` lists them")
}

impl Get {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = self.moment.on(Call::new("REC.GET").word(&self.record));
        let reply = read(session, &self.on, call)?;
        match &self.field {
            Some(field) => self.one(session, field, reply),
            None => self.all(session, reply),
        }
    }

    /// Prints one object as JSON; in the other formats one line per field.
    fn all(&self, session: &mut Session, reply: Reply) -> Result<()> {
        let shape = shapes::shape("REC.GET");
        let missing = || no_record(&self.record);
        if session.printer.is_json() {
            return session.show(shape, keyed(&self.record), reply, missing);
        }
        let Shown::One(mut row) = shape.show(reply, false) else {
            return Err(Failure::not_held(missing()));
        };
        let row_of = |(name, value): (String, Value)| {
            vec![("field".into(), Field::text(name)), ("value".into(), Field::Plain(value))]
        };
        if let Some((_, Field::Plain(Value::Object(fields)))) = row.first_mut() {
            let fields = std::mem::take(fields);
            fields.into_iter().map(row_of).for_each(|row| session.printer.row(row));
        }
        session.printer.finish();
        let rest: Vec<_> = row.iter().skip(1).map(|(n, f)| format!("{n} {}", f.seen())).collect();
        session.printer.note(&rest.join(", "));
        Ok(())
    }

    fn one(&self, session: &mut Session, field: &FieldName, reply: Reply) -> Result<()> {
        let name = field.0.to_text();
        let found = match shapes::shape("REC.GET").show(reply, false) {
            Shown::One(row) => field_of(row, &name),
            _ => return Err(Failure::not_held(no_record(&self.record))),
        };
        let Some(value) = found else {
            let message = format!("the record {} has no field {name}", self.record);
            return Err(Failure::not_held(message));
        };
        let mut row = keyed(&self.record);
        row.push(("field".into(), Field::text(name)));
        row.push(("value".into(), Field::Plain(value)));
        session.printer.one(row, Bare::Value);
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
    fn call(&self, command: &str) -> Call {
        let call = Call::new(command).word(&self.record).option("IF", self.condition);
        let call = call.option("TTL", self.ttl).word("FIELDS");
        self.fields.iter().fold(call, |call, pair| call.word(&pair.field).word(&pair.value))
    }

    fn run(self, session: &mut Session, command: &str) -> Result<()> {
        let reply = write(session, &self.on, self.call(command))?;
        let key = &self.record;
        let missing = || match self.condition {
            Some(n) => format!("the counter of {key} is not {n}: `mainstay record get {key}`"),
            None => no_record(key),
        };
        session.show(Shape::One("counter"), keyed(key), reply, missing)
    }
}

impl Set {
    fn run(self, session: &mut Session) -> Result<()> {
        let value = given(self.value, session)?;
        let call = Call::new("REC.SET").word(&self.record).option("TTL", self.ttl);
        let reply = write(session, &self.on, call.word("FIELDS").word(&self.field).word(value))?;
        session.show(Shape::One("counter"), keyed(&self.record), reply, || no_record(&self.record))
    }
}

impl Unset {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = Call::new("HDEL").word(&self.record);
        let call = self.fields.iter().fold(call, Call::word);
        let reply = read(session, &self.on, call)?;
        if reply == Reply::Int(0) {
            let message = format!("the record {} has none of these fields", self.record);
            return Err(Failure::not_held(message));
        }
        session.show(Shape::One("removed"), keyed(&self.record), reply, String::new)
    }
}

impl Cas {
    fn call(&self, value: Option<&[u8]>) -> Call {
        let call = Call::new("REC.CAS").word(&self.record).word(&self.field);
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

    fn run(self, session: &mut Session) -> Result<()> {
        let value = self.value.clone().map(|value| given(value, session)).transpose()?;
        let reply = write(session, &self.on, self.call(value.as_deref()))?;
        let key = &self.record;
        session.show(Shape::One("counter"), keyed(key), reply, || {
            format!("{key} is not as expected: `mainstay record get {key}`")
        })
    }
}

impl Delete {
    /// Deletes a record by removing all its fields in a transaction, so a cell with the same name stays.
    fn run(self, session: &mut Session) -> Result<()> {
        let gone = session.store()?.on(self.on.branch.as_deref(), |store| self.delete(store))?;
        let reply = Reply::Int(i64::from(gone));
        let missing = || match self.condition {
            Some(n) => format!("there is no record {} with counter {n}", self.record),
            None => format!("there is no record {}", self.record),
        };
        session.show(Shape::Did("deleted"), keyed(&self.record), reply, missing)
    }

    fn delete(&self, store: &mut Store) -> Result<bool> {
        match store.begun() {
            Some(Begun::Transaction) => return self.take_out(store),
            Some(Begun::Multi) => {
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
        store.call(Call::new("TXN.BEGIN").words())?;
        let taken = self.take_out(store);
        if let Ok(true) = taken {
            return store.call(Call::new("TXN.COMMIT").words()).map(|_| true);
        }
        // The first failure may have broken the connection, so it is reported rather than that of the
        // rollback.
        let back = store.call(Call::new("TXN.ROLLBACK").words());
        taken.and_then(|taken| back.map(|_| taken))
    }

    fn take_out(&self, store: &mut Store) -> Result<bool> {
        let reply = store.call(Call::new("REC.GET").word(&self.record).words())?;
        let Shown::One(row) = shapes::shape("REC.GET").show(reply, false) else { return Ok(false) };
        let counter = row.iter().find(|(name, _)| name == "counter").map(|(_, field)| field);
        if self.condition.is_some_and(|n| counter != Some(&Field::number(n))) {
            return Ok(false);
        }
        let Some((_, Field::Plain(Value::Object(fields)))) = row.first() else { return Ok(false) };
        let names = fields.keys().map(|name| name.parse::<FieldName>());
        let names = names.collect::<mainstay::Result<Vec<_>>>()?;
        let call = names.iter().fold(Call::new("HDEL").word(&self.record), Call::word);
        store.call(call.words()).map(|reply| reply != Reply::Int(0))
    }
}

impl Wanted {
    fn on(&self, call: Call) -> Call {
        self.tests.iter().fold(call.word(&self.prefix), |call, test| {
            call.word("WHERE").word(&test.field).word(test.operator).word(&test.bound)
        })
    }
}

impl List {
    fn run(self, session: &mut Session) -> Result<()> {
        let wanted = self.wanted;
        let on = self.on;
        Pages::new(self.moment, self.after, self.limit).show(session, |session, pages, size| {
            let call = wanted.on(Call::new("REC.SCAN")).option("AFTER", pages.after.as_ref());
            let call = pages.moment.on(call.option("LIMIT", Some(size)));
            match shapes::shape("REC.SCAN").show(read(session, &on, call)?, false) {
                Shown::Many(rows) => Ok(rows),
                odd => Err(Failure::error(format!("REC.SCAN answered {odd:?}"))),
            }
        })
    }
}

impl Count {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = self.moment.on(self.wanted.on(Call::new("REC.COUNT")));
        let reply = read(session, &self.on, call)?;
        session.show(shapes::shape("REC.COUNT"), Row::new(), reply, String::new)
    }
}

impl Explain {
    fn run(self, session: &mut Session) -> Result<()> {
        let reply = read(session, &self.on, self.wanted.on(Call::new("REC.EXPLAIN")))?;
        session.show(shapes::shape("REC.EXPLAIN"), Row::new(), reply, String::new)
    }
}

impl History {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = Call::new("REC.HISTORY").word(&self.record).option("LIMIT", Some(self.limit));
        let reply = read(session, &self.on, call.option("BEFORE", self.before))?;
        let missing = || format!("{} has no versions that are kept", self.record);
        if reply == Reply::Array(Vec::new()) {
            return Err(Failure::not_held(missing()));
        }
        session.show(shapes::shape("REC.HISTORY"), Row::new(), reply, missing)
    }
}

impl Ttl {
    fn run(self, session: &mut Session) -> Result<()> {
        match self.span {
            None if !self.clear => self.show(session),
            span => self.change(session, span),
        }
    }

    fn show(&self, session: &mut Session) -> Result<()> {
        let reply = read(session, &self.on, Call::new("REC.GET").word(&self.record))?;
        let Shown::One(row) = shapes::shape("REC.GET").show(reply, false) else {
            return Err(Failure::not_held(no_record(&self.record)));
        };
        let lives = row.into_iter().filter(|(name, _)| name == "ttl_ms");
        let row = keyed(&self.record).into_iter().chain(lives).collect();
        session.printer.one(row, Bare::Field("ttl_ms"));
        Ok(())
    }

    fn change(&self, session: &mut Session, span: Option<u64>) -> Result<()> {
        let call = match span {
            Some(ms) => Call::new("PEXPIRE").word(&self.record).word(ms.to_string()),
            None => Call::new("PERSIST").word(&self.record),
        };
        let reply = read(session, &self.on, call)?;
        let missing = || match span {
            Some(_) => no_record(&self.record),
            None => {
                format!("the record {} is not there, or lives until it is deleted", self.record)
            }
        };
        session.show(Shape::Did("changed"), keyed(&self.record), reply, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, DataNoun, Noun};
    use crate::call::said;
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
            let _ = (text.parse::<FieldName>(), text.parse::<Pair>());
            if let Ok(test) = text.parse::<Test>() {
                let again = format!("{}{}{}", test.field.0.to_text(), test.operator, test.bound);
                let _ = again.parse::<Test>();
            }
        }
    }

    #[test]
    fn verbs_become_the_words_of_commands() {
        let words = ["put", "k", "a=1", "b=x=y", "c=", "--if", "3", "--ttl", "30s"];
        let Ok(RecordVerb::Put(put)) = parsed(&words) else { panic!("no put") };
        assert_eq!(said(put.call("REC.SET")), "REC.SET k IF 3 TTL 30000 FIELDS a 1 b x=y c ");
        let words = ["cas", "k", "state", "claimed", "--is", "-1", "--and", "w=", "--and-absent"];
        let more = ["e", "--set", "w=w1", "--unset", "e", "--ttl", "5"];
        let Ok(RecordVerb::Cas(cas)) = parsed(&[&words[..], &more].concat()) else {
            panic!("no cas")
        };
        assert_eq!(
            said(cas.call(Some(b"claimed"))),
            "REC.CAS k state IS -1 claimed AND w IS  AND e ABSENT SET w w1 UNSET e TTL 5"
        );
        let Ok(RecordVerb::Cas(cas)) = parsed(&["cas", "k", "f", "v", "--absent"]) else {
            panic!("no cas")
        };
        assert_eq!(said(cas.call(Some(b"v"))), "REC.CAS k f ABSENT v");
        let Ok(RecordVerb::Cas(cas)) = parsed(&["cas", "k", "f", "--is", "1", "--unset", "f"])
        else {
            panic!("no cas")
        };
        assert_eq!(said(cas.call(None)), "REC.CAS k f IS 1 UNSET f");
        let words =
            ["count", "p", "--where", "n >= 3", "--where", "s!=a=b", "--where", "x in [\"<\"]"];
        let Ok(RecordVerb::Count(count)) = parsed(&words) else { panic!("no count") };
        assert_eq!(
            said(count.wanted.on(Call::new("REC.COUNT"))),
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
