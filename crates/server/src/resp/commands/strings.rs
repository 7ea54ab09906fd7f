//! Redis strings on top of cells: `GET`, `SET` and others, with the semantics and error texts of Redis.

use super::cells::{did, value};
use super::expiry::{Clock, Unit, expiry, invalid_time};
use crate::resp::arguments::{Arguments, name, not_an_integer, syntax_error, wrong_type};
use crate::resp::plan::{Answers, Plan, Shape, only, unexpected};
use crate::resp::reply::{OK, Reply};
use crate::resp::request::whole;
use crate::resp::table::{Group, Run, Spec, wrong_arity};
use mainstay::{Answer, CellCommand, Code, Error, Name, Only, Stamp, StringCommand, Ttl, Value};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    read("get", 2, get).keys(1, 1, 1).syntax("key").about("The value of a key"),
    write("set", -3, set)
        .syntax(
            "key value [NX | XX | IFEQ value | IFNE value] [GET] \
             [EX seconds | PX ms | EXAT unix-seconds | PXAT unix-ms | KEEPTTL]",
        )
        .about("Sets a key, perhaps only if, perhaps for a time"),
    write("getset", 3, getset).syntax("key value").about("Sets a key; the value before"),
    write("getdel", 2, getdel).syntax("key").about("Deletes a key; its value"),
    write("getex", -2, getex)
        .syntax("key [EX seconds | PX ms | EXAT unix-seconds | PXAT unix-ms | PERSIST]")
        .about("The value of a key, and another time to live"),
    write("setex", 4, setex).syntax("key seconds value").about("Sets a key for so many seconds"),
    write("psetex", 4, psetex).syntax("key ms value").about("Sets a key for so many milliseconds"),
    write("setnx", 3, setnx).syntax("key value").about("Sets a key unless it is there"),
    read("mget", -2, mget)
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .about("The values of several keys"),
    write("mset", -3, mset)
        .keys(1, -1, 2)
        .syntax("key value [key value ...]")
        .about("Sets several keys"),
    write("msetnx", -3, msetnx)
        .keys(1, -1, 2)
        .syntax("key value [key value ...]")
        .about("Sets several keys unless one is there"),
    write("incr", 2, incr).syntax("key").about("Adds one"),
    write("decr", 2, decr).syntax("key").about("Subtracts one"),
    write("incrby", 3, incrby).syntax("key by").about("Adds a whole number"),
    write("decrby", 3, decrby).syntax("key by").about("Subtracts a whole number"),
    write("incrbyfloat", 3, incrbyfloat).syntax("key by").about("Adds a number"),
    write("append", 3, append).syntax("key text").about("Puts text behind the value; its length"),
    read("strlen", 2, strlen).keys(1, 1, 1).syntax("key").about("The length of a value"),
];

/// A function that makes a plan.
type Planner = fn(&[&[u8]]) -> Result<Plan, Reply>;

const fn read(name: &'static str, arity: i32, plan: Planner) -> Spec {
    Spec::new(name, arity, Group::Strings, Run::Data(plan))
}

const fn write(name: &'static str, arity: i32, plan: Planner) -> Spec {
    read(name, arity, plan).writes().keys(1, 1, 1)
}

/// Creates a shape with the error texts of Redis.
const fn redis(reply: fn(Answers, Stamp) -> Reply) -> Shape {
    Shape::with(reply, redis_words)
}

/// Returns the error of Redis for invalid numbers and for keys of another type.
fn redis_words(error: Error) -> Reply {
    match error.code() {
        Code::WrongType => wrong_type(),
        Code::NotANumber => not_an_integer(),
        Code::Overflow => Reply::error("ERR increment or decrement would overflow"),
        _ => error.into(),
    }
}

fn float_words(error: Error) -> Reply {
    match error.code() {
        Code::NotANumber => Reply::error("ERR value is not a valid float"),
        Code::Overflow => Reply::error("ERR increment would produce NaN or Infinity"),
        Code::WrongType => wrong_type(),
        _ => error.into(),
    }
}

fn get(words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(StringCommand::Get { name: name(words[1])? }, redis(value)))
}

/// The options of `SET`.
#[derive(Default)]
struct SetOptions {
    only: Option<Only>,
    ttl: Option<Ttl>,
    get: bool,
}

impl SetOptions {
    fn read(arguments: &mut Arguments<'_>) -> Result<SetOptions, Reply> {
        let mut options = SetOptions::default();
        while arguments.left() > 0 {
            options.read_one(arguments)?;
        }
        Ok(options)
    }

    fn read_one(&mut self, arguments: &mut Arguments<'_>) -> Result<(), Reply> {
        if arguments.take("GET") {
            self.get = true;
            return Ok(());
        }
        if let Some(only) = condition(arguments)? {
            return put_once(&mut self.only, only);
        }
        let ttl = if arguments.take("KEEPTTL") {
            Ttl::Keep
        } else {
            let (unit, clock) = expiry_form(arguments).ok_or_else(syntax_error)?;
            positive_expiry(arguments.whole()?, unit, clock, "set")?
        };
        put_once(&mut self.ttl, ttl)
    }
}

/// Sets an option that may be given once.
fn put_once<T>(place: &mut Option<T>, option: T) -> Result<(), Reply> {
    match place.replace(option) {
        None => Ok(()),
        Some(_) => Err(syntax_error()),
    }
}

fn condition(arguments: &mut Arguments<'_>) -> Result<Option<Only>, Reply> {
    Ok(Some(if arguments.take("NX") {
        Only::Absent
    } else if arguments.take("XX") {
        Only::Present
    } else if arguments.take("IFEQ") {
        Only::Equals(Value::from_text(arguments.word()?))
    } else if arguments.take("IFNE") {
        Only::Differs(Value::from_text(arguments.word()?))
    } else {
        return Ok(None);
    }))
}

/// Consumes `EX`, `PX`, `EXAT` or `PXAT`, if one of them is next.
fn expiry_form(arguments: &mut Arguments<'_>) -> Option<(Unit, Clock)> {
    if arguments.take("EX") {
        Some((Unit::Seconds, Clock::FromNow))
    } else if arguments.take("PX") {
        Some((Unit::Millis, Clock::FromNow))
    } else if arguments.take("EXAT") {
        Some((Unit::Seconds, Clock::Unix))
    } else if arguments.take("PXAT") {
        Some((Unit::Millis, Clock::Unix))
    } else {
        None
    }
}

/// Converts an expiry, which must be positive.
fn positive_expiry(n: i64, unit: Unit, clock: Clock, command: &str) -> Result<Ttl, Reply> {
    let ttl = if n > 0 { expiry(n, unit, clock) } else { None };
    ttl.ok_or_else(|| invalid_time(command))
}

fn set(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let value = Value::from_text(arguments.word()?);
    let options = SetOptions::read(&mut arguments)?;
    let only = options.only.unwrap_or_default();
    let ttl = options.ttl.unwrap_or_default();
    if matches!(only, Only::Always) && !options.get {
        return Ok(Plan::one(StringCommand::Put { name, value, ttl }, redis(ok)));
    }
    Ok(if options.get {
        Plan::one(StringCommand::Swap { name, value, only, ttl }, redis(old))
    } else {
        Plan::one(StringCommand::Set { name, value, only, ttl }, redis(ok_or_nil))
    })
}

fn ok(_: Answers, _: Stamp) -> Reply {
    OK
}

fn ok_or_nil(answers: Answers, _: Stamp) -> Reply {
    match only_replaced(answers) {
        Some((true, _)) => OK,
        Some((false, _)) => Reply::Nil,
        None => unexpected(),
    }
}

fn old(answers: Answers, _: Stamp) -> Reply {
    match only_replaced(answers) {
        Some((_, old)) => Reply::maybe(old.map(Reply::value)),
        None => unexpected(),
    }
}

fn only_replaced(answers: Answers) -> Option<(bool, Option<Value>)> {
    match only(answers)? {
        Answer::Replaced { did, old } => Some((did, old)),
        _ => None,
    }
}

fn replaced_did(answers: Answers, _: Stamp) -> Reply {
    match only_replaced(answers) {
        Some((did, _)) => Reply::Int(did.into()),
        None => unexpected(),
    }
}

fn getset(words: &[&[u8]]) -> Result<Plan, Reply> {
    let name = name(words[1])?;
    let value = Value::from_text(words[2]);
    let only = Only::Always;
    let ttl = Ttl::Clear;
    Ok(Plan::one(StringCommand::Swap { name, value, only, ttl }, redis(old)))
}

fn setnx(words: &[&[u8]]) -> Result<Plan, Reply> {
    let name = name(words[1])?;
    let value = Value::from_text(words[2]);
    let only = Only::Absent;
    let ttl = Ttl::Clear;
    Ok(Plan::one(StringCommand::Set { name, value, only, ttl }, redis(replaced_did)))
}

fn setex(words: &[&[u8]]) -> Result<Plan, Reply> {
    set_for(words, Unit::Seconds, "setex")
}

fn psetex(words: &[&[u8]]) -> Result<Plan, Reply> {
    set_for(words, Unit::Millis, "psetex")
}

fn set_for(words: &[&[u8]], unit: Unit, command: &str) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let ttl = positive_expiry(arguments.whole()?, unit, Clock::FromNow, command)?;
    let value = Value::from_text(arguments.word()?);
    Ok(Plan::one(StringCommand::Put { name, value, ttl }, redis(ok)))
}

fn getdel(words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(StringCommand::Take { name: name(words[1])? }, redis(old)))
}

fn getex(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    if arguments.left() == 0 {
        return Ok(Plan::one(StringCommand::Get { name }, redis(value)));
    }
    if arguments.take("PERSIST") {
        arguments.end()?;
        return Ok(Plan::one(StringCommand::Touch { name, ttl: Ttl::Clear }, redis(old)));
    }
    let (unit, clock) = expiry_form(&mut arguments).ok_or_else(syntax_error)?;
    let time = arguments.word()?;
    arguments.end()?;
    // Redis reads the key first, so an invalid time is no error for a missing key.
    let get = |name| StringCommand::Get { name };
    let Some(n) = whole(time) else {
        return Ok(Plan::one(get(name), redis(there_is_no_such_number)));
    };
    Ok(match positive_expiry(n, unit, clock, "getex") {
        Ok(ttl) => Plan::one(StringCommand::Touch { name, ttl }, redis(old)),
        Err(_) => Plan::one(get(name), redis(there_is_no_such_time)),
    })
}

fn there_is_no_such_number(answers: Answers, _: Stamp) -> Reply {
    if_there(answers, not_an_integer)
}

fn there_is_no_such_time(answers: Answers, _: Stamp) -> Reply {
    if_there(answers, || invalid_time("getex"))
}

/// Returns the error if the key exists, otherwise nil.
fn if_there(answers: Answers, failure: impl FnOnce() -> Reply) -> Reply {
    match only(answers) {
        Some(Answer::Cell(Some(_))) => failure(),
        Some(Answer::Cell(None)) => Reply::Nil,
        _ => unexpected(),
    }
}

/// Reads only cells: a key that holds a record gives nil.
fn mget(words: &[&[u8]]) -> Result<Plan, Reply> {
    let commands: Vec<_> = words[1..]
        .iter()
        .map(|word| Ok(CellCommand::Get { name: name(word)? }))
        .collect::<Result<_, Reply>>()?;
    Ok(Plan::all(commands, Shape::ours(values)))
}

fn values(answers: Answers, _: Stamp) -> Reply {
    let value = |answer| match answer {
        Answer::Cell(cell) => Reply::maybe(cell.map(|cell| Reply::value(cell.value))),
        _ => unexpected(),
    };
    Reply::Array(answers.into_iter().map(value).collect())
}

fn mset(words: &[&[u8]]) -> Result<Plan, Reply> {
    let command = StringCommand::SetAll { pairs: pairs(words, "mset")?, only_absent: false };
    Ok(Plan::one(command, redis(ok)))
}

fn msetnx(words: &[&[u8]]) -> Result<Plan, Reply> {
    let command = StringCommand::SetAll { pairs: pairs(words, "msetnx")?, only_absent: true };
    Ok(Plan::one(command, redis(did)))
}

fn pairs(words: &[&[u8]], command: &str) -> Result<Vec<(Name, Value)>, Reply> {
    let (pairs, []) = words[1..].as_chunks::<2>() else { return Err(wrong_arity(command)) };
    pairs.iter().map(|[key, value]| Ok((name(key)?, Value::from_text(value)))).collect()
}

fn incr(words: &[&[u8]]) -> Result<Plan, Reply> {
    add(words[1], 1)
}

fn decr(words: &[&[u8]]) -> Result<Plan, Reply> {
    add(words[1], -1)
}

fn incrby(words: &[&[u8]]) -> Result<Plan, Reply> {
    let by = Arguments::behind(&words[1..]).whole()?;
    add(words[1], by)
}

fn decrby(words: &[&[u8]]) -> Result<Plan, Reply> {
    let by = Arguments::behind(&words[1..]).whole()?;
    let by = by.checked_neg().ok_or_else(|| Reply::error("ERR decrement would overflow"))?;
    add(words[1], by)
}

fn add(key: &[u8], by: i64) -> Result<Plan, Reply> {
    Ok(Plan::one(StringCommand::Add { name: name(key)?, by }, redis(whole_sum)))
}

fn whole_sum(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Number { value: Value::Int(n), .. }) => Reply::Int(n),
        _ => unexpected(),
    }
}

fn incrbyfloat(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let by =
        arguments.text().map_err(|_| Reply::error("ERR value is not a valid float"))?.to_owned();
    let shape = Shape::with(sum, float_words);
    Ok(Plan::one(StringCommand::AddFloat { name, by }, shape))
}

fn sum(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Number { value, .. }) => Reply::value(value),
        _ => unexpected(),
    }
}

fn append(words: &[&[u8]]) -> Result<Plan, Reply> {
    let command = StringCommand::Append { name: name(words[1])?, text: words[2].to_vec() };
    Ok(Plan::one(command, redis(length)))
}

fn length(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Count(bytes)) => Reply::number(bytes),
        _ => unexpected(),
    }
}

fn strlen(words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(StringCommand::Get { name: name(words[1])? }, redis(value_length)))
}

fn value_length(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Cell(cell)) => {
            Reply::number(cell.map_or(0, |cell| cell.value.as_text().len() as u64))
        }
        _ => unexpected(),
    }
}
