//! Commands on keys of any type: `DEL`, `EXPIRE`, `SCAN` and others.

use super::expiry::{Clock, Unit, expiry, invalid_time, remaining};
use crate::resp::arguments::{Arguments, name, not_an_integer, syntax_error};
use crate::resp::plan::{Answers, Plan, Shape, only, too_many_commands, unexpected};
use crate::resp::reply::{OK, Reply};
use crate::resp::request::whole;
use crate::resp::rights::{Needs, Reach};
use crate::resp::session::{Call, Job};
use crate::resp::table::{Asker, Elsewhere, Group, Run, Spec};
use crate::security::{Area, Right};
use mainstay::limits::{ANSWERS_LIMIT_BYTES, PAGE_LIMIT, TRANSACTION_LIMIT_COMMANDS};
use mainstay::{
    Answer, CellCommand, Command, Contract, ExpireOnly, KeyCommand, Name, Page, ReadView,
    RecordCommand, Stamp, StringCommand, Transaction, Ttl,
};
use std::hash::{BuildHasher, RandomState};

use crate::resp::glob::{Glob, Pattern, fixed_prefix};

/// The most names read in one step.
const PAGE: usize = 10_000;
/// The most names that `FLUSHDB` deletes in one transaction.
const FLUSH_NAMES: usize = 500;
/// The default `COUNT` of `SCAN`.
const SCAN_COUNT: usize = 10;
/// The most names that a step of `SCAN` examines, including deleted ones.
const STEP_LOOKS: usize = 2_000;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    data("del", -2, del)
        .writes()
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .about("Deletes keys; how many there were"),
    data("unlink", -2, del)
        .writes()
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .about("Deletes keys; how many there were"),
    data("exists", -2, exists)
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .about("How many of these keys there are"),
    data("touch", -2, exists)
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .about("How many of these keys there are"),
    data("type", 2, kind).keys(1, 1, 1).syntax("key").about("What a key holds"),
    data("expire", -3, expire)
        .writes()
        .keys(1, 1, 1)
        .syntax("key seconds [NX | XX | GT | LT]")
        .about("A key lives for so many seconds"),
    data("pexpire", -3, pexpire)
        .writes()
        .keys(1, 1, 1)
        .syntax("key ms [NX | XX | GT | LT]")
        .about("A key lives for so many milliseconds"),
    data("expireat", -3, expireat)
        .writes()
        .keys(1, 1, 1)
        .syntax("key unix-seconds [NX | XX | GT | LT]")
        .about("A key lives until this second"),
    data("pexpireat", -3, pexpireat)
        .writes()
        .keys(1, 1, 1)
        .syntax("key unix-ms [NX | XX | GT | LT]")
        .about("A key lives until this millisecond"),
    data("persist", 2, persist).writes().keys(1, 1, 1).syntax("key").about("A key lives for ever"),
    data("ttl", 2, ttl).keys(1, 1, 1).syntax("key").about("How many seconds a key lives"),
    data("pttl", 2, pttl).keys(1, 1, 1).syntax("key").about("How many milliseconds a key lives"),
    data("expiretime", 2, expiretime)
        .keys(1, 1, 1)
        .syntax("key")
        .about("The second until which a key lives"),
    data("pexpiretime", 2, pexpiretime)
        .keys(1, 1, 1)
        .syntax("key")
        .about("The millisecond until which a key lives"),
    Spec::new("scan", -2, Group::Keys, Run::Whole(scanning, Elsewhere::Slow(scan)))
        .reaches(Reach::Range(scan_range))
        .syntax("cursor [MATCH pattern] [COUNT n] [TYPE type]")
        .about("Names, piece by piece"),
    Spec::new("keys", 2, Group::Keys, Run::Whole(matching, Elsewhere::Slow(keys)))
        .reaches(Reach::Range(keys_range))
        .syntax("pattern")
        .about("All names that match a pattern"),
    Spec::new("randomkey", 1, Group::Keys, Run::Whole(some_name, Elsewhere::Slow(random)))
        .reaches(Reach::Everything)
        .about("Some name"),
    Spec::new("flushdb", -1, Group::Keys, Run::Whole(clearing, Elsewhere::Slow(flush)))
        .writes()
        .syntax("[ASYNC | SYNC]")
        .needs(Needs::Right(Right::write(Area::Admin)))
        .reaches(Reach::Everything)
        .audited(0)
        .about("Deletes all keys of the branch"),
];

const fn data(name: &'static str, arity: i32, plan: fn(&[&[u8]]) -> Result<Plan, Reply>) -> Spec {
    Spec::new(name, arity, Group::Keys, Run::Data(plan))
}

fn del(words: &[&[u8]]) -> Result<Plan, Reply> {
    if words.len() > TRANSACTION_LIMIT_COMMANDS + 1 {
        return Err(too_many_commands());
    }
    each_key(words, |name| deletion(name).into_iter())
}

/// Returns the commands that delete the cell and the record with this name.
fn deletion(name: Name) -> [Command; 2] {
    let record = RecordCommand::Delete { key: name.clone(), when: Vec::new() };
    [CellCommand::Delete { name, counter: None }.into(), record.into()]
}

fn exists(words: &[&[u8]]) -> Result<Plan, Reply> {
    each_key(words, |name| lookup(name).into_iter())
}

/// Returns the commands that look up the cell and the record with this name. Of a record they read only its
/// existence and expiry.
pub fn lookup(name: Name) -> [Command; 2] {
    let record = RecordCommand::Get { key: name.clone(), fields: Some(Vec::new()) };
    [CellCommand::Get { name }.into(), record.into()]
}

/// Creates a plan that applies commands to each key, of any kind. The reply is the number of keys that
/// existed.
fn each_key<C: Iterator<Item = Command>>(
    words: &[&[u8]],
    commands: impl Fn(Name) -> C,
) -> Result<Plan, Reply> {
    let names = words[1..].iter().map(|word| name(word));
    let names: Vec<Name> = names.collect::<Result<_, Reply>>()?;
    let keys = names.len();
    let reply = move |answers: Answers, _: Stamp| {
        // The answers come first for all cells, then for all records. One kind is missing if the user may
        // not access it.
        Reply::number(
            (0..keys).filter(|key| answers.iter().skip(*key).step_by(keys).any(is_there)).count()
                as u64,
        )
    };
    let mut all: Vec<Command> = names.into_iter().flat_map(commands).collect();
    all.sort_by_key(|command| matches!(command, Command::Record(_)));
    Ok(Plan::all(all, Shape::asked(reply, Reply::from)))
}

fn is_there(answer: &Answer) -> bool {
    matches!(answer, Answer::Did(true) | Answer::Cell(Some(_)) | Answer::Record(Some(_)))
}

fn looking(words: &[&[u8]], reply: fn(Answers, Stamp) -> Reply) -> Result<Plan, Reply> {
    Ok(Plan::all(lookup(name(words[1])?), Shape::ours(reply)))
}

fn kind(words: &[&[u8]]) -> Result<Plan, Reply> {
    looking(words, |answers, _| match answers.iter().find(|answer| is_there(answer)) {
        Some(Answer::Cell(_)) => Reply::Status("string"),
        Some(_) => Reply::Status("hash"),
        None => Reply::Status("none"),
    })
}

fn ttl(words: &[&[u8]]) -> Result<Plan, Reply> {
    looking(words, |answers, now| lives(answers, now, Unit::Seconds, Clock::FromNow))
}

fn pttl(words: &[&[u8]]) -> Result<Plan, Reply> {
    looking(words, |answers, now| lives(answers, now, Unit::Millis, Clock::FromNow))
}

fn expiretime(words: &[&[u8]]) -> Result<Plan, Reply> {
    looking(words, |answers, now| lives(answers, now, Unit::Seconds, Clock::Unix))
}

fn pexpiretime(words: &[&[u8]]) -> Result<Plan, Reply> {
    looking(words, |answers, now| lives(answers, now, Unit::Millis, Clock::Unix))
}

fn lives(answers: Answers, now: Stamp, unit: Unit, clock: Clock) -> Reply {
    Reply::Int(remaining(answers.iter().find_map(expiry_of), now, unit, clock))
}

/// Returns the expiry of a cell or record; the outer `Option` is `None` if it does not exist.
pub fn expiry_of(answer: &Answer) -> Option<Option<Stamp>> {
    match answer {
        Answer::Cell(cell) => cell.as_ref().map(|cell| cell.expires),
        Answer::Record(record) => record.as_ref().map(|record| record.expires),
        _ => None,
    }
}

fn expire(words: &[&[u8]]) -> Result<Plan, Reply> {
    expire_in(words, Unit::Seconds, Clock::FromNow, "expire")
}

fn pexpire(words: &[&[u8]]) -> Result<Plan, Reply> {
    expire_in(words, Unit::Millis, Clock::FromNow, "pexpire")
}

fn expireat(words: &[&[u8]]) -> Result<Plan, Reply> {
    expire_in(words, Unit::Seconds, Clock::Unix, "expireat")
}

fn pexpireat(words: &[&[u8]]) -> Result<Plan, Reply> {
    expire_in(words, Unit::Millis, Clock::Unix, "pexpireat")
}

fn expire_in(words: &[&[u8]], unit: Unit, clock: Clock, command: &str) -> Result<Plan, Reply> {
    let mut arguments = Arguments::behind(words);
    let name = arguments.name()?;
    let time = arguments.word()?;
    let only = expire_condition(&mut arguments)?;
    let n = whole(time).ok_or_else(not_an_integer)?;
    let ttl = expiry(n, unit, clock).ok_or_else(|| invalid_time(command))?;
    Ok(Plan::all(expiring(name, ttl, only), Shape::ours(one_did)))
}

fn expire_condition(arguments: &mut Arguments<'_>) -> Result<ExpireOnly, Reply> {
    let mut nx = false;
    let mut xx = false;
    let mut gt = false;
    let mut lt = false;
    while arguments.left() > 0 {
        if arguments.take("NX") {
            nx = true
        } else if arguments.take("XX") {
            xx = true
        } else if arguments.take("GT") {
            gt = true
        } else if arguments.take("LT") {
            lt = true
        } else {
            let word = String::from_utf8_lossy(arguments.word()?).into_owned();
            return Err(Reply::error(format!("ERR Unsupported option {word}")));
        }
    }
    match (nx, xx, gt, lt) {
        (true, true, ..) | (true, _, true, _) | (true, _, _, true) => {
            Err(Reply::error("ERR NX and XX, GT or LT options at the same time are not compatible"))
        }
        (_, _, true, true) => {
            Err(Reply::error("ERR GT and LT options at the same time are not compatible"))
        }
        (true, ..) => Ok(ExpireOnly::WithoutExpiry),
        // GT treats a missing expiry as infinite, so no time is later than it.
        (_, _, true, _) => Ok(ExpireOnly::Later),
        (_, true, _, true) => Ok(ExpireOnly::EarlierThanThere),
        (_, _, _, true) => Ok(ExpireOnly::Earlier),
        (_, true, ..) => Ok(ExpireOnly::WithExpiry),
        _ => Ok(ExpireOnly::Always),
    }
}

fn persist(words: &[&[u8]]) -> Result<Plan, Reply> {
    let commands = expiring(name(words[1])?, Ttl::Clear, ExpireOnly::WithExpiry);
    Ok(Plan::all(commands, Shape::ours(one_did)))
}

/// Returns the commands that set the expiry of the cell and the record with this name.
fn expiring(name: Name, ttl: Ttl, only: ExpireOnly) -> [Command; 2] {
    let record = RecordCommand::Expire { key: name.clone(), ttl, only };
    [StringCommand::Expire { name, ttl, only }.into(), record.into()]
}

/// Returns 1 if the cell or the record was changed, otherwise 0.
fn one_did(answers: Answers, _: Stamp) -> Reply {
    Reply::Int(answers.iter().any(is_there).into())
}

/// Reads all names of these kinds with a prefix page by page, until `page` returns false.
pub fn each_page(
    moment: &ReadView,
    kinds: &[Contract],
    prefix: &str,
    mut page: impl FnMut(Vec<String>) -> bool,
) -> mainstay::Result<()> {
    let mut after = None;
    loop {
        let found = moment.names(kinds, prefix, after.as_deref(), PAGE)?;
        if !page(found.names) || found.next.is_none() {
            return Ok(());
        }
        after = found.next;
    }
}

/// Returns the literal prefix of the pattern, which all matching keys begin with.
fn keys_range(words: &[&[u8]]) -> String {
    words.get(1).map(|pattern| fixed_prefix(pattern)).unwrap_or_default()
}

/// Returns both kinds of state that have names. The permission check removes kinds that the user may not
/// read.
fn both() -> Vec<Contract> {
    vec![Contract::Cells, Contract::Records]
}

/// The plan of `KEYS` inside a transaction, which examines at most one page of names.
fn matching(asker: &Asker<'_>, words: &[&[u8]]) -> Result<Plan, Reply> {
    let pattern = Pattern::new(words[1])?;
    let prefix = fixed_prefix(words[1]);
    let reply = move |answers: Answers, _: Stamp| match only(answers) {
        Some(Answer::Names(Page { next: Some(_), .. })) => too_many_names(),
        Some(Answer::Names(page)) => {
            let glob = pattern.compile();
            Reply::texts(page.names.into_iter().filter(|name| glob.matches(name.as_bytes())))
        }
        _ => unexpected(),
    };
    let hidden = asker.shared.jobs.hidden_keys().to_vec();
    let names = KeyCommand::Names { kinds: both(), prefix, after: None, limit: PAGE_LIMIT, hidden };
    Ok(Plan::one(names, Shape::asked(reply, Reply::from)).matching(words[1].len()))
}

fn too_many_names() -> Reply {
    Reply::error(format!(
        "TOOLARGE KEYS in a transaction looks at {PAGE_LIMIT} names at most, and there are more that begin as the pattern \
         does: use SCAN, or ask outside of the transaction"
    ))
}

/// The plan of `SCAN` inside a transaction.
fn scanning(asker: &Asker<'_>, words: &[&[u8]]) -> Result<Plan, Reply> {
    let scan = Scan::read(words)?;
    let Asker { shared, user } = *asker;
    let after = shared.cursors.after(user, scan.cursor).ok_or_else(invalid_cursor)?;
    let kinds: Vec<Contract> = both().into_iter().filter(|kind| scan.wants(*kind)).collect();
    let prefix = scan.prefix();
    let limit = scan.count.min(PAGE);
    let cursors = shared.cursors.clone();
    let pattern = scan.pattern.map(Pattern::new).transpose()?;
    let pattern_bytes = pattern.as_ref().map_or(0, Pattern::bytes);
    let user = user.to_owned();
    let reply = move |answers: Answers, _: Stamp| match only(answers) {
        Some(Answer::Names(page)) => {
            let next = page.next.map_or(0, |name| cursors.keep(&user, name));
            scanned(next, page.names, pattern.as_ref().map(Pattern::compile).as_ref())
        }
        _ => unexpected(),
    };
    let hidden = shared.jobs.hidden_keys().to_vec();
    let names = KeyCommand::Names { kinds, prefix, after, limit, hidden };
    Ok(Plan::one(names, Shape::asked(reply, Reply::from)).once_only().matching(pattern_bytes))
}

/// Returns a page of a scan: the cursor and the matching names.
fn scanned(next: u64, names: Vec<String>, glob: Option<&Glob>) -> Reply {
    let names = Reply::texts(
        names.into_iter().filter(|name| glob.is_none_or(|glob| glob.matches(name.as_bytes()))),
    );
    Reply::Array(vec![Reply::text(next.to_string()), names])
}

/// Number of names from which `RANDOMKEY` chooses inside a transaction.
const RANDOM_NAMES: usize = 1_000;

/// The plan of `RANDOMKEY` inside a transaction. It chooses from the first thousand names, all of which
/// become part of the transaction's read set.
fn some_name(asker: &Asker<'_>, _: &[&[u8]]) -> Result<Plan, Reply> {
    let prefix = String::new();
    let hidden = asker.shared.jobs.hidden_keys().to_vec();
    let limit = RANDOM_NAMES;
    let names = KeyCommand::Names { kinds: both(), prefix, after: None, limit, hidden };
    let reply = |answers: Answers, _: Stamp| match only(answers) {
        Some(Answer::Names(mut page)) if !page.names.is_empty() => {
            let chosen = chance() % page.names.len() as u64;
            Reply::text(page.names.swap_remove(chosen as usize))
        }
        Some(Answer::Names(_)) => Reply::maybe(None),
        _ => unexpected(),
    };
    Ok(Plan::one(names, Shape::ours(reply)))
}

/// The plan of `FLUSHDB` inside a transaction: deletes all keys atomically.
fn clearing(asker: &Asker<'_>, words: &[&[u8]]) -> Result<Plan, Reply> {
    flush_words(&mut Arguments::behind(words))?;
    let hidden = asker.shared.jobs.hidden_keys().to_vec();
    Ok(Plan::one(KeyCommand::Clear { limit: PAGE_LIMIT, hidden }, Shape::ours(|_, _| OK)))
}

fn flush_words(arguments: &mut Arguments<'_>) -> Result<(), Reply> {
    let _ = arguments.take("ASYNC") || arguments.take("SYNC");
    arguments.end()
}

fn keys(call: &mut Call<'_>) -> Result<Job, Reply> {
    let moment = call.moment()?;
    let kinds = call.kinds();
    let glob = Glob::new(call.words[1])?;
    let prefix = fixed_prefix(call.words[1]);
    Ok(Box::new(move || {
        let mut found = Vec::new();
        let mut bytes = 0;
        let looked = each_page(&moment, &kinds, &prefix, |names| {
            for name in names.into_iter().filter(|name| glob.matches(name.as_bytes())) {
                bytes += size_of::<Reply>() + name.len();
                found.push(name);
            }
            bytes <= ANSWERS_LIMIT_BYTES
        });
        match looked {
            Ok(()) if bytes > ANSWERS_LIMIT_BYTES => too_many_matches(),
            Ok(()) => Reply::texts(found),
            Err(error) => error.into(),
        }
    }))
}

fn too_many_matches() -> Reply {
    let limit = ANSWERS_LIMIT_BYTES >> 20;
    Reply::error(format!("TOOLARGE the names that match take more than {limit} MiB: use SCAN"))
}

/// The options of `SCAN`.
struct Scan<'a> {
    cursor: u64,
    pattern: Option<&'a [u8]>,
    count: usize,
    /// Only keys of this type. It may be a Redis type that Mainstay does not have.
    kind: Option<&'a [u8]>,
}

impl<'a> Scan<'a> {
    fn read(words: &'a [&'a [u8]]) -> Result<Scan<'a>, Reply> {
        let mut arguments = Arguments::behind(words);
        let cursor = arguments.count().map_err(|_| invalid_cursor())?;
        let mut scan = Scan { cursor, pattern: None, count: SCAN_COUNT, kind: None };
        while arguments.left() > 0 {
            if arguments.take("MATCH") {
                scan.pattern = Some(arguments.word()?);
            } else if arguments.take("COUNT") {
                let given = usize::try_from(arguments.whole()?).ok();
                scan.count = given.filter(|n| *n > 0).ok_or_else(syntax_error)?;
            } else if arguments.take("TYPE") {
                scan.kind = Some(arguments.word()?);
            } else {
                return Err(syntax_error());
            }
        }
        Ok(scan)
    }

    /// Returns whether keys of this kind are wanted.
    fn wants(&self, kind: Contract) -> bool {
        let name = if kind == Contract::Records { "hash" } else { "string" };
        self.kind.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// Returns the prefix to which the scan is limited.
    fn prefix(&self) -> String {
        self.pattern.map(fixed_prefix).unwrap_or_default()
    }
}

fn invalid_cursor() -> Reply {
    Reply::error("ERR invalid cursor")
}

/// Returns the prefix that a scan reads. A request with invalid words finds nothing, and counts as all
/// keys.
fn scan_range(words: &[&[u8]]) -> String {
    Scan::read(words).map(|scan| scan.prefix()).unwrap_or_default()
}

/// A page may be empty and still return a cursor, as in Redis, because many of the names may be deleted.
fn scan(call: &mut Call<'_>) -> Result<Job, Reply> {
    let scan = Scan::read(call.words)?;
    let after =
        call.shared().cursors.after(call.user_name(), scan.cursor).ok_or_else(invalid_cursor)?;
    let count = scan.count.min(PAGE);
    let kinds: Vec<_> = call.kinds().into_iter().filter(|kind| scan.wants(*kind)).collect();
    let glob = scan.pattern.map(Glob::new).transpose()?;
    let moment = call.moment()?;
    let prefix = scan.prefix();
    let cursors = call.shared().cursors.clone();
    let user = call.user_name().to_owned();
    let reply = move |page: Page| {
        let next = page.next.map_or(0, |name| cursors.keep(&user, name));
        scanned(next, page.names, glob.as_ref())
    };
    let looks = count.max(STEP_LOOKS);
    let page = move || moment.names_within(&kinds, &prefix, after.as_deref(), count, looks);
    Ok(Box::new(move || page().map_or_else(Reply::from, reply)))
}

fn random(call: &mut Call<'_>) -> Result<Job, Reply> {
    let moment = call.moment()?;
    let kinds = call.kinds();
    Ok(Box::new(move || match moment.random_name(&kinds, chance, usize::MAX) {
        Ok(page) => Reply::maybe(page.names.into_iter().next().map(Reply::text)),
        Err(error) => error.into(),
    }))
}

/// Returns a random number.
fn chance() -> u64 {
    RandomState::new().hash_one(0)
}

/// Deletes all present keys in several transactions. Keys written meanwhile may remain.
fn flush(call: &mut Call<'_>) -> Result<Job, Reply> {
    flush_words(&mut call.arguments())?;
    let moment = call.moment()?;
    let empty = call.session.transaction();
    let db = call.shared().db.clone();
    let hidden = call.shared().jobs.hidden_keys();
    Ok(Box::new(move || {
        let mut failed = None;
        let looked = each_page(&moment, &[Contract::Cells, Contract::Records], "", |names| {
            // Small transactions, so that other clients can write in between.
            names.chunks(FLUSH_NAMES).all(|names| {
                failed = db.execute(deleting(empty.clone(), names, &hidden)).err();
                failed.is_none()
            })
        });
        match looked.err().or(failed) {
            Some(error) => error.into(),
            None => OK,
        }
    }))
}

/// Adds deletions of the cells and records with these names. Hidden records of the same names are kept.
fn deleting(transaction: Transaction, names: &[String], hidden: &[String]) -> Transaction {
    let names = names.iter().filter_map(|name| mainstay::Name::new(name).ok());
    let shown = |name: Name| {
        let is_hidden = hidden.iter().any(|prefix| name.as_str().starts_with(prefix));
        let kinds = if is_hidden { 1 } else { 2 };
        deletion(name).into_iter().take(kinds)
    };
    names.flat_map(shown).fold(transaction, Transaction::step)
}
