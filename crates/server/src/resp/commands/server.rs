//! Server commands: `COMMAND`, `CONFIG`, `TIME` and others.

use super::records::count_reply;
use crate::resp::arguments::syntax_error;
use crate::resp::connection_state::{CommandContext, WorkerJob};
use crate::resp::glob::Glob;
use crate::resp::permissions::{self, KeyScope, Requirement};
use crate::resp::plan::{Plan, ReplyFormat};
use crate::resp::reply::{OK, Reply};
use crate::resp::table::{self, Group, Handler, OutsideTransaction, PlanContext, Spec};
use crate::security::{Area, Right};
use mainstay::limits::PAGE_LIMIT;
use mainstay::{Contract, Durability, KeyCommand};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("command", -1, Handler::Immediate(command))
        .without_data()
        .syntax("[COUNT | LIST | INFO | DOCS] [name ...]")
        .summarize("What commands there are"),
    of("config", -2, Handler::Immediate(config))
        .without_data()
        .requires(Requirement::Words(config_permission))
        .audited(0)
        .syntax("GET [pattern ...]")
        .summarize("CONFIG GET: settings by pattern"),
    of("time", 1, Handler::Immediate(time))
        .without_data()
        .summarize("Seconds and microseconds of the clock"),
    of("revision", 1, Handler::Revision)
        .requires(Requirement::AnyPermission)
        .summarize("The revision that is read: the newest, a transaction's snapshot, or the one that EXEC gets"),
    of("durability", 2, Handler::Immediate(durability))
        .without_data()
        .requires(Requirement::Permission(permissions::WRITE_DATA))
        .audited(1)
        .syntax("SYNC | INTERVAL | MEMORY")
        .summarize("What has to happen before a write of this connection is answered"),
    of("dbsize", 1, Handler::PlanInTransaction(count_plan, OutsideTransaction::LongWork(count)))
        .requires(Requirement::Permission(permissions::READ_DATA))
        .key_scope(KeyScope::Everything)
        .summarize("How many cells there are, counted"),
];

const fn of(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Server, run)
}

fn command(context: &mut CommandContext<'_>) -> Reply {
    let mut arguments = context.arguments();
    let what = arguments.shift().unwrap_or_default().to_ascii_uppercase();
    let specs =
        |names: &[&[u8]]| -> Vec<_> { names.iter().map(|name| table::by_name(name)).collect() };
    match what.as_slice() {
        b"" => Reply::Array(table::all().map(describe).collect()),
        b"HELP" => table::by_name(b"command").map_or(Reply::Nil, table::Spec::help),
        b"COUNT" if arguments.remaining() > 0 => table::wrong_arity("command|count"),
        b"COUNT" => Reply::number(table::all().count() as u64),
        b"LIST" => Reply::texts(table::all().map(|spec| spec.name)),
        b"INFO" if arguments.remaining() == 0 => Reply::Array(table::all().map(describe).collect()),
        b"INFO" => {
            let found = specs(arguments.rest()).into_iter();
            Reply::Array(found.map(|spec| spec.map_or(Reply::NilArray, describe)).collect())
        }
        b"DOCS" if arguments.remaining() == 0 => Reply::Map(table::all().map(docs).collect()),
        b"DOCS" => Reply::Map(specs(arguments.rest()).into_iter().flatten().map(docs).collect()),
        _ => {
            let what = String::from_utf8_lossy(&what).into_owned();
            Reply::error(format!("ERR unknown subcommand '{what}'. Try COMMAND HELP."))
        }
    }
}

/// A command as `COMMAND` describes it.
fn describe(spec: &'static Spec) -> Reply {
    let (first, last, step) = spec.keys;
    let flag = if spec.writes { "write" } else { "readonly" };
    let number = |n: i32| Reply::Int(n.into());
    let category = format!("@{}", spec.group.name());
    let empty = || Reply::Array(Vec::new());
    Reply::Array(vec![
        Reply::text(spec.name),
        number(spec.arity),
        Reply::Array(vec![Reply::Status(flag)]),
        number(first),
        number(last),
        number(step),
        Reply::texts([category]),
        empty(),
        empty(),
        empty(),
    ])
}

fn docs(spec: &'static Spec) -> (Reply, Reply) {
    let pair = |name: &str, value: &str| (Reply::text(name), Reply::text(value));
    let mut about = vec![pair("summary", spec.summary), pair("group", spec.group.name())];
    if !spec.syntax.is_empty() {
        about.push(pair("syntax", spec.syntax));
    }
    (Reply::text(spec.name), Reply::Map(about))
}

/// The address of the HTTP front end needs no permission, because every connected user may know it.
fn config_permission(words: &[&[u8]]) -> Option<Right> {
    let is_address = matches!(words, [_, _, what] if what.eq_ignore_ascii_case(b"http-address"));
    (!is_address).then_some(Right::read(Area::Server))
}

fn config(context: &mut CommandContext<'_>) -> Reply {
    let mut arguments = context.arguments();
    if let (Some(spec), true) = (table::by_name(b"config"), arguments.take_keyword("HELP")) {
        return spec.help();
    }
    if !arguments.take_keyword("GET") {
        return Reply::error(
            "ERR only CONFIG GET is known: settings are given when the server starts",
        );
    }
    let patterns: Vec<Vec<u8>> =
        arguments.rest().iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    if patterns.is_empty() {
        return table::wrong_arity("config|get");
    }
    let patterns: Vec<&[u8]> = patterns.iter().map(Vec::as_slice).collect();
    let globs = match Glob::all(&patterns) {
        Ok(globs) => globs,
        Err(refusal) => return refusal,
    };
    let wanted = |name: &str| globs.iter().any(|glob| glob.matches(name.as_bytes()));
    let settings = context.shared().settings_for_redis();
    let pairs = settings.into_iter().filter(|(name, _)| wanted(name));
    Reply::Map(pairs.map(|(name, value)| (Reply::text(name), Reply::text(value))).collect())
}

fn time(context: &mut CommandContext<'_>) -> Reply {
    // All commands of a transaction see the same time.
    let open = context.state.open_transaction.as_ref();
    let begun_us = open.and_then(|open| open.now()).or(context.state.exec_time_us);
    let now_us = begun_us.unwrap_or_else(|| context.shared().now());
    Reply::texts([(now_us / 1_000_000).to_string(), (now_us % 1_000_000).to_string()])
}

fn durability(context: &mut CommandContext<'_>) -> Reply {
    let mut arguments = context.arguments();
    let durability = if arguments.take_keyword("SYNC") {
        Durability::Sync
    } else if arguments.take_keyword("INTERVAL") {
        Durability::Interval
    } else if arguments.take_keyword("MEMORY") {
        Durability::Memory
    } else {
        return syntax_error();
    };
    if context.state.open_transaction.is_some() {
        return Reply::error("ERR DURABILITY is not for inside a transaction");
    }
    context.state.durability = Some(durability);
    OK
}

/// The plan inside a transaction, which counts at most one page of names.
fn count_plan(plan_context: &PlanContext<'_>, _: &[&[u8]]) -> Result<Plan, Reply> {
    let kinds = vec![Contract::Cells, Contract::Records];
    let hidden = plan_context.shared.jobs.hidden_keys().to_vec();
    Ok(Plan::one(
        KeyCommand::Count { kinds, limit: PAGE_LIMIT, hidden },
        ReplyFormat::plain(count_reply),
    ))
}

fn count(context: &mut CommandContext<'_>) -> Result<WorkerJob, Reply> {
    let read_view = context.read_view()?;
    let kinds = context.kinds();
    Ok(Box::new(move || {
        let mut count = 0;
        let counted = super::keys::each_page(&read_view, &kinds, "", |names| {
            count += names.len() as u64;
            true
        });
        counted.map_or_else(Reply::from, |()| Reply::number(count))
    }))
}
