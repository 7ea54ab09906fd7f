//! Commands on cells.

use super::words::{Options, Words, number};
use super::{Answer, Embedded, Known, Refusal};
use crate::cli::reply::Reply;
use mainstay::{At, CellsAt, HistoryEntry, Number, Ttl, Value, Versioned};

const LIST_LIMIT: usize = 1000;
const MOMENT: [&str; 2] = ["REV", "AT"];

/// Runs a command of our own.
pub fn run(store: &mut Embedded, verb: &str, words: &mut Words) -> Known {
    let run = match verb {
        "INIT" => init,
        "GET" => get,
        "GETV" => get_versioned,
        "SET" => set,
        "CAS" => cas,
        "DEL" => delete,
        "INCR" => incr,
        "HISTORY" => history,
        "LIST" => list,
        _ => return Ok(None),
    };
    run(store, words).map(Some)
}

/// Runs one of the few Redis commands that mean the same without a server.
pub fn plain(store: &mut Embedded, command: &str, words: &mut Words) -> Known {
    let run = match command {
        "GET" => get,
        "SET" => redis_set,
        "DEL" => redis_delete,
        "EXISTS" => redis_exists,
        _ => return Ok(None),
    };
    run(store, words).map(Some)
}

fn init(store: &mut Embedded, words: &mut Words) -> Answer {
    let (name, value) = (words.name()?, words.next("a value")?);
    let value = words.options(&["JSON"], &[])?.value(value)?;
    Ok(Reply::number(store.connection.init(&name, value)?))
}

fn get(store: &mut Embedded, words: &mut Words) -> Answer {
    Ok(optional(find(store, words)?, |cell| bare(&cell.value)))
}

fn get_versioned(store: &mut Embedded, words: &mut Words) -> Answer {
    let row = |cell: Versioned| {
        let numbers = [cell.counter, cell.stamp, cell.revision].map(Reply::number);
        Reply::Array([bare(&cell.value)].into_iter().chain(numbers).collect())
    };
    Ok(optional(find(store, words)?, row))
}

fn find(store: &mut Embedded, words: &mut Words) -> Result<Option<Versioned>, Refusal> {
    let name = words.name()?;
    match words.options(&[], &MOMENT)?.at()? {
        At::Latest => Ok(store.connection.get_versioned(&name)?),
        at => Ok(past(store, words, at)?.get_versioned(&name)?),
    }
}

/// The cells as they were; not inside a transaction, which reads its own snapshot.
fn past(store: &Embedded, words: &Words, at: At) -> Result<CellsAt, Refusal> {
    outside(store, words)?;
    Ok(store.db.branch(store.connection.branch())?.cells().at(at)?)
}

fn outside(store: &Embedded, words: &Words) -> Result<(), Refusal> {
    match store.connection.in_transaction() {
        true => Err(Refusal::not_inside(words.command())),
        false => Ok(()),
    }
}

fn set(store: &mut Embedded, words: &mut Words) -> Answer {
    let (name, value) = (words.name()?, words.next("a value")?);
    let options = words.options(&["JSON"], &["TTL"])?;
    let ttl = options.number("TTL")?.map_or(Ttl::Clear, Ttl::Millis);
    Ok(Reply::number(store.connection.set_with(&name, options.value(value)?, ttl)?))
}

fn cas(store: &mut Embedded, words: &mut Words) -> Answer {
    let name = words.name()?;
    let expected = match words.next("a counter or NIL")? {
        nil if nil.eq_ignore_ascii_case(b"NIL") => None,
        counter => Some(number(&counter, "the counter")?),
    };
    let value = words.next("a value")?;
    let value = words.options(&["JSON"], &[])?.value(value)?;
    Ok(optional(store.connection.cas(&name, expected, value)?, Reply::number))
}

fn delete(store: &mut Embedded, words: &mut Words) -> Answer {
    let name = words.name()?;
    let did = match words.options(&[], &["IF"])?.number("IF")? {
        Some(counter) => store.connection.delete_if(&name, counter)?,
        None => store.connection.delete(&name)?,
    };
    Ok(Reply::Int(did.into()))
}

fn incr(store: &mut Embedded, words: &mut Words) -> Answer {
    let name = words.name()?;
    let by = words.maybe().map_or(Ok(Number::Int(1)), |by| step(&by))?;
    words.end()?;
    let (value, counter) = store.connection.incr(&name, by)?;
    Ok(Reply::Array(vec![bare(&value), Reply::number(counter)]))
}

fn step(by: &[u8]) -> Result<Number, Refusal> {
    number(by, "the step").map(Number::Int).or_else(|_| number(by, "the step").map(Number::Float))
}

fn history(store: &mut Embedded, words: &mut Words) -> Answer {
    let name = words.name()?;
    outside(store, words)?;
    let options = words.options(&[], &["LIMIT", "BEFORE"])?;
    let (limit, before) = (limit(&options)?, options.number("BEFORE")?);
    let cells = store.db.branch(store.connection.branch())?.cells();
    let versions = cells.history(&name, limit, before)?;
    Ok(Reply::Array(versions.into_iter().map(version).collect()))
}

fn version(entry: HistoryEntry) -> Reply {
    let value = entry.value.as_ref().map_or(Reply::Nil, bare);
    let (counter, stamp) = (Reply::number(entry.counter), Reply::number(entry.stamp));
    Reply::Array(vec![counter, value, stamp, Reply::number(entry.revision)])
}

fn list(store: &mut Embedded, words: &mut Words) -> Answer {
    let options = words.options(&[], &["PREFIX", "AFTER", "LIMIT", "REV", "AT"])?;
    let prefix = options.text("PREFIX")?.unwrap_or_default();
    let (after, limit) = (options.text("AFTER")?, limit(&options)?);
    let page = match options.at()? {
        At::Latest => store.connection.list(&prefix, after.as_deref(), limit)?,
        at => past(store, words, at)?.list(&prefix, after.as_deref(), limit)?,
    };
    Ok(Reply::Array(page.names.into_iter().map(Reply::text).collect()))
}

fn limit(options: &Options) -> Result<usize, Refusal> {
    Ok(options.number("LIMIT")?.unwrap_or(LIST_LIMIT))
}

fn redis_set(store: &mut Embedded, words: &mut Words) -> Answer {
    let (name, value) = (words.name()?, words.next("a value")?);
    let options = words.options(&[], &["EX", "PX"])?;
    let seconds: Option<u64> = options.number("EX")?;
    let milliseconds = seconds.map(|s| s.saturating_mul(1000)).or(options.number("PX")?);
    let ttl = milliseconds.map_or(Ttl::Clear, Ttl::Millis);
    store.connection.set_with(&name, Value::from_text(&value), ttl)?;
    Ok(Reply::text("OK"))
}

fn redis_delete(store: &mut Embedded, words: &mut Words) -> Answer {
    let mut deleted = 0;
    for name in words.names()? {
        deleted += i64::from(store.connection.delete(&name)?);
    }
    Ok(Reply::Int(deleted))
}

fn redis_exists(store: &mut Embedded, words: &mut Words) -> Answer {
    let mut found = 0;
    for name in words.names()? {
        found += i64::from(store.connection.get(&name)?.is_some());
    }
    Ok(Reply::Int(found))
}

fn optional<T>(found: Option<T>, reply: impl FnOnce(T) -> Reply) -> Reply {
    found.map_or(Reply::Nil, reply)
}

fn bare(value: &Value) -> Reply {
    Reply::text(value.as_text())
}
