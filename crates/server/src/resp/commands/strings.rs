//! Redis strings on top of cells: `GET`, `SET` and others, with the semantics and error texts of Redis.

use super::cells::{changed, value};
use super::expiry::{Clock, Unit, expiry, invalid_time};
use crate::resp::arguments::{Arguments, name, not_an_integer, syntax_error, wrong_type};
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::{OK, Reply};
use crate::resp::request::parse_integer;
use crate::resp::table::{Group, Handler, Spec, wrong_arity};
use mainstay::{Answer, CellCommand, Code, Error, Name, Only, Stamp, StringCommand, Ttl, Value};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    read("get", 2, get).keys(1, 1, 1).syntax("key").summarize("The value of a key"),
    write("set", -3, set)
        .syntax(
            "key value [NX | XX | IFEQ value | IFNE value] [GET] \
             [EX seconds | PX ms | EXAT unix-seconds | PXAT unix-ms | KEEPTTL]",
        )
        .summarize("Sets a key, perhaps only if, perhaps for a time"),
    write("getset", 3, getset).syntax("key value").summarize("Sets a key; the value before"),
    write("getdel", 2, getdel).syntax("key").summarize("Deletes a key; its value"),
    write("getex", -2, getex)
        .syntax("key [EX seconds | PX ms | EXAT unix-seconds | PXAT unix-ms | PERSIST]")
        .summarize("The value of a key, and another time to live"),
    write("setex", 4, setex)
        .syntax("key seconds value")
        .summarize("Sets a key for so many seconds"),
    write("psetex", 4, psetex)
        .syntax("key ms value")
        .summarize("Sets a key for so many milliseconds"),
    write("setnx", 3, setnx).syntax("key value").summarize("Sets a key unless it is there"),
    read("mget", -2, mget)
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .summarize("The values of several keys"),
    write("mset", -3, mset)
        .keys(1, -1, 2)
        .syntax("key value [key value ...]")
        .summarize("Sets several keys"),
    write("msetnx", -3, msetnx)
        .keys(1, -1, 2)
        .syntax("key value [key value ...]")
        .summarize("Sets several keys unless one is there"),
    write("incr", 2, incr).syntax("key").summarize("Adds one"),
    write("decr", 2, decr).syntax("key").summarize("Subtracts one"),
    write("incrby", 3, incrby).syntax("key by").summarize("Adds a whole number"),
    write("decrby", 3, decrby).syntax("key by").summarize("Subtracts a whole number"),
    write("incrbyfloat", 3, incrbyfloat).syntax("key by").summarize("Adds a number"),
    write("append", 3, append)
        .syntax("key text")
        .summarize("Puts text behind the value; its length"),
    read("strlen", 2, strlen).keys(1, 1, 1).syntax("key").summarize("The length of a value"),
];

/// A function that makes a plan.
type Planner = fn(&[&[u8]]) -> Result<Plan, Reply>;

const fn read(name: &'static str, arity: i32, plan: Planner) -> Spec {
    Spec::new(name, arity, Group::Strings, Handler::Plan(plan))
}

const fn write(name: &'static str, arity: i32, plan: Planner) -> Spec {
    read(name, arity, plan).writes().keys(1, 1, 1)
}

/// Creates a shape with the error texts of Redis.
const fn with_redis_errors(reply: fn(Answers, Stamp) -> Reply) -> ReplyFormat {
    ReplyFormat::with_errors(reply, redis_errors)
}

/// Returns the error of Redis for invalid numbers and for keys of another type.
fn redis_errors(error: Error) -> Reply {
    match error.code() {
        Code::WrongType => wrong_type(),
        Code::NotANumber => not_an_integer(),
        Code::Overflow => Reply::error("ERR increment or decrement would overflow"),
        _ => error.into(),
    }
}

fn float_errors(error: Error) -> Reply {
    match error.code() {
        Code::NotANumber => Reply::error("ERR value is not a valid float"),
        Code::Overflow => Reply::error("ERR increment would produce NaN or Infinity"),
        Code::WrongType => wrong_type(),
        _ => error.into(),
    }
}

fn get(words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(StringCommand::Get { name: name(words[1])? }, with_redis_errors(value)))
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
        while arguments.remaining() > 0 {
            options.read_one(arguments)?;
        }
        Ok(options)
    }

    fn read_one(&mut self, arguments: &mut Arguments<'_>) -> Result<(), Reply> {
        if arguments.take_keyword("GET") {
            self.get = true;
            return Ok(());
        }
        if let Some(only) = condition(arguments)? {
            return set_once(&mut self.only, only);
        }
        let ttl = if arguments.take_keyword("KEEPTTL") {
            Ttl::Keep
        } else {
            let (unit, clock) = expiry_form(arguments).ok_or_else(syntax_error)?;
            positive_expiry(arguments.integer()?, unit, clock, "set")?
        };
        set_once(&mut self.ttl, ttl)
    }
}

/// Sets an option that may be given once.
fn set_once<T>(slot: &mut Option<T>, option: T) -> Result<(), Reply> {
    match slot.replace(option) {
        None => Ok(()),
        Some(_) => Err(syntax_error()),
    }
}

fn condition(arguments: &mut Arguments<'_>) -> Result<Option<Only>, Reply> {
    Ok(Some(if arguments.take_keyword("NX") {
        Only::Absent
    } else if arguments.take_keyword("XX") {
        Only::Present
    } else if arguments.take_keyword("IFEQ") {
        Only::Equals(Value::from_text(arguments.word()?))
    } else if arguments.take_keyword("IFNE") {
        Only::Differs(Value::from_text(arguments.word()?))
    } else {
        return Ok(None);
    }))
}

/// Consumes `EX`, `PX`, `EXAT` or `PXAT`, if one of them is next.
fn expiry_form(arguments: &mut Arguments<'_>) -> Option<(Unit, Clock)> {
    if arguments.take_keyword("EX") {
        Some((Unit::Seconds, Clock::FromNow))
    } else if arguments.take_keyword("PX") {
        Some((Unit::Millis, Clock::FromNow))
    } else if arguments.take_keyword("EXAT") {
        Some((Unit::Seconds, Clock::Unix))
    } else if arguments.take_keyword("PXAT") {
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
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let value = Value::from_text(arguments.word()?);
    let options = SetOptions::read(&mut arguments)?;
    let only = options.only.unwrap_or_default();
    let ttl = options.ttl.unwrap_or_default();
    if matches!(only, Only::Always) && !options.get {
        return Ok(Plan::one(StringCommand::Put { name, value, ttl }, with_redis_errors(ok)));
    }
    Ok(if options.get {
        Plan::one(StringCommand::Swap { name, value, only, ttl }, with_redis_errors(previous_value))
    } else {
        Plan::one(StringCommand::Set { name, value, only, ttl }, with_redis_errors(ok_or_nil))
    })
}

fn ok(_: Answers, _: Stamp) -> Reply {
    OK
}

fn ok_or_nil(answers: Answers, _: Stamp) -> Reply {
    match replaced_answer(answers) {
        Some((true, _)) => OK,
        Some((false, _)) => Reply::Nil,
        None => unexpected_answer(),
    }
}

fn previous_value(answers: Answers, _: Stamp) -> Reply {
    match replaced_answer(answers) {
        Some((_, old)) => Reply::maybe(old.map(Reply::value)),
        None => unexpected_answer(),
    }
}

fn replaced_answer(answers: Answers) -> Option<(bool, Option<Value>)> {
    match single(answers)? {
        Answer::Replaced { did, old } => Some((did, old)),
        _ => None,
    }
}

fn was_replaced(answers: Answers, _: Stamp) -> Reply {
    match replaced_answer(answers) {
        Some((did, _)) => Reply::Int(did.into()),
        None => unexpected_answer(),
    }
}

fn getset(words: &[&[u8]]) -> Result<Plan, Reply> {
    let name = name(words[1])?;
    let value = Value::from_text(words[2]);
    let only = Only::Always;
    let ttl = Ttl::Clear;
    Ok(Plan::one(StringCommand::Swap { name, value, only, ttl }, with_redis_errors(previous_value)))
}

fn setnx(words: &[&[u8]]) -> Result<Plan, Reply> {
    let name = name(words[1])?;
    let value = Value::from_text(words[2]);
    let only = Only::Absent;
    let ttl = Ttl::Clear;
    Ok(Plan::one(StringCommand::Set { name, value, only, ttl }, with_redis_errors(was_replaced)))
}

fn setex(words: &[&[u8]]) -> Result<Plan, Reply> {
    set_for(words, Unit::Seconds, "setex")
}

fn psetex(words: &[&[u8]]) -> Result<Plan, Reply> {
    set_for(words, Unit::Millis, "psetex")
}

fn set_for(words: &[&[u8]], unit: Unit, command: &str) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let ttl = positive_expiry(arguments.integer()?, unit, Clock::FromNow, command)?;
    let value = Value::from_text(arguments.word()?);
    Ok(Plan::one(StringCommand::Put { name, value, ttl }, with_redis_errors(ok)))
}

fn getdel(words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(StringCommand::Take { name: name(words[1])? }, with_redis_errors(previous_value)))
}

fn getex(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    if arguments.remaining() == 0 {
        return Ok(Plan::one(StringCommand::Get { name }, with_redis_errors(value)));
    }
    if arguments.take_keyword("PERSIST") {
        arguments.end()?;
        return Ok(Plan::one(
            StringCommand::Touch { name, ttl: Ttl::Clear },
            with_redis_errors(previous_value),
        ));
    }
    let (unit, clock) = expiry_form(&mut arguments).ok_or_else(syntax_error)?;
    let time = arguments.word()?;
    arguments.end()?;
    // Redis reads the key first, so an invalid time is no error for a missing key.
    let get = |name| StringCommand::Get { name };
    let Some(n) = parse_integer(time) else {
        return Ok(Plan::one(get(name), with_redis_errors(not_an_integer_if_present)));
    };
    Ok(match positive_expiry(n, unit, clock, "getex") {
        Ok(ttl) => Plan::one(StringCommand::Touch { name, ttl }, with_redis_errors(previous_value)),
        Err(_) => Plan::one(get(name), with_redis_errors(invalid_time_if_present)),
    })
}

fn not_an_integer_if_present(answers: Answers, _: Stamp) -> Reply {
    error_if_present(answers, not_an_integer)
}

fn invalid_time_if_present(answers: Answers, _: Stamp) -> Reply {
    error_if_present(answers, || invalid_time("getex"))
}

/// Returns the error if the key exists, otherwise nil.
fn error_if_present(answers: Answers, failure: impl FnOnce() -> Reply) -> Reply {
    match single(answers) {
        Some(Answer::Cell(Some(_))) => failure(),
        Some(Answer::Cell(None)) => Reply::Nil,
        _ => unexpected_answer(),
    }
}

/// Reads only cells: a key that holds a record gives nil.
fn mget(words: &[&[u8]]) -> Result<Plan, Reply> {
    let commands: Vec<_> = words[1..]
        .iter()
        .map(|word| Ok(CellCommand::Get { name: name(word)? }))
        .collect::<Result<_, Reply>>()?;
    Ok(Plan::all(commands, ReplyFormat::plain(values)))
}

fn values(answers: Answers, _: Stamp) -> Reply {
    let value = |answer| match answer {
        Answer::Cell(cell) => Reply::maybe(cell.map(|cell| Reply::value(cell.value))),
        _ => unexpected_answer(),
    };
    Reply::Array(answers.into_iter().map(value).collect())
}

fn mset(words: &[&[u8]]) -> Result<Plan, Reply> {
    let command = StringCommand::SetAll { pairs: pairs(words, "mset")?, only_absent: false };
    Ok(Plan::one(command, with_redis_errors(ok)))
}

fn msetnx(words: &[&[u8]]) -> Result<Plan, Reply> {
    let command = StringCommand::SetAll { pairs: pairs(words, "msetnx")?, only_absent: true };
    Ok(Plan::one(command, with_redis_errors(changed)))
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
    let by = Arguments::after_first(&words[1..]).integer()?;
    add(words[1], by)
}

fn decrby(words: &[&[u8]]) -> Result<Plan, Reply> {
    let by = Arguments::after_first(&words[1..]).integer()?;
    let by = by.checked_neg().ok_or_else(|| Reply::error("ERR decrement would overflow"))?;
    add(words[1], by)
}

fn add(key: &[u8], by: i64) -> Result<Plan, Reply> {
    Ok(Plan::one(StringCommand::Add { name: name(key)?, by }, with_redis_errors(integer_sum)))
}

fn integer_sum(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Number { value: Value::Int(n), .. }) => Reply::Int(n),
        _ => unexpected_answer(),
    }
}

fn incrbyfloat(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let by =
        arguments.text().map_err(|_| Reply::error("ERR value is not a valid float"))?.to_owned();
    let shape = ReplyFormat::with_errors(sum, float_errors);
    Ok(Plan::one(StringCommand::AddFloat { name, by }, shape))
}

fn sum(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Number { value, .. }) => Reply::value(value),
        _ => unexpected_answer(),
    }
}

fn append(words: &[&[u8]]) -> Result<Plan, Reply> {
    let command = StringCommand::Append { name: name(words[1])?, text: words[2].to_vec() };
    Ok(Plan::one(command, with_redis_errors(length)))
}

fn length(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Count(bytes)) => Reply::number(bytes),
        _ => unexpected_answer(),
    }
}

fn strlen(words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(StringCommand::Get { name: name(words[1])? }, with_redis_errors(value_length)))
}

fn value_length(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Cell(cell)) => {
            Reply::number(cell.map_or(0, |cell| cell.value.as_text().len() as u64))
        }
        _ => unexpected_answer(),
    }
}
