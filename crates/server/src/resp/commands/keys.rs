//! Commands on keys of any type: `DEL`, `EXPIRE`, `SCAN` and others.

use super::expiry::{Clock, Unit, expiry, invalid_time, remaining};
use crate::resp::arguments::{Arguments, name, not_an_integer, syntax_error};
use crate::resp::connection_state::{CommandContext, WorkerJob};
use crate::resp::permissions::{KeyScope, Requirement};
use crate::resp::plan::{Answers, Plan, ReplyFormat, single, too_many_commands, unexpected_answer};
use crate::resp::reply::{OK, Reply};
use crate::resp::request::parse_integer;
use crate::resp::table::{Group, Handler, OutsideTransaction, PlanContext, Spec};
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
    data("del", -2, delete_keys)
        .writes()
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .summarize("Deletes keys; how many there were"),
    data("unlink", -2, delete_keys)
        .writes()
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .summarize("Deletes keys; how many there were"),
    data("exists", -2, exists)
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .summarize("How many of these keys there are"),
    data("touch", -2, exists)
        .keys(1, -1, 1)
        .syntax("key [key ...]")
        .summarize("How many of these keys there are"),
    data("type", 2, kind).keys(1, 1, 1).syntax("key").summarize("What a key holds"),
    data("expire", -3, expire)
        .writes()
        .keys(1, 1, 1)
        .syntax("key seconds [NX | XX | GT | LT]")
        .summarize("A key lives for so many seconds"),
    data("pexpire", -3, pexpire)
        .writes()
        .keys(1, 1, 1)
        .syntax("key ms [NX | XX | GT | LT]")
        .summarize("A key lives for so many milliseconds"),
    data("expireat", -3, expireat)
        .writes()
        .keys(1, 1, 1)
        .syntax("key unix-seconds [NX | XX | GT | LT]")
        .summarize("A key lives until this second"),
    data("pexpireat", -3, pexpireat)
        .writes()
        .keys(1, 1, 1)
        .syntax("key unix-ms [NX | XX | GT | LT]")
        .summarize("A key lives until this millisecond"),
    data("persist", 2, persist)
        .writes()
        .keys(1, 1, 1)
        .syntax("key")
        .summarize("A key lives for ever"),
    data("ttl", 2, ttl).keys(1, 1, 1).syntax("key").summarize("How many seconds a key lives"),
    data("pttl", 2, pttl)
        .keys(1, 1, 1)
        .syntax("key")
        .summarize("How many milliseconds a key lives"),
    data("expiretime", 2, expiretime)
        .keys(1, 1, 1)
        .syntax("key")
        .summarize("The second until which a key lives"),
    data("pexpiretime", 2, pexpiretime)
        .keys(1, 1, 1)
        .syntax("key")
        .summarize("The millisecond until which a key lives"),
    Spec::new(
        "scan",
        -2,
        Group::Keys,
        Handler::PlanInTransaction(scan_plan, OutsideTransaction::LongWork(scan)),
    )
    .key_scope(KeyScope::Range(scan_range))
    .syntax("cursor [MATCH pattern] [COUNT n] [TYPE type]")
    .summarize("Names, piece by piece"),
    Spec::new(
        "keys",
        2,
        Group::Keys,
        Handler::PlanInTransaction(keys_plan, OutsideTransaction::LongWork(keys)),
    )
    .key_scope(KeyScope::Range(keys_range))
    .syntax("pattern")
    .summarize("All names that match a pattern"),
    Spec::new(
        "randomkey",
        1,
        Group::Keys,
        Handler::PlanInTransaction(random_key_plan, OutsideTransaction::LongWork(random)),
    )
    .key_scope(KeyScope::Everything)
    .summarize("Some name"),
    Spec::new(
        "flushdb",
        -1,
        Group::Keys,
        Handler::PlanInTransaction(flush_plan, OutsideTransaction::LongWork(flush)),
    )
    .writes()
    .syntax("[ASYNC | SYNC]")
    .requires(Requirement::Permission(Right::write(Area::Admin)))
    .key_scope(KeyScope::Everything)
    .audited(0)
    .summarize("Deletes all keys of the branch"),
];

const fn data(name: &'static str, arity: i32, plan: fn(&[&[u8]]) -> Result<Plan, Reply>) -> Spec {
    Spec::new(name, arity, Group::Keys, Handler::Plan(plan))
}

fn delete_keys(words: &[&[u8]]) -> Result<Plan, Reply> {
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
            (0..keys).filter(|key| answers.iter().skip(*key).step_by(keys).any(exists_in)).count()
                as u64,
        )
    };
    let mut all: Vec<Command> = names.into_iter().flat_map(commands).collect();
    all.sort_by_key(|command| matches!(command, Command::Record(_)));
    Ok(Plan::all(all, ReplyFormat::closure(reply, Reply::from)))
}

fn exists_in(answer: &Answer) -> bool {
    matches!(answer, Answer::Did(true) | Answer::Cell(Some(_)) | Answer::Record(Some(_)))
}

fn lookup_plan(words: &[&[u8]], reply: fn(Answers, Stamp) -> Reply) -> Result<Plan, Reply> {
    Ok(Plan::all(lookup(name(words[1])?), ReplyFormat::plain(reply)))
}

fn kind(words: &[&[u8]]) -> Result<Plan, Reply> {
    lookup_plan(words, |answers, _| match answers.iter().find(|answer| exists_in(answer)) {
        Some(Answer::Cell(_)) => Reply::Status("string"),
        Some(_) => Reply::Status("hash"),
        None => Reply::Status("none"),
    })
}

fn ttl(words: &[&[u8]]) -> Result<Plan, Reply> {
    lookup_plan(words, |answers, now| remaining_time(answers, now, Unit::Seconds, Clock::FromNow))
}

fn pttl(words: &[&[u8]]) -> Result<Plan, Reply> {
    lookup_plan(words, |answers, now| remaining_time(answers, now, Unit::Millis, Clock::FromNow))
}

fn expiretime(words: &[&[u8]]) -> Result<Plan, Reply> {
    lookup_plan(words, |answers, now| remaining_time(answers, now, Unit::Seconds, Clock::Unix))
}

fn pexpiretime(words: &[&[u8]]) -> Result<Plan, Reply> {
    lookup_plan(words, |answers, now| remaining_time(answers, now, Unit::Millis, Clock::Unix))
}

fn remaining_time(answers: Answers, now: Stamp, unit: Unit, clock: Clock) -> Reply {
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
    let mut arguments = Arguments::after_first(words);
    let name = arguments.name()?;
    let time = arguments.word()?;
    let only = expire_condition(&mut arguments)?;
    let n = parse_integer(time).ok_or_else(not_an_integer)?;
    let ttl = expiry(n, unit, clock).ok_or_else(|| invalid_time(command))?;
    Ok(Plan::all(expiry_commands(name, ttl, only), ReplyFormat::plain(any_changed)))
}

fn expire_condition(arguments: &mut Arguments<'_>) -> Result<ExpireOnly, Reply> {
    let mut nx = false;
    let mut xx = false;
    let mut gt = false;
    let mut lt = false;
    while arguments.remaining() > 0 {
        if arguments.take_keyword("NX") {
            nx = true
        } else if arguments.take_keyword("XX") {
            xx = true
        } else if arguments.take_keyword("GT") {
            gt = true
        } else if arguments.take_keyword("LT") {
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
    let commands = expiry_commands(name(words[1])?, Ttl::Clear, ExpireOnly::WithExpiry);
    Ok(Plan::all(commands, ReplyFormat::plain(any_changed)))
}

/// Returns the commands that set the expiry of the cell and the record with this name.
fn expiry_commands(name: Name, ttl: Ttl, only: ExpireOnly) -> [Command; 2] {
    let record = RecordCommand::Expire { key: name.clone(), ttl, only };
    [StringCommand::Expire { name, ttl, only }.into(), record.into()]
}

/// Returns 1 if the cell or the record was changed, otherwise 0.
fn any_changed(answers: Answers, _: Stamp) -> Reply {
    Reply::Int(answers.iter().any(exists_in).into())
}

/// Reads all names of these kinds with a prefix page by page, until `page` returns false.
pub fn each_page(
    read_view: &ReadView,
    kinds: &[Contract],
    prefix: &str,
    mut page: impl FnMut(Vec<String>) -> bool,
) -> mainstay::Result<()> {
    let mut after = None;
    loop {
        let names = read_view.names(kinds, prefix, after.as_deref(), PAGE)?;
        if !page(names.names) || names.next.is_none() {
            return Ok(());
        }
        after = names.next;
    }
}

/// Returns the literal prefix of the pattern, which all matching keys begin with.
fn keys_range(words: &[&[u8]]) -> String {
    words.get(1).map(|pattern| fixed_prefix(pattern)).unwrap_or_default()
}

/// Returns both kinds of state that have names. The permission check removes kinds that the user may not
/// read.
fn data_contracts() -> Vec<Contract> {
    vec![Contract::Cells, Contract::Records]
}

/// The plan of `KEYS` inside a transaction, which examines at most one page of names.
fn keys_plan(plan_context: &PlanContext<'_>, words: &[&[u8]]) -> Result<Plan, Reply> {
    let pattern = Pattern::new(words[1])?;
    let prefix = fixed_prefix(words[1]);
    let reply = move |answers: Answers, _: Stamp| match single(answers) {
        Some(Answer::Names(Page { next: Some(_), .. })) => too_many_names(),
        Some(Answer::Names(page)) => {
            let glob = pattern.compile();
            Reply::texts(page.names.into_iter().filter(|name| glob.matches(name.as_bytes())))
        }
        _ => unexpected_answer(),
    };
    let hidden = plan_context.shared.jobs.hidden_keys().to_vec();
    let names = KeyCommand::Names {
        kinds: data_contracts(),
        prefix,
        after: None,
        limit: PAGE_LIMIT,
        hidden,
    };
    Ok(Plan::one(names, ReplyFormat::closure(reply, Reply::from))
        .with_pattern_bytes(words[1].len()))
}

fn too_many_names() -> Reply {
    Reply::error(format!(
        "TOOLARGE KEYS in a transaction looks at {PAGE_LIMIT} names at most, and there are more that begin as the pattern \
         does: use SCAN, or ask outside of the transaction"
    ))
}

/// The plan of `SCAN` inside a transaction.
fn scan_plan(plan_context: &PlanContext<'_>, words: &[&[u8]]) -> Result<Plan, Reply> {
    let scan = ScanOptions::read(words)?;
    let PlanContext { shared, user } = *plan_context;
    let after = shared.cursors.resume_after(user, scan.cursor).ok_or_else(invalid_cursor)?;
    let kinds: Vec<Contract> =
        data_contracts().into_iter().filter(|kind| scan.wants(*kind)).collect();
    let prefix = scan.prefix();
    let limit = scan.count.min(PAGE);
    let cursors = shared.cursors.clone();
    let pattern = scan.pattern.map(Pattern::new).transpose()?;
    let pattern_bytes = pattern.as_ref().map_or(0, Pattern::bytes);
    let user = user.to_owned();
    let reply = move |answers: Answers, _: Stamp| match single(answers) {
        Some(Answer::Names(page)) => {
            let next = page.next.map_or(0, |name| cursors.insert(&user, name));
            scan_reply(next, page.names, pattern.as_ref().map(Pattern::compile).as_ref())
        }
        _ => unexpected_answer(),
    };
    let hidden = shared.jobs.hidden_keys().to_vec();
    let names = KeyCommand::Names { kinds, prefix, after, limit, hidden };
    Ok(Plan::one(names, ReplyFormat::closure(reply, Reply::from))
        .once_only()
        .with_pattern_bytes(pattern_bytes))
}

/// Returns a page of a scan: the cursor and the matching names.
fn scan_reply(next: u64, names: Vec<String>, glob: Option<&Glob>) -> Reply {
    let names = Reply::texts(
        names.into_iter().filter(|name| glob.is_none_or(|glob| glob.matches(name.as_bytes()))),
    );
    Reply::Array(vec![Reply::text(next.to_string()), names])
}

/// Number of names from which `RANDOMKEY` chooses inside a transaction.
const RANDOM_NAMES: usize = 1_000;

/// The plan of `RANDOMKEY` inside a transaction. It chooses from the first thousand names, all of which
/// become part of the transaction's read set.
fn random_key_plan(plan_context: &PlanContext<'_>, _: &[&[u8]]) -> Result<Plan, Reply> {
    let prefix = String::new();
    let hidden = plan_context.shared.jobs.hidden_keys().to_vec();
    let limit = RANDOM_NAMES;
    let names = KeyCommand::Names { kinds: data_contracts(), prefix, after: None, limit, hidden };
    let reply = |answers: Answers, _: Stamp| match single(answers) {
        Some(Answer::Names(mut page)) if !page.names.is_empty() => {
            let chosen = random_number() % page.names.len() as u64;
            Reply::text(page.names.swap_remove(chosen as usize))
        }
        Some(Answer::Names(_)) => Reply::maybe(None),
        _ => unexpected_answer(),
    };
    Ok(Plan::one(names, ReplyFormat::plain(reply)))
}

/// The plan of `FLUSHDB` inside a transaction: deletes all keys atomically.
fn flush_plan(plan_context: &PlanContext<'_>, words: &[&[u8]]) -> Result<Plan, Reply> {
    flush_options(&mut Arguments::after_first(words))?;
    let hidden = plan_context.shared.jobs.hidden_keys().to_vec();
    Ok(Plan::one(KeyCommand::Clear { limit: PAGE_LIMIT, hidden }, ReplyFormat::plain(|_, _| OK)))
}

fn flush_options(arguments: &mut Arguments<'_>) -> Result<(), Reply> {
    let _ = arguments.take_keyword("ASYNC") || arguments.take_keyword("SYNC");
    arguments.end()
}

fn keys(context: &mut CommandContext<'_>) -> Result<WorkerJob, Reply> {
    let read_view = context.read_view()?;
    let kinds = context.kinds();
    let glob = Glob::new(context.words[1])?;
    let prefix = fixed_prefix(context.words[1]);
    Ok(Box::new(move || {
        let mut matches = Vec::new();
        let mut bytes = 0;
        let result = each_page(&read_view, &kinds, &prefix, |names| {
            for name in names.into_iter().filter(|name| glob.matches(name.as_bytes())) {
                bytes += size_of::<Reply>() + name.len();
                matches.push(name);
            }
            bytes <= ANSWERS_LIMIT_BYTES
        });
        match result {
            Ok(()) if bytes > ANSWERS_LIMIT_BYTES => too_many_matches(),
            Ok(()) => Reply::texts(matches),
            Err(error) => error.into(),
        }
    }))
}

fn too_many_matches() -> Reply {
    let limit = ANSWERS_LIMIT_BYTES >> 20;
    Reply::error(format!("TOOLARGE the names that match take more than {limit} MiB: use SCAN"))
}

/// The options of `SCAN`.
struct ScanOptions<'a> {
    cursor: u64,
    pattern: Option<&'a [u8]>,
    count: usize,
    /// Only keys of this type. It may be a Redis type that Mainstay does not have.
    kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    fn read(words: &'a [&'a [u8]]) -> Result<ScanOptions<'a>, Reply> {
        let mut arguments = Arguments::after_first(words);
        let cursor = arguments.count().map_err(|_| invalid_cursor())?;
        let mut scan = ScanOptions { cursor, pattern: None, count: SCAN_COUNT, kind: None };
        while arguments.remaining() > 0 {
            if arguments.take_keyword("MATCH") {
                scan.pattern = Some(arguments.word()?);
            } else if arguments.take_keyword("COUNT") {
                let count = usize::try_from(arguments.integer()?).ok();
                scan.count = count.filter(|n| *n > 0).ok_or_else(syntax_error)?;
            } else if arguments.take_keyword("TYPE") {
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
    ScanOptions::read(words).map(|scan| scan.prefix()).unwrap_or_default()
}

/// A page may be empty and still return a cursor, as in Redis, because many of the names may be deleted.
fn scan(context: &mut CommandContext<'_>) -> Result<WorkerJob, Reply> {
    let scan = ScanOptions::read(context.words)?;
    let after = context
        .shared()
        .cursors
        .resume_after(context.user_name(), scan.cursor)
        .ok_or_else(invalid_cursor)?;
    let count = scan.count.min(PAGE);
    let kinds: Vec<_> = context.kinds().into_iter().filter(|kind| scan.wants(*kind)).collect();
    let glob = scan.pattern.map(Glob::new).transpose()?;
    let read_view = context.read_view()?;
    let prefix = scan.prefix();
    let cursors = context.shared().cursors.clone();
    let user = context.user_name().to_owned();
    let reply = move |page: Page| {
        let next = page.next.map_or(0, |name| cursors.insert(&user, name));
        scan_reply(next, page.names, glob.as_ref())
    };
    let limit_examined = count.max(STEP_LOOKS);
    let page =
        move || read_view.names_within(&kinds, &prefix, after.as_deref(), count, limit_examined);
    Ok(Box::new(move || page().map_or_else(Reply::from, reply)))
}

fn random(context: &mut CommandContext<'_>) -> Result<WorkerJob, Reply> {
    let read_view = context.read_view()?;
    let kinds = context.kinds();
    Ok(Box::new(move || match read_view.random_name(&kinds, random_number, usize::MAX) {
        Ok(page) => Reply::maybe(page.names.into_iter().next().map(Reply::text)),
        Err(error) => error.into(),
    }))
}

/// Returns a random number.
fn random_number() -> u64 {
    RandomState::new().hash_one(0)
}

/// Deletes all present keys in several transactions. Keys written meanwhile may remain.
fn flush(context: &mut CommandContext<'_>) -> Result<WorkerJob, Reply> {
    flush_options(&mut context.arguments())?;
    let read_view = context.read_view()?;
    let empty = context.state.transaction();
    let db = context.shared().db.clone();
    let hidden = context.shared().jobs.hidden_keys();
    Ok(Box::new(move || {
        let mut failure = None;
        let result = each_page(&read_view, &[Contract::Cells, Contract::Records], "", |names| {
            // Small transactions, so that other clients can write in between.
            names.chunks(FLUSH_NAMES).all(|names| {
                failure = db.execute(add_deletions(empty.clone(), names, &hidden)).err();
                failure.is_none()
            })
        });
        match result.err().or(failure) {
            Some(error) => error.into(),
            None => OK,
        }
    }))
}

/// Adds deletions of the cells and records with these names. Hidden records of the same names are kept.
fn add_deletions(transaction: Transaction, names: &[String], hidden: &[String]) -> Transaction {
    let names = names.iter().filter_map(|name| mainstay::Name::new(name).ok());
    let shown = |name: Name| {
        let is_hidden = hidden.iter().any(|prefix| name.as_str().starts_with(prefix));
        let kinds = if is_hidden { 1 } else { 2 };
        deletion(name).into_iter().take(kinds)
    };
    names.flat_map(shown).fold(transaction, Transaction::step)
}
