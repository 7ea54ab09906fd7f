//! Commands on cells: `CELL.*`.

use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::plan::{Answers, Plan, Shape, only, unexpected};
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Run, Spec};
use mainstay::{Answer, CellCommand, HistoryEntry, Number, Stamp, Ttl, Versioned};

/// The default limit for versions or names.
const DEFAULT_LIMIT: usize = 100;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    cell("cell.init", -3, Run::Data(init))
        .writes()
        .syntax("name value [JSON]")
        .about("Writes when the cell is absent; its counter either way"),
    cell("cell.get", -2, Run::Data(get))
        .syntax("name [REV revision | AT stamp_us]")
        .about("The value of a cell, now or as it was"),
    cell("cell.getv", -2, Run::Data(getv))
        .syntax("name [REV revision | AT stamp_us]")
        .about("Value, counter, stamp and revision of a cell"),
    cell("cell.set", -3, Run::Data(set))
        .writes()
        .syntax("name value [JSON] [TTL ms]")
        .about("Writes a cell; its new counter. JSON stores the value with its type"),
    cell("cell.cas", -4, Run::Data(cas)).writes().syntax("name NIL|counter value [JSON]").about(
        "Writes only when the counter is this one (NIL: when the cell is absent); the new \
             counter, or nil when that did not hold",
    ),
    cell("cell.del", -2, Run::Data(del))
        .writes()
        .syntax("name [IF counter]")
        .about("Deletes a cell, if its counter is this one; 1, or 0 when there was nothing there"),
    cell("cell.incr", -2, Run::Data(incr))
        .writes()
        .syntax("name [by]")
        .about("Adds to a number; the sum and the counter"),
    cell("cell.history", -2, Run::Data(history))
        .syntax("name [LIMIT n] [BEFORE counter]")
        .about("The versions of a cell, newest first, deletions included"),
    Spec::new("cell.list", -1, Group::Cells, Run::Data(list))
        .syntax("[PREFIX p] [AFTER name] [LIMIT n] [REV revision | AT stamp_us]")
        .about("Names of cells, in order"),
];

const fn cell(name: &'static str, arity: i32, run: Run) -> Spec {
    Spec::new(name, arity, Group::Cells, run).keys(1, 1, 1)
}

fn init(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let command = CellCommand::Init { name: arguments.name()?, value: arguments.value()? };
    arguments.end()?;
    Ok(Plan::one(command, Shape::ours(counter)))
}

fn set(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let value = arguments.value()?;
    let ttl = if arguments.take("TTL") { Ttl::Millis(arguments.count()?) } else { Ttl::Clear };
    arguments.end()?;
    Ok(Plan::one(CellCommand::Set { name, value, ttl }, Shape::ours(counter)))
}

fn cas(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let expected = if arguments.take("NIL") { None } else { Some(arguments.count()?) };
    let value = arguments.value()?;
    arguments.end()?;
    Ok(Plan::one(CellCommand::Cas { name, expected, value }, Shape::ours(maybe_counter)))
}

fn del(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let counter = if arguments.take("IF") { Some(arguments.count()?) } else { None };
    arguments.end()?;
    Ok(Plan::one(CellCommand::Delete { name, counter }, Shape::ours(did)))
}

fn incr(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let by = match arguments.shift() {
        Some(word) => number(word)?,
        None => Number::Int(1),
    };
    arguments.end()?;
    Ok(Plan::one(CellCommand::Incr { name, by }, Shape::ours(sum)))
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
    match only(answers) {
        Some(Answer::Counter(counter)) => Reply::number(counter),
        _ => unexpected(),
    }
}

/// Returns the counter after a conditional write; nil if nothing was written.
pub fn maybe_counter(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::MaybeCounter(counter)) => Reply::maybe(counter.map(Reply::number)),
        _ => unexpected(),
    }
}

/// Returns 1 if something was changed, otherwise 0.
pub fn did(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Did(did)) => Reply::Int(did.into()),
        _ => unexpected(),
    }
}

fn sum(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Number { value, counter }) => {
            Reply::Array(vec![Reply::value(value), Reply::number(counter)])
        }
        _ => unexpected(),
    }
}

/// Returns the value of a cell, or nil.
pub fn value(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Cell(cell)) => Reply::maybe(cell.map(|cell| Reply::value(cell.value))),
        _ => unexpected(),
    }
}

fn versioned(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Cell(cell)) => Reply::maybe(cell.map(whole_cell)),
        _ => unexpected(),
    }
}

fn whole_cell(cell: Versioned) -> Reply {
    let Versioned { value, counter, stamp, revision, .. } = cell;
    let numbers = [counter, stamp, revision].map(Reply::number);
    Reply::Array([Reply::value(value)].into_iter().chain(numbers).collect())
}

fn names(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Names(page)) => Reply::texts(page.names),
        _ => unexpected(),
    }
}

fn get(words: &[&[u8]]) -> Result<Plan, Reply> {
    read_cell(words, Shape::ours(value))
}

fn getv(words: &[&[u8]]) -> Result<Plan, Reply> {
    read_cell(words, Shape::ours(versioned))
}

fn read_cell(words: &[&[u8]], shape: Shape) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let at = arguments.point()?;
    arguments.end()?;
    Ok(Plan::one(CellCommand::Get { name }, shape).at(at))
}

fn list(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let mut prefix = String::new();
    let mut after = None;
    let mut limit = DEFAULT_LIMIT;
    let mut at = None;
    while arguments.left() > 0 {
        if arguments.take("PREFIX") {
            prefix = arguments.text()?.to_owned();
        } else if arguments.take("AFTER") {
            after = Some(arguments.text()?.to_owned());
        } else if arguments.take("LIMIT") {
            limit = arguments.limit()?;
        } else {
            at = Some(arguments.point()?.ok_or_else(syntax_error)?);
        }
    }
    Ok(Plan::one(CellCommand::List { prefix, after, limit }, Shape::ours(names)).at(at))
}

fn history(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let (limit, before) = versions(&mut arguments)?;
    Ok(Plan::one(CellCommand::History { name, limit, before }, Shape::ours(history_rows)))
}

/// Consumes `[LIMIT n] [BEFORE counter]`, the last options of a command.
pub(super) fn versions(arguments: &mut Arguments<'_>) -> Result<(usize, Option<u64>), Reply> {
    let mut limit = DEFAULT_LIMIT;
    let mut before = None;
    while arguments.left() > 0 {
        if arguments.take("LIMIT") {
            limit = arguments.limit()?;
        } else if arguments.take("BEFORE") {
            before = Some(arguments.count()?);
        } else {
            arguments.end()?;
        }
    }
    Ok((limit, before))
}

fn history_rows(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::History(versions)) => {
            Reply::Array(versions.into_iter().map(version).collect())
        }
        _ => unexpected(),
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
