//! `SLOWLOG`: commands that took longer than a threshold.

use crate::resp::arguments::Arguments;
use crate::resp::connection_state::CommandContext;
use crate::resp::permissions::Requirement;
use crate::resp::reply::{OK, Reply};
use crate::resp::slow_log::SlowCommand;
use crate::resp::table::{self, Group, Handler, Spec};
use crate::security::{Area, Right};

/// The commands of this file.
pub const COMMANDS: &[Spec] =
    &[Spec::new("slowlog", -2, Group::Server, Handler::Immediate(slow_log))
        .without_data()
        .requires(Requirement::Words(required_permission))
        .audited_for("RESET")
        .syntax("GET | LEN | RESET [count]")
        .summarize("SLOWLOG GET [count] | LEN | RESET: commands that were slow")];

/// Clearing the log needs the admin permission, because other users lose its entries too.
fn required_permission(words: &[&[u8]]) -> Option<Right> {
    if words.get(1).is_some_and(|what| what.eq_ignore_ascii_case(b"reset")) {
        Some(Right::write(Area::Admin))
    } else {
        Some(Right::read(Area::Server))
    }
}

/// The default number of entries shown.
const DEFAULT_COUNT: usize = 10;

fn slow_log(context: &mut CommandContext<'_>) -> Reply {
    run_subcommand(context).unwrap_or_else(|reply| reply)
}

fn run_subcommand(context: &mut CommandContext<'_>) -> Result<Reply, Reply> {
    let mut arguments = context.arguments();
    let log = &context.shared().slow_log;
    let what = arguments.word()?.to_ascii_uppercase();
    match what.as_slice() {
        b"GET" => {
            let entries = log.newest(count(&mut arguments)?);
            Ok(Reply::Array(entries.into_iter().map(entry_reply).collect()))
        }
        b"HELP" => Ok(table::by_name(b"slowlog").map_or(Reply::Nil, Spec::help)),
        b"LEN" => arguments.end().map(|()| Reply::number(log.len() as u64)),
        b"RESET" => arguments.end().map(|()| {
            log.reset();
            OK
        }),
        _ => {
            let what = String::from_utf8_lossy(&what).into_owned();
            Err(Reply::error(format!("ERR unknown subcommand '{what}'. Try SLOWLOG HELP.")))
        }
    }
}

/// Consumes the number of entries; -1 means all.
fn count(arguments: &mut Arguments<'_>) -> Result<usize, Reply> {
    if arguments.remaining() == 0 {
        return Ok(DEFAULT_COUNT);
    }
    let count = arguments.integer()?;
    arguments.end()?;
    match usize::try_from(count) {
        Ok(count) => Ok(count),
        Err(_) if count == -1 => Ok(usize::MAX),
        Err(_) => Err(Reply::error("ERR count should be greater than or equal to -1")),
    }
}

/// An entry in the format of Redis: id, time in seconds, duration in microseconds, words, address, client
/// name.
fn entry_reply(entry: SlowCommand) -> Reply {
    Reply::Array(vec![
        Reply::number(entry.id),
        Reply::number(entry.at_us / 1_000_000),
        Reply::number(entry.took_us),
        Reply::texts(entry.words),
        Reply::text(entry.client),
        Reply::text(entry.client_name),
    ])
}
