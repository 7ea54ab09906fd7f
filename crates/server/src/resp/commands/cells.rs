//! Commands on cells: `CELL.*`.

use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Handler, Spec};
use mainstay::{Answer, CellCommand, HistoryEntry, Number, Stamp, Ttl, Versioned};

/// The default limit for versions or names.
const DEFAULT_LIMIT: usize = 100;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    cell("cell.init", -3, Handler::Plan(init))
        .writes()
        .syntax("name value [JSON]")
        .summarize("Writes when the cell is absent; its counter either way"),
    cell("cell.get", -2, Handler::Plan(get))
        .syntax("name [REV revision | AT stamp_us]")
        .summarize("The value of a cell, now or as it was"),
    cell("cell.getv", -2, Handler::Plan(getv))
        .syntax("name [REV revision | AT stamp_us]")
        .summarize("Value, counter, stamp and revision of a cell"),
    cell("cell.set", -3, Handler::Plan(set))
        .writes()
        .syntax("name value [JSON] [TTL ms]")
        .summarize("Writes a cell; its new counter. JSON stores the value with its type"),
    cell("cell.cas", -4, Handler::Plan(cas))
        .writes()
        .syntax("name NIL|counter value [JSON]")
        .summarize(
            "Writes only when the counter is this one (NIL: when the cell is absent); the new \
             counter, or nil when that did not hold",
        ),
    cell("cell.del", -2, Handler::Plan(del)).writes().syntax("name [IF counter]").summarize(
        "Deletes a cell, if its counter is this one; 1, or 0 when there was nothing there",
    ),
    cell("cell.incr", -2, Handler::Plan(incr))
        .writes()
        .syntax("name [by]")
        .summarize("Adds to a number; the sum and the counter"),
    cell("cell.history", -2, Handler::Plan(history))
        .syntax("name [LIMIT n] [BEFORE counter]")
        .summarize("The versions of a cell, newest first, deletions included"),
    Spec::new("cell.list", -1, Group::Cells, Handler::Plan(list))
        .syntax("[PREFIX p] [AFTER name] [LIMIT n] [REV revision | AT stamp_us]")
        .summarize("Names of cells, in order"),
];

const fn cell(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Cells, run).keys(1, 1, 1)
}

fn init(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let command = CellCommand::Init { name: arguments.name()?, value: arguments.value()? };
    arguments.end()?;
    Ok(Plan::one(command, ReplyFormat::plain(counter)))
}

fn set(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let value = arguments.value()?;
    let ttl =
        if arguments.take_keyword("TTL") { Ttl::Millis(arguments.count()?) } else { Ttl::Clear };
    arguments.end()?;
    Ok(Plan::one(CellCommand::Set { name, value, ttl }, ReplyFormat::plain(counter)))
}

fn cas(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let expected = if arguments.take_keyword("NIL") { None } else { Some(arguments.count()?) };
    let value = arguments.value()?;
    arguments.end()?;
    Ok(Plan::one(CellCommand::Cas { name, expected, value }, ReplyFormat::plain(optional_counter)))
}

fn del(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let counter = if arguments.take_keyword("IF") { Some(arguments.count()?) } else { None };
    arguments.end()?;
    Ok(Plan::one(CellCommand::Delete { name, counter }, ReplyFormat::plain(changed)))
}

fn incr(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let by = match arguments.shift() {
        Some(word) => number(word)?,
        None => Number::Int(1),
    };
    arguments.end()?;
    Ok(Plan::one(CellCommand::Incr { name, by }, ReplyFormat::plain(sum)))
}

/// Parses an integer if possible, otherwise a float. An integer beyond 64 bits is rejected, because the
/// nearest float is a different number.
fn number(word: &[u8]) -> Result<Number, Reply> {
    let text = crate::resp::arguments::text(word)?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<i64>().is_err()
    {
        return Err(Reply::error(format!("INVALID `{text}` is not a 64-bit integer")));
    }
    let number = text
        .parse()
        .ok()
        .map(Number::Int)
        .or_else(|| text.parse().ok().filter(|n: &f64| n.is_finite()).map(Number::Float));
    number.ok_or_else(|| Reply::error(format!("INVALID `{text}` is not a number to add")))
}

/// Returns the counter after a write.
pub fn counter(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Counter(counter)) => Reply::number(counter),
        _ => unexpected_answer(),
    }
}

/// Returns the counter after a conditional write; nil if nothing was written.
pub fn optional_counter(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::MaybeCounter(counter)) => Reply::maybe(counter.map(Reply::number)),
        _ => unexpected_answer(),
    }
}

/// Returns 1 if something was changed, otherwise 0.
pub fn changed(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Did(did)) => Reply::Int(did.into()),
        _ => unexpected_answer(),
    }
}

fn sum(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Number { value, counter }) => {
            Reply::Array(vec![Reply::value(value), Reply::number(counter)])
        }
        _ => unexpected_answer(),
    }
}

/// Returns the value of a cell, or nil.
pub fn value(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Cell(cell)) => Reply::maybe(cell.map(|cell| Reply::value(cell.value))),
        _ => unexpected_answer(),
    }
}

fn versioned(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Cell(cell)) => Reply::maybe(cell.map(whole_cell)),
        _ => unexpected_answer(),
    }
}

fn whole_cell(cell: Versioned) -> Reply {
    let Versioned { value, counter, stamp, revision, .. } = cell;
    let numbers = [counter, stamp, revision].map(Reply::number);
    Reply::Array([Reply::value(value)].into_iter().chain(numbers).collect())
}

fn names(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Names(page)) => Reply::texts(page.names),
        _ => unexpected_answer(),
    }
}

fn get(words: &[&[u8]]) -> Result<Plan, Reply> {
    read_cell(words, ReplyFormat::plain(value))
}

fn getv(words: &[&[u8]]) -> Result<Plan, Reply> {
    read_cell(words, ReplyFormat::plain(versioned))
}

fn read_cell(words: &[&[u8]], shape: ReplyFormat) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let at = arguments.point_in_time()?;
    arguments.end()?;
    Ok(Plan::one(CellCommand::Get { name }, shape).at(at))
}

fn list(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let mut prefix = String::new();
    let mut after = None;
    let mut limit = DEFAULT_LIMIT;
    let mut at = None;
    while arguments.remaining() > 0 {
        if arguments.take_keyword("PREFIX") {
            prefix = arguments.text()?.to_owned();
        } else if arguments.take_keyword("AFTER") {
            after = Some(arguments.text()?.to_owned());
        } else if arguments.take_keyword("LIMIT") {
            limit = arguments.limit()?;
        } else {
            at = Some(arguments.point_in_time()?.ok_or_else(syntax_error)?);
        }
    }
    Ok(Plan::one(CellCommand::List { prefix, after, limit }, ReplyFormat::plain(names)).at(at))
}

fn history(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let (limit, before) = versions(&mut arguments)?;
    Ok(Plan::one(CellCommand::History { name, limit, before }, ReplyFormat::plain(history_rows)))
}

/// Consumes `[LIMIT n] [BEFORE counter]`, the last options of a command.
pub(super) fn versions(arguments: &mut Arguments<'_>) -> Result<(usize, Option<u64>), Reply> {
    let mut limit = DEFAULT_LIMIT;
    let mut before = None;
    while arguments.remaining() > 0 {
        if arguments.take_keyword("LIMIT") {
            limit = arguments.limit()?;
        } else if arguments.take_keyword("BEFORE") {
            before = Some(arguments.count()?);
        } else {
            arguments.end()?;
        }
    }
    Ok((limit, before))
}

fn history_rows(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::History(versions)) => {
            Reply::Array(versions.into_iter().map(version).collect())
        }
        _ => unexpected_answer(),
    }
}

fn version(entry: HistoryEntry) -> Reply {
    Reply::Array(vec![
        Reply::number(entry.counter),
        Reply::maybe(entry.value.map(Reply::value)),
        Reply::number(entry.stamp),
        Reply::number(entry.revision),
    ])
}
