//! Server commands: `COMMAND`, `CONFIG`, `TIME` and others.

use super::records::how_many;
use crate::resp::arguments::syntax_error;
use crate::resp::glob::Glob;
use crate::resp::plan::{Plan, Shape};
use crate::resp::reply::{OK, Reply};
use crate::resp::rights::{self, Needs, Reach};
use crate::resp::session::{Call, Job};
use crate::resp::table::{self, Asker, Elsewhere, Group, Run, Spec};
use crate::security::{Area, Right};
use mainstay::limits::PAGE_LIMIT;
use mainstay::{Contract, Durability, KeyCommand};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("command", -1, Run::Session(command))
        .without_data()
        .syntax("[COUNT | LIST | INFO | DOCS] [name ...]")
        .about("What commands there are"),
    of("config", -2, Run::Session(config))
        .without_data()
        .needs(Needs::Words(config_right))
        .audited(0)
        .syntax("GET [pattern ...]")
        .about("CONFIG GET: settings by pattern"),
    of("time", 1, Run::Session(time))
        .without_data()
        .about("Seconds and microseconds of the clock"),
    of("revision", 1, Run::Revision)
        .needs(Needs::Some)
        .about("The revision that is read: the newest, a transaction's snapshot, or the one that EXEC gets"),
    of("durability", 2, Run::Session(durability))
        .without_data()
        .needs(Needs::Right(rights::WRITE))
        .audited(1)
        .syntax("SYNC | INTERVAL | MEMORY")
        .about("What has to happen before a write of this connection is answered"),
    of("dbsize", 1, Run::Whole(counting, Elsewhere::Slow(count)))
        .needs(Needs::Right(rights::READ))
        .reaches(Reach::Everything)
        .about("How many cells there are, counted"),
];

const fn of(name: &'static str, arity: i32, run: Run) -> Spec {
    Spec::new(name, arity, Group::Server, run)
}

fn command(call: &mut Call<'_>) -> Reply {
    let mut arguments = call.arguments();
    let what = arguments.shift().unwrap_or_default().to_ascii_uppercase();
    let named =
        |names: &[&[u8]]| -> Vec<_> { names.iter().map(|name| table::named(name)).collect() };
    match what.as_slice() {
        b"" => Reply::Array(table::all().map(about).collect()),
        b"HELP" => table::named(b"command").map_or(Reply::Nil, table::Spec::help),
        b"COUNT" if arguments.left() > 0 => table::wrong_arity("command|count"),
        b"COUNT" => Reply::number(table::all().count() as u64),
        b"LIST" => Reply::texts(table::all().map(|spec| spec.name)),
        b"INFO" if arguments.left() == 0 => Reply::Array(table::all().map(about).collect()),
        b"INFO" => {
            let found = named(arguments.rest()).into_iter();
            Reply::Array(found.map(|spec| spec.map_or(Reply::NilArray, about)).collect())
        }
        b"DOCS" if arguments.left() == 0 => Reply::Map(table::all().map(docs).collect()),
        b"DOCS" => Reply::Map(named(arguments.rest()).into_iter().flatten().map(docs).collect()),
        _ => {
            let what = String::from_utf8_lossy(&what).into_owned();
            Reply::error(format!("ERR unknown subcommand '{what}'. Try COMMAND HELP."))
        }
    }
}

/// A command as `COMMAND` describes it.
fn about(spec: &'static Spec) -> Reply {
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
fn config_right(words: &[&[u8]]) -> Option<Right> {
    let is_address = matches!(words, [_, _, what] if what.eq_ignore_ascii_case(b"http-address"));
    (!is_address).then_some(Right::read(Area::Server))
}

fn config(call: &mut Call<'_>) -> Reply {
    let mut arguments = call.arguments();
    if let (Some(spec), true) = (table::named(b"config"), arguments.take("HELP")) {
        return spec.help();
    }
    if !arguments.take("GET") {
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
    let settings = call.shared().settings_for_redis();
    let pairs = settings.into_iter().filter(|(name, _)| wanted(name));
    Reply::Map(pairs.map(|(name, value)| (Reply::text(name), Reply::text(value))).collect())
}

fn time(call: &mut Call<'_>) -> Reply {
    // All commands of a transaction see the same time.
    let open = call.session.open.as_ref();
    let begun_us = open.and_then(|open| open.now()).or(call.session.exec_us);
    let now_us = begun_us.unwrap_or_else(|| call.shared().now());
    Reply::texts([(now_us / 1_000_000).to_string(), (now_us % 1_000_000).to_string()])
}

fn durability(call: &mut Call<'_>) -> Reply {
    let mut arguments = call.arguments();
    let durability = if arguments.take("SYNC") {
        Durability::Sync
    } else if arguments.take("INTERVAL") {
        Durability::Interval
    } else if arguments.take("MEMORY") {
        Durability::Memory
    } else {
        return syntax_error();
    };
    if call.session.open.is_some() {
        return Reply::error("ERR DURABILITY is not for inside a transaction");
    }
    call.session.durability = Some(durability);
    OK
}

/// The plan inside a transaction, which counts at most one page of names.
fn counting(asker: &Asker<'_>, _: &[&[u8]]) -> Result<Plan, Reply> {
    let kinds = vec![Contract::Cells, Contract::Records];
    let hidden = asker.shared.jobs.hidden_keys().to_vec();
    Ok(Plan::one(KeyCommand::Count { kinds, limit: PAGE_LIMIT, hidden }, Shape::ours(how_many)))
}

fn count(call: &mut Call<'_>) -> Result<Job, Reply> {
    let moment = call.moment()?;
    let kinds = call.kinds();
    Ok(Box::new(move || {
        let mut count = 0;
        let counted = super::keys::each_page(&moment, &kinds, "", |names| {
            count += names.len() as u64;
            true
        });
        counted.map_or_else(Reply::from, |()| Reply::number(count))
    }))
}
