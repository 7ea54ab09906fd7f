//! Commands on records: `REC.*`.

use super::cells::{optional_counter, versions};
use super::expiry::{Clock, Unit, remaining};
use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Handler, Spec};
use mainstay::{
    Answer, At, Condition, Field, FieldValue, Fields, Name, Record, RecordCommand,
    RecordHistoryEntry, RecordPage, RecordWrite, Stamp, Test, Ttl, Value, Where,
};

/// The default limit for versions or records.
const DEFAULT_LIMIT: usize = 100;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    record("rec.cas", -5, Handler::Plan(cas))
        .writes()
        .syntax(
            "key field IS|ABSENT expected|new [new] [AND field IS|ABSENT [expected]] \
             [SET field value] [UNSET field] [TTL ms]",
        )
        .summarize(
            "Writes a field only when it is this one (ABSENT: when there is none), and more in the \
             same step; the new counter, or nil when that did not hold",
        ),
    record("rec.set", -5, Handler::Plan(set))
        .writes()
        .syntax("key [IF counter] [TTL ms] FIELDS field value [field value ...]")
        .summarize(
            "Sets fields and leaves the others; the new counter, or nil when IF did not hold",
        ),
    record("rec.replace", -5, Handler::Plan(replace))
        .writes()
        .syntax("key [IF counter] [TTL ms] FIELDS field value [field value ...]")
        .summarize(
            "Sets fields and drops the others; the new counter, or nil when IF did not hold",
        ),
    record("rec.get", -2, Handler::Plan(get))
        .syntax("key [REV revision | AT stamp_us]")
        .summarize("Fields, counter and time to live of a record, now or as it was"),
    record("rec.history", -2, Handler::Plan(history))
        .syntax("key [LIMIT n] [BEFORE counter]")
        .summarize("The versions of a record, newest first, deletions included"),
    Spec::new("rec.scan", -2, Group::Records, Handler::Plan(scan))
        .syntax("prefix [WHERE field op value] [AFTER key] [LIMIT n] [REV revision | AT stamp_us]")
        .summarize("Records in order of their keys; op is one of = != < <= > >= IN"),
    Spec::new("rec.count", -2, Group::Records, Handler::Plan(count))
        .syntax("prefix [WHERE field op value] [REV revision | AT stamp_us]")
        .summarize("How many records there are; op is one of = != < <= > >= IN"),
];

const fn record(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Records, run).keys(1, 1, 1)
}

fn field(arguments: &mut Arguments<'_>) -> Result<Field, Reply> {
    Ok(Field::new(arguments.word()?)?)
}

fn field_value(arguments: &mut Arguments<'_>) -> Result<(Field, FieldValue), Reply> {
    Ok((field(arguments)?, FieldValue::from(arguments.word()?)))
}

/// Consumes the milliseconds behind `TTL`.
fn ttl(arguments: &mut Arguments<'_>) -> Result<Ttl, Reply> {
    let ms = arguments.integer()?;
    let ms = u64::try_from(ms).map_err(|_| {
        Reply::error(format!("INVALID a time to live of {ms} ms is over already: give 1 or more"))
    })?;
    Ok(Ttl::Millis(ms))
}

/// Creates an empty write of a record, which keeps the expiry.
fn empty_write(key: Name) -> Result<RecordWrite, Reply> {
    Ok(RecordWrite::to(key.as_str())?)
}

/// Consumes `IS value` or `ABSENT` behind a field.
fn condition(field: Field, arguments: &mut Arguments<'_>) -> Result<Condition, Reply> {
    let is = if arguments.take_keyword("IS") {
        Some(arguments.word()?.to_vec())
    } else if arguments.take_keyword("ABSENT") {
        None
    } else {
        return Err(syntax_error());
    };
    Ok(Condition::Field { field, is })
}

/// The command has two forms: with a new value for the compared field, or without one. In the second form
/// the other options say what to write, and may delete the compared field. Words that fit both forms are
/// read as the first one.
fn cas(words: &[&[u8]]) -> Result<Plan, Reply> {
    let write = cas_write(words, true);
    let write = write.or_else(|reply| cas_write(words, false).map_err(|_| reply))?;
    Ok(Plan::one(write, ReplyFormat::plain(optional_counter)))
}

fn cas_write(words: &[&[u8]], has_new_value: bool) -> Result<RecordWrite, Reply> {
    let mut arguments = Arguments::after_first(words);
    let mut write = empty_write(arguments.name()?)?;
    let compared = field(&mut arguments)?;
    write.when.push(condition(compared.clone(), &mut arguments)?);
    if has_new_value {
        write.set.push((compared, FieldValue::from(arguments.word()?)));
    }
    while arguments.remaining() > 0 {
        if arguments.take_keyword("AND") {
            let further = field(&mut arguments)?;
            write.when.push(condition(further, &mut arguments)?);
        } else if arguments.take_keyword("SET") {
            write.set.push(field_value(&mut arguments)?);
        } else if arguments.take_keyword("UNSET") {
            write.clear.push(field(&mut arguments)?);
        } else if arguments.take_keyword("TTL") {
            write.ttl = ttl(&mut arguments)?;
        } else {
            return Err(syntax_error());
        }
    }
    let is_empty = write.set.is_empty() && write.clear.is_empty() && write.ttl == Ttl::Keep;
    if is_empty { Err(syntax_error()) } else { Ok(write) }
}

fn set(words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(set_write(words)?, ReplyFormat::plain(optional_counter)))
}

fn replace(words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(set_write(words)?.replace(), ReplyFormat::plain(optional_counter)))
}

fn set_write(words: &[&[u8]]) -> Result<RecordWrite, Reply> {
    let mut arguments = Arguments::after_first(words);
    let mut write = empty_write(arguments.name()?)?;
    while !arguments.take_keyword("FIELDS") {
        if arguments.take_keyword("IF") {
            write = write.when_counter(Some(arguments.count()?));
        } else if arguments.take_keyword("TTL") {
            write.ttl = ttl(&mut arguments)?;
        } else {
            return Err(syntax_error());
        }
    }
    while arguments.remaining() > 0 {
        write.set.push(field_value(&mut arguments)?);
    }
    Ok(write)
}

fn get(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let key = arguments.name()?;
    let at = arguments.point_in_time()?;
    arguments.end()?;
    Ok(Plan::one(RecordCommand::Get { key, fields: None }, ReplyFormat::plain(whole_record)).at(at))
}

/// Returns a record with its counter and its remaining time to live.
pub(super) fn whole_record(answers: Answers, now: Stamp) -> Reply {
    let shown = |record: Record| {
        let left_ms = remaining(Some(record.expires), now, Unit::Millis, Clock::FromNow);
        let counter = Reply::number(record.counter);
        Reply::Array(vec![pairs(record.fields), counter, Reply::Int(left_ms)])
    };
    match single(answers) {
        Some(Answer::Record(record)) => Reply::maybe(record.map(shown)),
        _ => unexpected_answer(),
    }
}

/// Returns the fields with their values, each as a list of two.
fn pairs(fields: Fields) -> Reply {
    let pair = |(field, value): (Field, Vec<u8>)| {
        Reply::Array(vec![Reply::text(field.as_bytes()), Reply::Bulk(value)])
    };
    Reply::Array(fields.into_iter().map(pair).collect())
}

fn history(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let key = arguments.name()?;
    let (limit, before) = versions(&mut arguments)?;
    Ok(Plan::one(RecordCommand::History { key, limit, before }, ReplyFormat::plain(history_rows)))
}

fn history_rows(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::RecordHistory(versions)) => {
            Reply::Array(versions.into_iter().map(version).collect())
        }
        _ => unexpected_answer(),
    }
}

fn version(entry: RecordHistoryEntry) -> Reply {
    Reply::Array(vec![
        Reply::number(entry.counter),
        Reply::maybe(entry.fields.map(pairs)),
        Reply::number(entry.stamp),
        Reply::number(entry.revision),
    ])
}

/// The options of a scan or a count.
pub(super) struct ScanOptions {
    pub prefix: String,
    pub filters: Vec<Where>,
    pub after: Option<String>,
    pub limit: Option<usize>,
    pub at: Option<At>,
}

impl ScanOptions {
    pub fn read(words: &[&[u8]]) -> Result<ScanOptions, Reply> {
        let mut arguments = Arguments::after_first(words);
        let prefix = arguments.text()?.to_owned();
        let mut options =
            ScanOptions { prefix, filters: Vec::new(), after: None, limit: None, at: None };
        while arguments.remaining() > 0 {
            options.read_one(&mut arguments)?;
        }
        Ok(options)
    }

    fn read_one(&mut self, arguments: &mut Arguments<'_>) -> Result<(), Reply> {
        if arguments.take_keyword("WHERE") {
            self.filters.push(filter(arguments)?)
        } else if arguments.take_keyword("AFTER") {
            self.after = Some(arguments.text()?.to_owned())
        } else if arguments.take_keyword("LIMIT") {
            self.limit = Some(arguments.limit()?)
        } else {
            self.at = Some(arguments.point_in_time()?.ok_or_else(syntax_error)?)
        }
        Ok(())
    }

    /// Checks that the cursor is within the scan.
    fn check_cursor(&self) -> Result<(), Reply> {
        match &self.after {
            Some(after) if !after.starts_with(&self.prefix) => {
                let prefix = &self.prefix;
                Err(Reply::error(format!(
                    "INVALID `{after}` is no place in a scan of `{prefix}`: AFTER takes what the page \
                     before gave as next"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Consumes `field op value`.
fn filter(arguments: &mut Arguments<'_>) -> Result<Where, Reply> {
    let field = field(arguments)?;
    let operator = arguments.word()?;
    let value = arguments.word()?;
    let test = match operator {
        b"=" => Test::Eq(value.to_vec()),
        b"!=" => Test::Ne(value.to_vec()),
        b"<" => Test::Lt(value.to_vec()),
        b"<=" => Test::Le(value.to_vec()),
        b">" => Test::Gt(value.to_vec()),
        b">=" => Test::Ge(value.to_vec()),
        word if word.eq_ignore_ascii_case(b"IN") => Test::In(texts(value)?),
        word => {
            let word = String::from_utf8_lossy(word);
            let message = format!("INVALID `{word}` is no operator: there are = != < <= > >= IN");
            return Err(Reply::error(message));
        }
    };
    Ok(Where { field, test })
}

/// Parses a JSON array of strings.
fn texts(word: &[u8]) -> Result<Vec<Vec<u8>>, Reply> {
    let none = || Reply::error("INVALID IN takes a JSON array of strings, as [\"a\",\"b\"]");
    let json = std::str::from_utf8(word).map_err(|_| none())?;
    let Ok(Value::Array(items)) = Value::from_json(json) else { return Err(none()) };
    let text = |item| match item {
        Value::String(text) => Ok(text.into_bytes()),
        _ => Err(none()),
    };
    items.into_iter().map(text).collect()
}

fn scan(words: &[&[u8]]) -> Result<Plan, Reply> {
    let options = ScanOptions::read(words)?;
    options.check_cursor()?;
    let ScanOptions { prefix, filters, after, limit, at } = options;
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    let command = RecordCommand::Scan { prefix, filters, after, limit };
    Ok(Plan::one(command, ReplyFormat::plain(records)).at(at))
}

fn records(answers: Answers, _: Stamp) -> Reply {
    let row = |(key, record): (String, Record)| {
        Reply::Array(vec![Reply::text(key), pairs(record.fields), Reply::number(record.counter)])
    };
    match single(answers) {
        Some(Answer::Records(RecordPage { records, next })) => {
            let rows = Reply::Array(records.into_iter().map(row).collect());
            Reply::Array(vec![Reply::maybe(next.map(Reply::text)), rows])
        }
        _ => unexpected_answer(),
    }
}

fn count(words: &[&[u8]]) -> Result<Plan, Reply> {
    let ScanOptions { prefix, filters, after: None, limit: None, at } = ScanOptions::read(words)?
    else {
        return Err(syntax_error());
    };
    Ok(Plan::one(RecordCommand::Count { prefix, filters }, ReplyFormat::plain(count_reply)).at(at))
}

pub(super) fn count_reply(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Count(count)) => Reply::number(count),
        _ => unexpected_answer(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_look_at_everything_is_long_work() {
        let is_long = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let plan = if line.starts_with("rec.scan") { scan(&words) } else { count(&words) };
            plan.is_ok_and(|plan| plan.is_long())
        };
        assert!(is_long("rec.scan a WHERE f = 1") && is_long("rec.count a"));
        assert!(is_long("rec.scan a"), "records have any number of versions");
    }
}
