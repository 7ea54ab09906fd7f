//! `SLOWLOG`: commands that took longer than a threshold.

use crate::resp::arguments::Arguments;
use crate::resp::reply::{OK, Reply};
use crate::resp::rights::Needs;
use crate::resp::session::Call;
use crate::resp::slow_log::Entry;
use crate::resp::table::{self, Group, Run, Spec};
use crate::security::{Area, Right};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[Spec::new("slowlog", -2, Group::Server, Run::Session(slow_log))
    .without_data()
    .needs(Needs::Words(right))
    .audited_for("RESET")
    .syntax("GET | LEN | RESET [count]")
    .about("SLOWLOG GET [count] | LEN | RESET: commands that were slow")];

/// Clearing the log needs the admin permission, because other users lose its entries too.
fn right(words: &[&[u8]]) -> Option<Right> {
    if words.get(1).is_some_and(|what| what.eq_ignore_ascii_case(b"reset")) {
        Some(Right::write(Area::Admin))
    } else {
        Some(Right::read(Area::Server))
    }
}

/// The default number of entries shown.
const SHOWN: usize = 10;

fn slow_log(call: &mut Call<'_>) -> Reply {
    about(call).unwrap_or_else(|reply| reply)
}

fn about(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let mut arguments = call.arguments();
    let log = &call.shared().slow_log;
    let what = arguments.word()?.to_ascii_uppercase();
    match what.as_slice() {
        b"GET" => {
            let entries = log.newest(count(&mut arguments)?);
            Ok(Reply::Array(entries.into_iter().map(entry).collect()))
        }
        b"HELP" => Ok(table::named(b"slowlog").map_or(Reply::Nil, Spec::help)),
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
    if arguments.left() == 0 {
        return Ok(SHOWN);
    }
    let count = arguments.whole()?;
    arguments.end()?;
    match usize::try_from(count) {
        Ok(count) => Ok(count),
        Err(_) if count == -1 => Ok(usize::MAX),
        Err(_) => Err(Reply::error("ERR count should be greater than or equal to -1")),
    }
}

/// An entry in the format of Redis: id, time in seconds, duration in microseconds, words, address, client
/// name.
fn entry(entry: Entry) -> Reply {
    Reply::Array(vec![
        Reply::number(entry.id),
        Reply::number(entry.at_us / 1_000_000),
        Reply::number(entry.took_us),
        Reply::texts(entry.words),
        Reply::text(entry.client),
        Reply::text(entry.client_name),
    ])
}
