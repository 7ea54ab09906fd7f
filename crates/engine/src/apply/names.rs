//! Names, be they those of cells or of records: to clients of Redis a name is one thing.

use super::{cells, key_state, records};
use crate::key::keyspace;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::limits::PAGE_LIMIT;
use mainstay_model::{
    Answer, CellCommand, Code, Contract, Error, KeyCommand, Name, Page, RecordCommand, Result,
    SmallVec, Stamp,
};
use std::collections::BTreeSet;

/// The kinds of state whose names are keys to clients of Redis.
pub(crate) const KINDS: [Contract; 2] = [Contract::Cells, Contract::Records];

/// The most prefixes that a list of names hides.
const HIDDEN_LIMIT: usize = 16;

/// The earliest expiry among the names of a kind that others wrote.
pub(crate) type Expiries = SmallVec<[(Contract, Option<Stamp>); 2]>;

/// Runs a command on names, in the transaction that the overlay belongs to.
pub(crate) fn run(view: &View<'_>, overlay: &mut WriteSet, command: &KeyCommand) -> Result<Answer> {
    match command {
        KeyCommand::Clear { limit, hidden } => {
            clear(view, overlay, hidden, *limit).map(Answer::Count)
        }
        command => read(view, overlay, command),
    }
}

/// Answers a command that only reads.
pub(crate) fn read(view: &View<'_>, overlay: &WriteSet, command: &KeyCommand) -> Result<Answer> {
    read_until(view, overlay, command).map(|(answer, _)| answer)
}

/// Answers a command that only reads, and says when the first of the names expires, for each kind.
pub(crate) fn read_until(
    view: &View<'_>,
    overlay: &WriteSet,
    command: &KeyCommand,
) -> Result<(Answer, Expiries)> {
    match command {
        KeyCommand::Names { kinds, prefix, after, limit, hidden } => {
            let range = (prefix.as_str(), after.as_deref());
            let (page, expiries) = names(view, overlay, (kinds, hidden), range, *limit)?;
            Ok((Answer::Names(page), expiries))
        }
        KeyCommand::Count { kinds, limit, hidden } => {
            let (page, expiries) = all(view, overlay, (kinds, hidden), *limit)?;
            Ok((Answer::Count(page.names.len() as u64), expiries))
        }
        _ => Err(Error::new(Code::Unsupported, "this version does not know that read of names")),
    }
}

/// Of these kinds, the prefixes of names that are left out: records alone are hidden.
pub(crate) fn hidden_of(kind: Contract, hidden: &[String]) -> &[String] {
    if kind == Contract::Records { hidden } else { &[] }
}

/// Names of these kinds in byte order, each once, but for hidden records.
pub(crate) fn names(
    view: &View<'_>,
    overlay: &WriteSet,
    (kinds, hidden): (&[Contract], &[String]),
    (prefix, after): (&str, Option<&str>),
    limit: usize,
) -> Result<(Page, Expiries)> {
    check_hidden(hidden)?;
    let (mut all, mut more, mut expiries) = (BTreeSet::new(), false, Expiries::new());
    for kind in kinds {
        check_kind(*kind)?;
        let space = keyspace::of(*kind)?;
        let hidden = hidden_of(*kind, hidden);
        let (page, expires) =
            key_state::names(view, overlay, (space, hidden), (prefix, after), limit)?;
        more |= page.next.is_some();
        all.extend(page.names);
        expiries.push((*kind, expires));
    }
    // The first so many of all are among the first so many of each.
    let more = more || all.len() > limit;
    let names: Vec<String> = all.into_iter().take(limit).collect();
    let next = names.last().filter(|_| more).cloned();
    Ok((Page { names, next }, expiries))
}

/// All names of these kinds, unless there are more than the limit.
fn all(
    view: &View<'_>,
    overlay: &WriteSet,
    of: (&[Contract], &[String]),
    limit: usize,
) -> Result<(Page, Expiries)> {
    let (page, expiries) = names(view, overlay, of, ("", None), limit)?;
    if page.next.is_some() {
        return Err(too_many(limit));
    }
    Ok((page, expiries))
}

/// Deletes all cells and records but for hidden ones; gives how many names there were.
fn clear(view: &View<'_>, overlay: &mut WriteSet, hidden: &[String], limit: usize) -> Result<u64> {
    let (page, _) = all(view, overlay, (&KINDS, hidden), limit)?;
    // A command that fails has written nothing: the room is looked at before the first deletion.
    let key_bytes = |name: &String| KINDS.len() * (keyspace::PREFIX_BYTES + name.len());
    overlay.check_room(page.names.iter().map(key_bytes).sum())?;
    for name in &page.names {
        let is_hidden = hidden.iter().any(|prefix| name.starts_with(prefix));
        let name = Name::new(name)?;
        let record = RecordCommand::Delete { key: name.clone(), when: Vec::new() };
        cells::run(view, overlay, &CellCommand::Delete { name, counter: None })?;
        if !is_hidden {
            let revision = overlay.revision;
            records::run(view, overlay, &record, revision)?;
        }
    }
    Ok(page.names.len() as u64)
}

/// Each name is compared with all of them.
fn check_hidden(hidden: &[String]) -> Result<()> {
    if hidden.len() <= HIDDEN_LIMIT && hidden.iter().all(|prefix| !prefix.is_empty()) {
        return Ok(());
    }
    let message = format!(
        "a list of names hides those of at most {HIDDEN_LIMIT} prefixes, none of them empty; these are {}",
        hidden.len()
    );
    Err(Error::new(Code::InvalidArgument, message))
}

/// Only cells and records have names that are keys.
fn check_kind(kind: Contract) -> Result<()> {
    if KINDS.contains(&kind) {
        return Ok(());
    }
    let message = format!("names are those of cells and records, not of {kind:?}");
    Err(Error::new(Code::InvalidArgument, message))
}

#[cold]
fn too_many(limit: usize) -> Error {
    let message = format!(
        "there are more than {limit} keys, and {PAGE_LIMIT} are the most that one transaction lists, counts or deletes \
         together: go through them page by page, or ask outside of a transaction"
    );
    Error::new(Code::TransactionTooLarge, message)
}
