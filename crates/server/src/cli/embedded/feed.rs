//! The feed, page by page.

use super::words::Words;
use super::{Answer, Embedded, Refusal};
use crate::cli::reply::Reply;
use mainstay::{ChangeKind, Contract, Event, Filter};
use std::time::Duration;

const PAGE_LIMIT: usize = 1000;

/// The changes after a revision; a page holds whole transactions, so that none is lost between pages.
pub fn read(store: &mut Embedded, words: &mut Words) -> super::Known {
    match store.connection.in_transaction() {
        true => Err(Refusal::not_inside(words.command())),
        false => page(store, words).map(Some),
    }
}

fn page(store: &mut Embedded, words: &mut Words) -> Answer {
    let options = words.options(&[], &["AFTER", "PREFIX", "LIMIT", "WAIT"])?;
    let limit: usize = options.number("LIMIT")?.unwrap_or(PAGE_LIMIT);
    let wait = Duration::from_millis(options.number("WAIT")?.unwrap_or(0));
    let oldest = || store.db.stats().log_first.saturating_sub(1);
    let after = options.number("AFTER")?.unwrap_or_else(oldest);
    let filter = Filter { prefix: options.text("PREFIX")?, ..Filter::default() };
    let mut feed = store.db.watch(filter, after)?;
    let (mut rows, mut last, mut patience) = (Vec::new(), 0, wait);
    while let Some(event) = feed.next(patience)? {
        if rows.len() >= limit && event.revision != last {
            break;
        }
        (last, patience) = (event.revision, Duration::ZERO);
        rows.push(row(&event));
    }
    Ok(Reply::Array(rows))
}

fn row(event: &Event) -> Reply {
    let texts = [&event.branch, contract(event.contract), &event.key, kind(event.kind)];
    let numbers = [event.revision, event.stamp].map(Reply::number);
    Reply::Array(numbers.into_iter().chain(texts.map(Reply::text)).collect())
}

/// The word for a kind of state.
pub fn contract(contract: Contract) -> &'static str {
    match contract {
        Contract::Cells => "cells",
        Contract::Branches => "branches",
        _ => "other",
    }
}

fn kind(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Set => "set",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Expired => "expired",
        ChangeKind::Forked => "forked",
        ChangeKind::BranchDeleted => "branch_deleted",
        ChangeKind::Renamed => "renamed",
        ChangeKind::Merged => "merged",
        ChangeKind::Tagged => "tagged",
        ChangeKind::Untagged => "untagged",
        _ => "other",
    }
}
