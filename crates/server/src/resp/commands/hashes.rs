//! Redis hashes on top of records: `HSET`, `HGETALL` and others, with the semantics and error texts of
//! Redis.
//!
//! Fields are returned in the order of their names. `HSCAN` orders them by hash instead. Its cursor is then
//! a number, and fields that are added or removed meanwhile do not move other fields.

use super::cells::did;
use crate::resp::arguments::{Arguments, name, not_an_integer, syntax_error, wrong_type};
use crate::resp::glob::Pattern;
use crate::resp::plan::{Answers, Plan, Shape, only, unexpected};
use crate::resp::reply::{OK, Reply};
use crate::resp::table::{Group, Run, Spec, wrong_arity};
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
        .about("Sets fields; how many are new"),
    write("hmset", -4, hmset).syntax("key field value [field value ...]").about("Sets fields"),
    write("hsetnx", 4, hsetnx).syntax("key field value").about("Sets a field unless it is there"),
    write("hdel", -3, hdel)
        .syntax("key field [field ...]")
        .about("Deletes fields; how many there were"),
    write("hincrby", 4, hincrby).syntax("key field by").about("Adds a whole number to a field"),
    write("hincrbyfloat", 4, hincrbyfloat).syntax("key field by").about("Adds a number to a field"),
    read("hget", 3, hget).syntax("key field").about("The value of a field"),
    read("hmget", -3, hmget).syntax("key field [field ...]").about("The values of several fields"),
    read("hgetall", 2, hgetall).syntax("key").about("All fields and their values"),
    read("hkeys", 2, hkeys).syntax("key").about("All fields"),
    read("hvals", 2, hvals).syntax("key").about("All values"),
    read("hlen", 2, hlen).syntax("key").about("How many fields there are"),
    read("hexists", 3, hexists).syntax("key field").about("Whether there is a field"),
    read("hstrlen", 3, hstrlen).syntax("key field").about("The length of a field's value"),
    read("hrandfield", -2, hrandfield)
        .syntax("key [count [WITHVALUES]]")
        .about("Some fields; with a negative count one may come twice"),
    read("hscan", -3, hscan)
        .syntax("key cursor [MATCH pattern] [COUNT n]")
        .about("Fields and their values, piece by piece"),
];

/// A function that makes a plan.
type Planner = fn(&[&[u8]]) -> Result<Plan, Reply>;

const fn read(name: &'static str, arity: i32, plan: Planner) -> Spec {
    Spec::new(name, arity, Group::Hashes, Run::Data(plan)).keys(1, 1, 1)
}

const fn write(name: &'static str, arity: i32, plan: Planner) -> Spec {
    read(name, arity, plan).writes()
}

/// Returns the error of Redis for fields that are no integers, and for keys of another type.
fn redis_words(error: Error) -> Reply {
    match error.code() {
        Code::WrongType => wrong_type(),
        Code::NotANumber => Reply::error("ERR hash value is not an integer"),
        Code::Overflow => Reply::error("ERR increment or decrement would overflow"),
        _ => error.into(),
    }
}

fn float_words(error: Error) -> Reply {
    match error.code() {
        Code::NotANumber => Reply::error("ERR hash value is not a float"),
        Code::Overflow => Reply::error("ERR increment would produce NaN or Infinity"),
        _ => redis_words(error),
    }
}

const fn redis(reply: fn(Answers, Stamp) -> Reply) -> Shape {
    Shape::with(reply, redis_words)
}

fn hset(words: &[&[u8]]) -> Result<Plan, Reply> {
    set(words, "hset", false, redis(count))
}

fn hmset(words: &[&[u8]]) -> Result<Plan, Reply> {
    set(words, "hmset", false, redis(|_, _| OK))
}

fn hsetnx(words: &[&[u8]]) -> Result<Plan, Reply> {
    set(words, "hsetnx", true, redis(did))
}

fn set(words: &[&[u8]], command: &str, only_absent: bool, shape: Shape) -> Result<Plan, Reply> {
    let (pairs, []) = words[2..].as_chunks::<2>() else { return Err(wrong_arity(command)) };
    let pairs = pairs
        .iter()
        .map(|[field, value]| Ok((Field::new(field)?, value.to_vec())))
        .collect::<Result<_, Reply>>()?;
    Ok(Plan::one(HashCommand::Set { key: name(words[1])?, pairs, only_absent }, shape))
}

fn count(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Count(count)) => Reply::number(count),
        _ => unexpected(),
    }
}

fn fields(words: &[&[u8]]) -> Result<Vec<Field>, Reply> {
    words.iter().map(|word| Ok(Field::new(word)?)).collect()
}

fn hdel(words: &[&[u8]]) -> Result<Plan, Reply> {
    let command = HashCommand::Delete { key: name(words[1])?, fields: fields(&words[2..])? };
    Ok(Plan::one(command, redis(count)))
}

fn hincrby(words: &[&[u8]]) -> Result<Plan, Reply> {
    let by = Arguments::behind(&words[2..]).whole()?;
    let command = HashCommand::Add { key: name(words[1])?, field: Field::new(words[2])?, by };
    Ok(Plan::one(command, redis(whole_sum)))
}

fn whole_sum(answers: Answers, _: Stamp) -> Reply {
    match only(answers) {
        Some(Answer::Sum(sum)) => sum.parse().map_or_else(|_| unexpected(), Reply::Int),
        _ => unexpected(),
    }
}

fn hincrbyfloat(words: &[&[u8]]) -> Result<Plan, Reply> {
    let key = name(words[1])?;
    let field = Field::new(words[2])?;
    let by = float(words[3])?;
    let command = HashCommand::AddFloat { key, field, by };
    Ok(Plan::one(command, Shape::with(sum, float_words)))
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
    match only(answers) {
        Some(Answer::Sum(sum)) => Reply::text(sum),
        _ => unexpected(),
    }
}

/// Creates a plan that reads one field.
fn one_field(words: &[&[u8]], reply: fn(Answers, Stamp) -> Reply) -> Result<Plan, Reply> {
    let fields = Some(fields(&words[2..3])?);
    Ok(Plan::one(HashCommand::Get { key: name(words[1])?, fields }, redis(reply)))
}

fn all_fields(words: &[&[u8]], shape: Shape) -> Result<Plan, Reply> {
    Ok(Plan::one(HashCommand::Get { key: name(words[1])?, fields: None }, shape))
}

/// Returns the fields of the answer, or no fields if the record does not exist.
fn found(answers: Answers) -> Result<Fields, Reply> {
    match only(answers) {
        Some(Answer::Record(record)) => Ok(record.map(|it| it.fields).unwrap_or_default()),
        _ => Err(unexpected()),
    }
}

/// Makes a reply from the fields of the answer.
fn of_found(answers: Answers, reply: impl FnOnce(Fields) -> Reply) -> Reply {
    found(answers).map_or_else(|reply| reply, reply)
}

fn only_value(fields: Fields) -> Option<Vec<u8>> {
    fields.into_iter().next().map(|(_, value)| value)
}

fn hget(words: &[&[u8]]) -> Result<Plan, Reply> {
    one_field(words, |answers, _| {
        of_found(answers, |fields| Reply::maybe(only_value(fields).map(Reply::Bulk)))
    })
}

fn hexists(words: &[&[u8]]) -> Result<Plan, Reply> {
    one_field(words, |answers, _| of_found(answers, |it| Reply::Int((!it.is_empty()).into())))
}

fn hstrlen(words: &[&[u8]]) -> Result<Plan, Reply> {
    one_field(words, |answers, _| {
        let length = |fields| only_value(fields).map_or(0, |value| value.len() as u64);
        of_found(answers, |fields| Reply::number(length(fields)))
    })
}

fn hmget(words: &[&[u8]]) -> Result<Plan, Reply> {
    let asked = fields(&words[2..])?;
    let fields = (asked.len() <= FEW_FIELDS).then(|| asked.clone());
    let reply = move |answers: Answers, _: Stamp| {
        of_found(answers, |fields| {
            Reply::Array(
                asked
                    .iter()
                    .map(|field| Reply::maybe(fields.get(field.as_bytes()).map(Reply::text)))
                    .collect(),
            )
        })
    };
    let shape = Shape::asked(reply, redis_words);
    Ok(Plan::one(HashCommand::Get { key: name(words[1])?, fields }, shape))
}

fn pair((field, value): (Field, Vec<u8>)) -> (Reply, Reply) {
    (Reply::text(field.as_bytes()), Reply::Bulk(value))
}

fn hgetall(words: &[&[u8]]) -> Result<Plan, Reply> {
    whole(words, |fields| Reply::Map(fields.into_iter().map(pair).collect()))
}

fn hkeys(words: &[&[u8]]) -> Result<Plan, Reply> {
    whole(words, |fields| Reply::texts(fields.iter().map(|(field, _)| field.as_bytes())))
}

fn hvals(words: &[&[u8]]) -> Result<Plan, Reply> {
    let value = |(_, value): (Field, Vec<u8>)| Reply::Bulk(value);
    whole(words, move |fields| Reply::Array(fields.into_iter().map(value).collect()))
}

fn hlen(words: &[&[u8]]) -> Result<Plan, Reply> {
    Ok(Plan::one(HashCommand::Count { key: name(words[1])? }, redis(count)))
}

/// Creates a plan whose reply uses all fields.
fn whole(
    words: &[&[u8]],
    reply: impl Fn(Fields) -> Reply + Send + Sync + 'static,
) -> Result<Plan, Reply> {
    all_fields(words, Shape::asked(move |answers, _| of_found(answers, &reply), redis_words))
}

fn hrandfield(words: &[&[u8]]) -> Result<Plan, Reply> {
    let Some(given) = words.get(2) else { return at_random(words, one_at_random) };
    let count = crate::resp::request::whole(given).ok_or_else(not_an_integer)?;
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
    at_random(words, move |fields, chance| some_at_random(fields, count, with_values, chance))
}

/// Creates a plan whose reply uses random fields.
fn at_random(
    words: &[&[u8]],
    reply: impl Fn(Fields, Chance) -> Reply + Send + Sync + 'static,
) -> Result<Plan, Reply> {
    let reply = move |answers: Answers, chance: u64| {
        of_found(answers, |fields| reply(fields, Chance(chance)))
    };
    all_fields(words, Shape::by_chance(reply, redis_words))
}

fn one_at_random(fields: Fields, mut chance: Chance) -> Reply {
    match fields.len() {
        0 => Reply::Nil,
        count => {
            let place = chance.below(count);
            Reply::maybe(fields.iter().nth(place).map(|(field, _)| Reply::text(field.as_bytes())))
        }
    }
}

/// Returns `count` distinct fields. With a negative count, returns that many fields, which may repeat.
fn some_at_random(fields: Fields, count: i64, with_values: bool, mut chance: Chance) -> Reply {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let mut all: Vec<(Field, Vec<u8>)> = fields.into_iter().collect();
    if count >= 0 || all.is_empty() {
        let wanted = wanted.min(all.len());
        for place in 0..wanted {
            let other = place + chance.below(all.len() - place);
            all.swap(place, other);
        }
        all.truncate(wanted);
        return shown(all, with_values);
    }
    let largest_bytes = all
        .iter()
        .map(|(field, value)| field.as_bytes().len() + value.len() + 64)
        .max()
        .unwrap_or_default();
    if wanted.saturating_mul(largest_bytes) > ANSWERS_LIMIT_BYTES {
        let limit = ANSWERS_LIMIT_BYTES >> 20;
        let message = format!("TOOLARGE so many fields take more than {limit} MiB: ask for fewer");
        return Reply::error(message);
    }
    let picked = (0..wanted).map(|_| all[chance.below(all.len())].clone());
    shown(picked.collect(), with_values)
}

fn shown(fields: Vec<(Field, Vec<u8>)>, with_values: bool) -> Reply {
    if with_values {
        Reply::Pairs(fields.into_iter().map(pair).collect())
    } else {
        Reply::texts(fields.iter().map(|(field, _)| field.as_bytes()))
    }
}

/// A pseudo-random generator for picking fields.
struct Chance(u64);

impl Chance {
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
struct Scan {
    pattern: Option<Pattern>,
    count: usize,
}

impl Scan {
    fn read(words: &[&[u8]]) -> Result<Scan, Reply> {
        let mut arguments = Arguments::behind(words);
        let mut scan = Scan { pattern: None, count: SCAN_COUNT };
        while arguments.left() > 0 {
            if arguments.take("MATCH") {
                scan.pattern = Some(Pattern::new(arguments.word()?)?);
            } else if arguments.take("COUNT") {
                let given = usize::try_from(arguments.whole()?).ok();
                scan.count = given.filter(|n| *n > 0).ok_or_else(syntax_error)?;
            } else {
                return Err(syntax_error());
            }
        }
        Ok(scan)
    }
}

fn hscan(words: &[&[u8]]) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(&words[1..]);
    let cursor = arguments.count().map_err(|_| Reply::error("ERR invalid cursor"))?;
    // Redis reads the key first, so invalid options are no error for a missing key.
    let scan = Scan::read(&words[2..]);
    let pattern = scan.as_ref().ok().and_then(|scan| scan.pattern.as_ref());
    let pattern_bytes = pattern.map_or(0, Pattern::bytes);
    let plan = whole(words, move |fields| match &scan {
        _ if fields.is_empty() => piece(0, Vec::new()),
        Ok(scan) => page(fields, cursor, scan),
        Err(reply) => reply.clone(),
    })?;
    Ok(plan.matching(pattern_bytes))
}

/// Returns `count` fields from the cursor on, plus further fields with the same position as the last one.
fn page(fields: Fields, cursor: u64, scan: &Scan) -> Reply {
    let placed = fields.into_iter().map(|(field, value)| (place(&field), field, value));
    let mut placed: Vec<_> = placed.filter(|(place, ..)| *place >= cursor).collect();
    placed.sort_unstable_by_key(|(place, ..)| *place);
    let behind = placed.get(scan.count - 1).map_or(u64::MAX, |(last, ..)| last + 1);
    let next = placed.iter().map(|(place, ..)| *place).find(|place| *place >= behind);
    let given = placed.into_iter().take_while(|(place, ..)| *place < behind);
    let glob = scan.pattern.as_ref().map(Pattern::compile);
    let fits = |field: &Field| glob.as_ref().is_none_or(|glob| glob.matches(field.as_bytes()));
    let fitting = given.filter(|(_, field, _)| fits(field));
    piece(next.unwrap_or(0), fitting.map(|(_, field, value)| (field, value)).collect())
}

fn piece(next: u64, fields: Vec<(Field, Vec<u8>)>) -> Reply {
    let words = fields.into_iter().map(pair).flat_map(|(field, value)| [field, value]);
    Reply::Array(vec![Reply::text(next.to_string()), Reply::Array(words.collect())])
}

/// Returns the position of a field in a scan. It is above 0, and small enough for clients that store
/// numbers as floats.
fn place(field: &Field) -> u64 {
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
        let mut seen = Vec::new();
        let scan = Scan { pattern: None, count: 7 };
        for round in 0.. {
            let (next, given) = words(&page(fields.clone(), cursor, &scan));
            assert!(given.len() <= 7);
            seen.extend(given);
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
            assert_eq!(seen.iter().filter(|it| **it == field).count(), 1, "{field}");
        }
    }

    #[test]
    fn chance_gives_each_field_once_or_as_often_as_told() {
        let lengths = |count, pairs| match some_at_random(record(5), count, pairs, Chance(7)) {
            Reply::Array(items) => items.len(),
            Reply::Pairs(pairs) => 2 * pairs.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!((lengths(3, false), lengths(9, false), lengths(0, false)), (3, 5, 0));
        assert_eq!((lengths(-9, false), lengths(-9, true), lengths(2, true)), (9, 18, 4));
        let Reply::Array(mut all) = some_at_random(record(5), 5, false, Chance(7)) else {
            panic!()
        };
        all.sort_by_key(|reply| format!("{reply:?}"));
        all.dedup();
        assert_eq!(all.len(), 5);
        assert!(
            some_at_random(record(5), -i64::MAX, false, Chance(7)).is_error(),
            "too much at once"
        );
        assert_eq!(
            some_at_random(Fields::default(), -3, false, Chance(7)),
            Reply::Array(Vec::new())
        );
    }
}
