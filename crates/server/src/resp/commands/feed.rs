//! Commands on the feed of changes: `FEED.READ`, `FEED.WATCH`.

use super::branches::{change, contract};
use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::feeds::{Awaited, Found, Reading, Telling, Until};
use crate::resp::reply::{Protocol, Reply};
use crate::resp::rights::Reach;
use crate::resp::session::{Call, Handled};
use crate::resp::table::{Group, Run, Spec};
use mainstay::{Event, Filter};
use std::sync::Arc;

/// The most subscriptions of one connection.
const WATCHES: usize = 16;
/// The default limit for changes.
const DEFAULT_LIMIT: usize = 100;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    Spec::new("feed.read", -1, Group::Feed, Run::Control(read))
        .reaches(Reach::Range(range))
        .syntax("[AFTER revision] [PREFIX p] [LIMIT n] [WAIT ms]")
        .about("Committed changes behind a revision, in order"),
    Spec::new("feed.watch", -1, Group::Feed, Run::Control(watch))
        .syntax("[AFTER revision] [PREFIX p]")
        .reaches(Reach::Range(range))
        .about("Changes as they come, pushed"),
];

/// The options of a request.
struct Wish {
    after: Option<u64>,
    filter: Filter,
    limit: usize,
    wait_ms: u64,
}

/// Returns the prefix that a request reads. A request with invalid words returns no changes, and counts as
/// all keys.
fn range(words: &[&[u8]]) -> String {
    read_wish(words).ok().and_then(|wish| wish.filter.prefix).unwrap_or_default()
}

fn wish(call: &Call<'_>) -> Result<Wish, Reply> {
    let mut wish = read_wish(call.words)?;
    wish.limit = wish.limit.min(call.shared().settings.feed_changes);
    Ok(wish)
}

fn read_wish(words: &[&[u8]]) -> Result<Wish, Reply> {
    let mut arguments = Arguments::behind(words);
    let mut wish =
        Wish { after: None, filter: Filter::default(), limit: DEFAULT_LIMIT, wait_ms: 0 };
    while arguments.left() > 0 {
        if arguments.take("AFTER") {
            wish.after = Some(arguments.count()?)
        } else if arguments.take("PREFIX") {
            wish.filter.prefix = Some(arguments.text()?.to_owned());
        } else if arguments.take("LIMIT") {
            wish.limit = some(arguments.limit()?)?
        } else if arguments.take("WAIT") {
            wish.wait_ms = arguments.count()?
        } else {
            return Err(syntax_error());
        }
    }
    Ok(wish)
}

/// Checks that a limit is at least 1, as for all pages.
fn some(limit: usize) -> Result<usize, Reply> {
    match limit {
        0 => Err(Reply::error("INVALID a limit is at least 1")),
        limit => Ok(limit),
    }
}

fn read(call: &mut Call<'_>) -> Handled {
    reading(call).unwrap_or_else(Handled::Reply)
}

fn reading(call: &mut Call<'_>) -> Result<Handled, Reply> {
    let wish = wish(call)?;
    let shared = call.shared();
    let seat = shared.feed_seat(call.session.user.as_ref())?;
    let feed = shared.db.watch(wish.filter, wish.after.unwrap_or(0))?;
    let deadline_us = shared.deadline_us(wish.wait_ms);
    let until = Until::Once { deadline_us };
    let reading = Reading::new(feed, wish.limit, until, ROWS, seat);
    let mut reading = reading.told_to(call.session.user.clone()).paid_by(&call.session.account);
    match reading.look_briefly(shared.ticks_us()) {
        Some(reply) => Ok(Handled::Reply(reply)),
        None => Ok(Handled::Wait(Awaited::Changes(Box::new(reading)))),
    }
}

/// The error for a blocking read inside a transaction.
pub fn no_waiting() -> Reply {
    Reply::error("ERR waiting is not for inside a transaction")
}

fn watch(call: &mut Call<'_>) -> Handled {
    watching(call).unwrap_or_else(Handled::Reply)
}

fn watching(call: &mut Call<'_>) -> Result<Handled, Reply> {
    if call.session.protocol != Protocol::Three {
        return Err(Reply::error("ERR FEED.WATCH pushes, which RESP2 cannot: say HELLO 3 first"));
    }
    let wish = wish(call)?;
    let seat = call.shared().feed_seat(call.session.user.as_ref())?;
    // The session itself holds one reference.
    if Arc::strong_count(&call.session.watches) > WATCHES {
        return Err(Reply::error("ERR this connection watches as much as one may: connect again"));
    }
    let db = &call.shared().db;
    let limit = call.shared().settings.feed_changes;
    let after = wish.after.unwrap_or_else(|| db.revision());
    let feed = db.watch(wish.filter, after)?;
    let reading = Reading::new(feed, limit, Until::Gone, ROWS, seat);
    let reading = reading.told_to(call.session.user.clone()).paid_by(&call.session.account);
    Ok(Handled::Watch(Box::new(reading.counted(call.session.watches.clone()))))
}

/// Rows have no values and no position. A client continues after the revision of the last row.
const ROWS: Telling = Telling { shape: rows, values: false, place: false };

/// Changes as a client sees them.
fn rows(read: mainstay::Result<Found>) -> Reply {
    match read {
        Ok(found) => Reply::Array(found.events.into_iter().map(row).collect()),
        Err(error) => error.into(),
    }
}

fn row(event: Event) -> Reply {
    Reply::Array(vec![
        Reply::number(event.revision),
        Reply::number(event.stamp),
        Reply::text(event.branch),
        Reply::text(contract(event.contract)),
        Reply::text(event.key),
        Reply::text(change(event.kind)),
    ])
}
