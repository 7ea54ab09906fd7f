//! Redis hashes on top of records: `HSET`, `HGETALL` and others, with the semantics and error texts of
//! Redis.
//!
//! Fields are returned in the order of their names. `HSCAN` orders them by hash instead. Its cursor is then
//! a number, and fields that are added or removed meanwhile do not move other fields.

use super::cells::changed;
use crate::resp::arguments::{Arguments, name, not_an_integer, syntax_error, wrong_type};
use crate::resp::glob::Pattern;
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, unexpected_answer};
use crate::resp::reply::{OK, Reply};
use crate::resp::table::{Group, Handler, Spec, wrong_arity};
use mainstay::limits::ANSWERS_LIMIT_BYTES;
use mainstay::{Answer, Code, Error, Field, Fields, HashCommand, Stamp};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The default `COUNT` of `HSCAN`.
const SCAN_COUNT: usize = 10;
/// With more fields than this, the whole record is read instead of single fields.
const FEW_FIELDS: usize = 64;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    write("hset", -4, hset)
        .syntax("key field value [field value ...]")
        .summarize("Sets fields; how many are new"),
    write("hmset", -4, hmset).syntax("key field value [field value ...]").summarize("Sets fields"),
    write("hsetnx", 4, hsetnx)
        .syntax("key field value")
        .summarize("Sets a field unless it is there"),
    write("hdel", -3, hdel)
        .syntax("key field [field ...]")
        .summarize("Deletes fields; how many there were"),
    write("hincrby", 4, hincrby).syntax("key field by").summarize("Adds a whole number to a field"),
    write("hincrbyfloat", 4, hincrbyfloat)
        .syntax("key field by")
        .summarize("Adds a number to a field"),
    read("hget", 3, hget).syntax("key field").summarize("The value of a field"),
    read("hmget", -3, hmget)
        .syntax("key field [field ...]")
        .summarize("The values of several fields"),
    read("hgetall", 2, hgetall).syntax("key").summarize("All fields and their values"),
    read("hkeys", 2, hkeys).syntax("key").summarize("All fields"),
    read("hvals", 2, hvals).syntax("key").summarize("All values"),
    read("hlen", 2, hlen).syntax("key").summarize("How many fields there are"),
    read("hexists", 3, hexists).syntax("key field").summarize("Whether there is a field"),
    read("hstrlen", 3, hstrlen).syntax("key field").summarize("The length of a field's value"),
    read("hrandfield", -2, hrandfield)
        .syntax("key [count [WITHVALUES]]")
        .summarize("Some fields; with a negative count one may come twice"),
    read("hscan", -3, hscan)
        .syntax("key cursor [MATCH pattern] [COUNT n]")
        .summarize("Fields and their values, piece by piece"),
];

/// A function that makes a plan.
type Planner = fn(&[&[u8]]) -> Result<Plan, Reply>;

const fn read(name: &'static str, arity: i32, plan: Planner) -> Spec {
    Spec::new(name, arity, Group::Hashes, Handler::Plan(plan)).keys(1, 1, 1)
}

const fn write(name: &'static str, arity: i32, plan: Planner) -> Spec {
    read(name, arity, plan).writes()
}

/// Returns the error of Redis for fields that are no integers, and for keys of another type.
fn redis_errors(error: Error) -> Reply {
    match error.code() {
        Code::WrongType => wrong_type(),
        Code::NotANumber => Reply::error("ERR hash value is not an integer"),
        Code::Overflow => Reply::error("ERR increment or decrement would overflow"),
        _ => error.into(),
    }
}

fn float_errors(error: Error) -> Reply {
    match error.code() {
        Code::NotANumber => Reply::error("ERR hash value is not a float"),
        Code::Overflow => Reply::error("ERR increment would produce NaN or Infinity"),
        _ => redis_errors(error),
    }
}

const fn with_redis_errors(reply: fn(Answers, Stamp) -> Reply) -> ReplyFormat {
    ReplyFormat::with_errors(reply, redis_errors)
}

fn hset(words: &[&[u8]]) -> Result<Plan, Reply> {
    set(words, "hset", false, with_redis_errors(count))
}

fn hmset(words: &[&[u8]]) -> Result<Plan, Reply> {
    set(words, "hmset", false, with_redis_errors(|_, _| OK))
}

fn hsetnx(words: &[&[u8]]) -> Result<Plan, Reply> {
    set(words, "hsetnx", true, with_redis_errors(changed))
}

fn set(
    words: &[&[u8]],
    command: &str,
    only_absent: bool,
    shape: ReplyFormat,
) -> Result<Plan, Reply> {
    let (pairs, []) = words[2..].as_chunks::<2>() else { return Err(wrong_arity(command)) };
    let pairs = pairs
        .iter()
        .map(|[field, value]| Ok((Field::new(field)?, value.to_vec())))
        .collect::<Result<_, Reply>>()?;
    Ok(Plan::one(HashCommand::Set { key: name(words[1])?, pairs, only_absent }, shape))
}

fn count(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Count(count)) => Reply::number(count),
        _ => unexpected_answer(),
    }
}

fn fields(words: &[&[u8]]) -> Result<Vec<Field>, Reply> {
    words.iter().map(|word| Ok(Field::new(word)?)).collect()
}

fn hdel(words: &[&[u8]]) -> Result<Plan, Reply> {
    let command = HashCommand::Delete { key: name(words[1])?, fields: fields(&words[2..])? };
    Ok(Plan::one(command, with_redis_errors(count)))
}

fn hincrby(words: &[&[u8]]) -> Result<Plan, Reply> {
    let by = Arguments::after_first(&words[2..]).integer()?;
    let command = HashCommand::Add { key: name(words[1])?, field: Field::new(words[2])?, by };
    Ok(Plan::one(command, with_redis_errors(integer_sum)))
}

fn integer_sum(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Sum(sum)) => sum.parse().map_or_else(|_| unexpected_answer(), Reply::Int),
        _ => unexpected_answer(),
    }
}

fn hincrbyfloat(words: &[&[u8]]) -> Result<Plan, Reply> {
    let key = name(words[1])?;
    let field = Field::new(words[2])?;
    let by = float(words[3])?;
    let command = HashCommand::AddFloat { key, field, by };
    Ok(Plan::one(command, ReplyFormat::with_errors(sum, float_errors)))
}

/// Checks the increment and returns its text unchanged.
fn float(word: &[u8]) -> Result<String, Reply> {
    let not_a_float = || Reply::error("ERR value is not a valid float");
    let text = std::str::from_utf8(word).map_err(|_| not_a_float())?;
    match text.parse::<f64>() {
        Ok(n) if n.is_nan() => Err(not_a_float()),
        Ok(n) if n.is_infinite() => Err(Reply::error("ERR value is NaN or Infinity")),
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(not_a_float()),
    }
}

fn sum(answers: Answers, _: Stamp) -> Reply {
    match single(answers) {
        Some(Answer::Sum(sum)) => Reply::text(sum),
        _ => unexpected_answer(),
    }
}

/// Creates a plan that reads one field.
fn one_field(words: &[&[u8]], reply: fn(Answers, Stamp) -> Reply) -> Result<Plan, Reply> {
    let fields = Some(fields(&words[2..3])?);
    Ok(Plan::one(HashCommand::Get { key: name(words[1])?, fields }, with_redis_errors(reply)))
}

fn all_fields(words: &[&[u8]], shape: ReplyFormat) -> Result<Plan, Reply> {
    Ok(Plan::one(HashCommand::Get { key: name(words[1])?, fields: None }, shape))
}

/// Returns the fields of the answer, or no fields if the record does not exist.
fn fields_of_answer(answers: Answers) -> Result<Fields, Reply> {
    match single(answers) {
        Some(Answer::Record(record)) => Ok(record.map(|it| it.fields).unwrap_or_default()),
        _ => Err(unexpected_answer()),
    }
}

/// Makes a reply from the fields of the answer.
fn reply_from_fields(answers: Answers, reply: impl FnOnce(Fields) -> Reply) -> Reply {
    fields_of_answer(answers).map_or_else(|reply| reply, reply)
}

fn single_value(fields: Fields) -> Option<Vec<u8>> {
    fields.into_iter().next().map(|(_, value)| value)
}

fn hget(words: &[&[u8]]) -> Result<Plan, Reply> {
    one_field(words, |answers, _| {
        reply_from_fields(answers, |fields| Reply::maybe(single_value(fields).map(Reply::Bulk)))
    })
}

fn hexists(words: &[&[u8]]) -> Result<Plan, Reply> {
    one_field(words, |answers, _| {
        reply_from_fields(answers, |it| Reply::Int((!it.is_empty()).into()))
    })
}

fn hstrlen(words: &[&[u8]]) -> Result<Plan, Reply> {
    one_field(words, |answers, _| {
        let length = |fields| single_value(fields).map_or(0, |value| value.len() as u64);
        reply_from_fields(answers, |fields| Reply::number(length(fields)))
    })
}

fn hmget(words: &[&[u8]]) -> Result<Plan, Reply> {
    let requested = fields(&words[2..])?;
    let fields = (requested.len() <= FEW_FIELDS).then(|| requested.clone());
    let reply = move |answers: Answers, _: Stamp| {
        reply_from_fields(answers, |fields| {
            Reply::Array(
                requested
                    .iter()
                    .map(|field| Reply::maybe(fields.get(field.as_bytes()).map(Reply::text)))
                    .collect(),
            )
        })
    };
    let shape = ReplyFormat::closure(reply, redis_errors);
    Ok(Plan::one(HashCommand::Get { key: name(words[1])?, fields }, shape))
}

fn pair((field, value): (Field, Vec<u8>)) -> (Reply, Reply) {
    (Reply::text(field.as_bytes()), Reply::Bulk(value))
}

fn hgetall(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_integer(words, |fields| Reply::Map(fields.into_iter().map(pair).collect()))
}

fn hkeys(words: &[&[u8]]) -> Result<Plan, Reply> {
    parse_integer(words, |fields| Reply::texts(fields.iter().map(|(field, _)| field.as_bytes())))
}

fn hvals(words: &[&[u8]]) -> Result<Plan, Reply> {
    let value = |(_, value): (Field, Vec<u8>)| Reply::Bulk(value);
    parse_integer(words, move |fields| Reply::Array(fields.into_iter().map(value).collect()))
}

fn hlen(words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(HashCommand::Count { key: name(words[1])? }, with_redis_errors(count)))
}

/// Creates a plan whose reply uses all fields.
fn parse_integer(
    words: &[&[u8]],
    reply: impl Fn(Fields) -> Reply + Send + Sync + 'static,
) -> Result<Plan, Reply> {
    all_fields(
        words,
        ReplyFormat::closure(move |answers, _| reply_from_fields(answers, &reply), redis_errors),
    )
}

fn hrandfield(words: &[&[u8]]) -> Result<Plan, Reply> {
    let Some(word) = words.get(2) else { return at_random(words, one_at_random) };
    let count = crate::resp::request::parse_integer(word).ok_or_else(not_an_integer)?;
    if count == i64::MIN {
        let most = i64::MAX;
        let message = format!("ERR value is out of range, value must between -{most} and {most}");
        return Err(Reply::error(message));
    }
    let with_values = match &words[3..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"WITHVALUES") => true,
        _ => return Err(syntax_error()),
    };
    if with_values && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(Reply::error("ERR value is out of range"));
    }
    at_random(words, move |fields, rng| several_at_random(fields, count, with_values, rng))
}

/// Creates a plan whose reply uses random fields.
fn at_random(
    words: &[&[u8]],
    reply: impl Fn(Fields, FieldRng) -> Reply + Send + Sync + 'static,
) -> Result<Plan, Reply> {
    let reply = move |answers: Answers, seed: u64| {
        reply_from_fields(answers, |fields| reply(fields, FieldRng(seed)))
    };
    all_fields(words, ReplyFormat::random(reply, redis_errors))
}

fn one_at_random(fields: Fields, mut rng: FieldRng) -> Reply {
    match fields.len() {
        0 => Reply::Nil,
        count => {
            let position = rng.below(count);
            Reply::maybe(
                fields.iter().nth(position).map(|(field, _)| Reply::text(field.as_bytes())),
            )
        }
    }
}

/// Returns `count` distinct fields. With a negative count, returns that many fields, which may repeat.
fn several_at_random(fields: Fields, count: i64, with_values: bool, mut rng: FieldRng) -> Reply {
    let wanted_count = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let mut all: Vec<(Field, Vec<u8>)> = fields.into_iter().collect();
    if count >= 0 || all.is_empty() {
        let wanted_count = wanted_count.min(all.len());
        for position in 0..wanted_count {
            let other = position + rng.below(all.len() - position);
            all.swap(position, other);
        }
        all.truncate(wanted_count);
        return fields_reply(all, with_values);
    }
    let largest_bytes = all
        .iter()
        .map(|(field, value)| field.as_bytes().len() + value.len() + 64)
        .max()
        .unwrap_or_default();
    if wanted_count.saturating_mul(largest_bytes) > ANSWERS_LIMIT_BYTES {
        let limit = ANSWERS_LIMIT_BYTES >> 20;
        let message = format!("TOOLARGE so many fields take more than {limit} MiB: ask for fewer");
        return Reply::error(message);
    }
    let picked = (0..wanted_count).map(|_| all[rng.below(all.len())].clone());
    fields_reply(picked.collect(), with_values)
}

fn fields_reply(fields: Vec<(Field, Vec<u8>)>, with_values: bool) -> Reply {
    if with_values {
        Reply::Pairs(fields.into_iter().map(pair).collect())
    } else {
        Reply::texts(fields.iter().map(|(field, _)| field.as_bytes()))
    }
}

/// A pseudo-random generator for picking fields.
struct FieldRng(u64);

impl FieldRng {
    /// Returns a number below `limit`, which must not be 0.
    fn below(&mut self, limit: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

/// The options of `HSCAN`.
struct HashScanOptions {
    pattern: Option<Pattern>,
    count: usize,
}

impl HashScanOptions {
    fn read(words: &[&[u8]]) -> Result<HashScanOptions, Reply> {
        let mut arguments = Arguments::after_first(words);
        let mut scan = HashScanOptions { pattern: None, count: SCAN_COUNT };
        while arguments.remaining() > 0 {
            if arguments.take_keyword("MATCH") {
                scan.pattern = Some(Pattern::new(arguments.word()?)?);
            } else if arguments.take_keyword("COUNT") {
                let word = usize::try_from(arguments.integer()?).ok();
                scan.count = word.filter(|n| *n > 0).ok_or_else(syntax_error)?;
            } else {
                return Err(syntax_error());
            }
        }
        Ok(scan)
    }
}

fn hscan(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::after_first(&words[1..]);
    let cursor = arguments.count().map_err(|_| Reply::error("ERR invalid cursor"))?;
    // Redis reads the key first, so invalid options are no error for a missing key.
    let scan = HashScanOptions::read(&words[2..]);
    let pattern = scan.as_ref().ok().and_then(|scan| scan.pattern.as_ref());
    let pattern_bytes = pattern.map_or(0, Pattern::bytes);
    let plan = parse_integer(words, move |fields| match &scan {
        _ if fields.is_empty() => scan_reply(0, Vec::new()),
        Ok(scan) => scan_page(fields, cursor, scan),
        Err(reply) => reply.clone(),
    })?;
    Ok(plan.with_pattern_bytes(pattern_bytes))
}

/// Returns `count` fields from the cursor on, plus further fields with the same position as the last one.
fn scan_page(fields: Fields, cursor: u64, scan: &HashScanOptions) -> Reply {
    let positioned = fields.into_iter().map(|(field, value)| (scan_position(&field), field, value));
    let mut positioned: Vec<_> = positioned.filter(|(position, ..)| *position >= cursor).collect();
    positioned.sort_unstable_by_key(|(position, ..)| *position);
    let end = positioned.get(scan.count - 1).map_or(u64::MAX, |(last, ..)| last + 1);
    let next = positioned.iter().map(|(position, ..)| *position).find(|position| *position >= end);
    let selected = positioned.into_iter().take_while(|(position, ..)| *position < end);
    let glob = scan.pattern.as_ref().map(Pattern::compile);
    let matches = |field: &Field| glob.as_ref().is_none_or(|glob| glob.matches(field.as_bytes()));
    let matching = selected.filter(|(_, field, _)| matches(field));
    scan_reply(next.unwrap_or(0), matching.map(|(_, field, value)| (field, value)).collect())
}

fn scan_reply(next: u64, fields: Vec<(Field, Vec<u8>)>) -> Reply {
    let words = fields.into_iter().map(pair).flat_map(|(field, value)| [field, value]);
    Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(words.collect())])
}

/// Returns the position of a field in a scan. It is above 0, and small enough for clients that store
/// numbers as floats.
fn scan_position(field: &Field) -> u64 {
    let mut hasher = DefaultHasher::new();
    field.as_bytes().hash(&mut hasher);
    (hasher.finish() >> 12) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(count: usize) -> Fields {
        Fields::of((0..count).map(|n| (format!("f{n}"), n.to_string()))).unwrap()
    }

    fn words(reply: &Reply) -> (u64, Vec<String>) {
        let text = |reply: &Reply| match reply {
            Reply::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            other => panic!("{other:?} is no text"),
        };
        let Reply::Array(parts) = reply else { panic!("{reply:?} is no list") };
        let Reply::Array(words) = &parts[1] else { panic!("{reply:?} is no piece") };
        let fields = words.iter().step_by(2).map(text).collect();
        (text(&parts[0]).parse().unwrap(), fields)
    }

    #[test]
    fn a_scan_gives_what_stays_once_whatever_comes_and_goes() {
        let mut fields = record(100);
        let mut cursor = 0;
        let mut returned = Vec::new();
        let scan = HashScanOptions { pattern: None, count: 7 };
        for round in 0.. {
            let (next, names) = words(&scan_page(fields.clone(), cursor, &scan));
            assert!(names.len() <= 7);
            returned.extend(names);
            // The fields with even numbers stay.
            fields.remove(&Field::new(format!("f{}", 2 * round + 1)).unwrap());
            fields.insert(Field::new(format!("new{round}")).unwrap(), Vec::new());
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        for n in (0..100).step_by(2) {
            let field = format!("f{n}");
            assert_eq!(returned.iter().filter(|it| **it == field).count(), 1, "{field}");
        }
    }

    #[test]
    fn chance_gives_each_field_once_or_as_often_as_told() {
        let lengths = |count, pairs| match several_at_random(record(5), count, pairs, FieldRng(7)) {
            Reply::Array(items) => items.len(),
            Reply::Pairs(pairs) => 2 * pairs.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!((lengths(3, false), lengths(9, false), lengths(0, false)), (3, 5, 0));
        assert_eq!((lengths(-9, false), lengths(-9, true), lengths(2, true)), (9, 18, 4));
        let Reply::Array(mut all) = several_at_random(record(5), 5, false, FieldRng(7)) else {
            panic!()
        };
        all.sort_by_key(|reply| format!("{reply:?}"));
        all.dedup();
        assert_eq!(all.len(), 5);
        assert!(
            several_at_random(record(5), -i64::MAX, false, FieldRng(7)).is_error(),
            "too much at once"
        );
        assert_eq!(
            several_at_random(Fields::default(), -3, false, FieldRng(7)),
            Reply::Array(Vec::new())
        );
    }
}
