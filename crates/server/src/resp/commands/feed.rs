//! Commands on the feed of changes: `FEED.READ_DATA`, `FEED.WATCH`.

use super::branches::{change_name, contract_name};
use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::blocking_reads::{BlockingRead, FeedFormat, FeedPage, FeedRead, ReadEnd};
use crate::resp::connection_state::{CommandContext, CommandOutcome};
use crate::resp::permissions::KeyScope;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::table::{Group, Handler, Spec};
use mainstay::{Event, Filter};
use std::sync::Arc;

/// The most subscriptions of one connection.
const SUBSCRIPTION_LIMIT: usize = 16;
/// The default limit for changes.
const DEFAULT_LIMIT: usize = 100;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    Spec::new("feed.read", -1, Group::Feed, Handler::Control(read))
        .key_scope(KeyScope::Range(range))
        .syntax("[AFTER revision] [PREFIX p] [LIMIT n] [WAIT ms]")
        .summarize("Committed changes behind a revision, in order"),
    Spec::new("feed.watch", -1, Group::Feed, Handler::Control(watch))
        .syntax("[AFTER revision] [PREFIX p]")
        .key_scope(KeyScope::Range(range))
        .summarize("Changes as they come, pushed"),
];

/// The options of a request.
struct FeedOptions {
    after: Option<u64>,
    filter: Filter,
    limit: usize,
    wait_ms: u64,
}

/// Returns the prefix that a request reads. A request with invalid words returns no changes, and counts as
/// all keys.
fn range(words: &[&[u8]]) -> String {
    parse_feed_options(words).ok().and_then(|options| options.filter.prefix).unwrap_or_default()
}

fn feed_options(context: &CommandContext<'_>) -> Result<FeedOptions, Reply> {
    let mut options = parse_feed_options(context.words)?;
    options.limit = options.limit.min(context.shared().settings.feed_changes);
    Ok(options)
}

fn parse_feed_options(words: &[&[u8]]) -> Result<FeedOptions, Reply> {
    let mut arguments = Arguments::after_first(words);
    let mut options =
        FeedOptions { after: None, filter: Filter::default(), limit: DEFAULT_LIMIT, wait_ms: 0 };
    while arguments.remaining() > 0 {
        if arguments.take_keyword("AFTER") {
            options.after = Some(arguments.count()?)
        } else if arguments.take_keyword("PREFIX") {
            options.filter.prefix = Some(arguments.text()?.to_owned());
        } else if arguments.take_keyword("LIMIT") {
            options.limit = positive_limit(arguments.limit()?)?
        } else if arguments.take_keyword("WAIT") {
            options.wait_ms = arguments.count()?
        } else {
            return Err(syntax_error());
        }
    }
    Ok(options)
}

/// Checks that a limit is at least 1, as for all pages.
fn positive_limit(limit: usize) -> Result<usize, Reply> {
    match limit {
        0 => Err(Reply::error("INVALID a limit is at least 1")),
        limit => Ok(limit),
    }
}

fn read(context: &mut CommandContext<'_>) -> CommandOutcome {
    try_read(context).unwrap_or_else(CommandOutcome::Reply)
}

fn try_read(context: &mut CommandContext<'_>) -> Result<CommandOutcome, Reply> {
    let options = feed_options(context)?;
    let shared = context.shared();
    let slot = shared.reserve_feed_slot(context.state.user.as_ref())?;
    let feed = shared.db.watch(options.filter, options.after.unwrap_or(0))?;
    let deadline_us = shared.deadline_us(options.wait_ms);
    let until = ReadEnd::FirstResult { deadline_us };
    let read = FeedRead::new(feed, options.limit, until, ROWS, slot);
    let mut read = read.for_user(context.state.user.clone()).charged_to(&context.state.account);
    match read.poll_briefly(shared.ticks_us()) {
        Some(reply) => Ok(CommandOutcome::Reply(reply)),
        None => Ok(CommandOutcome::BlockingRead(BlockingRead::Changes(Box::new(read)))),
    }
}

/// The error for a blocking read inside a transaction.
pub fn waiting_not_allowed() -> Reply {
    Reply::error("ERR waiting is not for inside a transaction")
}

fn watch(context: &mut CommandContext<'_>) -> CommandOutcome {
    try_watch(context).unwrap_or_else(CommandOutcome::Reply)
}

fn try_watch(context: &mut CommandContext<'_>) -> Result<CommandOutcome, Reply> {
    if context.state.protocol != Protocol::Three {
        return Err(Reply::error("ERR FEED.WATCH pushes, which RESP2 cannot: say HELLO 3 first"));
    }
    let options = feed_options(context)?;
    let slot = context.shared().reserve_feed_slot(context.state.user.as_ref())?;
    // The session itself holds one reference.
    if Arc::strong_count(&context.state.subscriptions) > SUBSCRIPTION_LIMIT {
        return Err(Reply::error("ERR this connection watches as much as one may: connect again"));
    }
    let db = &context.shared().db;
    let limit = context.shared().settings.feed_changes;
    let after = options.after.unwrap_or_else(|| db.revision());
    let feed = db.watch(options.filter, after)?;
    let read = FeedRead::new(feed, limit, ReadEnd::Disconnect, ROWS, slot);
    let read = read.for_user(context.state.user.clone()).charged_to(&context.state.account);
    Ok(CommandOutcome::Subscription(Box::new(read.counted_by(context.state.subscriptions.clone()))))
}

/// Rows have no values and no position. A client continues after the revision of the last row.
const ROWS: FeedFormat = FeedFormat { format: rows_reply, values: false, position: false };

/// Changes as a client sees them.
fn rows_reply(read: mainstay::Result<FeedPage>) -> Reply {
    match read {
        Ok(page) => Reply::Array(page.events.into_iter().map(row).collect()),
        Err(error) => error.into(),
    }
}

fn row(event: Event) -> Reply {
    Reply::Array(vec![
        Reply::number(event.revision),
        Reply::number(event.stamp),
        Reply::text(event.branch),
        Reply::text(contract_name(event.contract)),
        Reply::text(event.key),
        Reply::text(change_name(event.kind)),
    ])
}
