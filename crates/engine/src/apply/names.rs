//! Names across cells and records: for Redis clients, a key has one type.

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

/// Kinds of state whose names are keys for Redis clients.
pub const KINDS: [Contract; 2] = [Contract::Cells, Contract::Records];

/// Maximal number of hidden prefixes of one list.
const HIDDEN_LIMIT: usize = 16;

/// For each kind, the earliest expiry among the names that other transactions wrote.
pub(crate) type Expiries = SmallVec<[(Contract, Option<Stamp>); 2]>;

/// Runs a command on names within a transaction.
pub(crate) fn run(view: &View<'_>, overlay: &mut WriteSet, command: &KeyCommand) -> Result<Answer> {
    match command {
        KeyCommand::Clear { limit, hidden } => {
            clear(view, overlay, hidden, *limit).map(Answer::Count)
        }
        command => read(view, overlay, command),
    }
}

/// Answers a read-only command.
pub(crate) fn read(view: &View<'_>, overlay: &WriteSet, command: &KeyCommand) -> Result<Answer> {
    read_until(view, overlay, command).map(|(answer, _)| answer)
}

/// Answers a read-only command, and returns the earliest expiry of the names for each kind.
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

/// Returns the hidden prefixes that apply to a kind. Only records can be hidden.
pub fn hidden_of(kind: Contract, hidden: &[String]) -> &[String] {
    if kind == Contract::Records { hidden } else { &[] }
}

/// Lists names of these kinds in byte order, each once, without hidden records.
pub(crate) fn names(
    view: &View<'_>,
    overlay: &WriteSet,
    (kinds, hidden): (&[Contract], &[String]),
    (prefix, after): (&str, Option<&str>),
    limit: usize,
) -> Result<(Page, Expiries)> {
    check_hidden(hidden)?;
    let mut all = BTreeSet::new();
    let mut more = false;
    let mut expiries = Expiries::new();
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
    // The first `limit` names of all kinds are among the first `limit` names of each kind.
    let more = more || all.len() > limit;
    let names: Vec<String> = all.into_iter().take(limit).collect();
    let next = names.last().filter(|_| more).cloned();
    Ok((Page { names, next }, expiries))
}

/// Lists all names of these kinds. Fails if more than `limit` exist.
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

/// Deletes all cells, and all records that are not hidden. Returns the number of names.
fn clear(view: &View<'_>, overlay: &mut WriteSet, hidden: &[String], limit: usize) -> Result<u64> {
    let (page, _) = all(view, overlay, (&KINDS, hidden), limit)?;
    // A command that fails must have written nothing, so the room is checked before the first deletion.
    overlay.check_room(
        page.names.iter().map(|name| KINDS.len() * (keyspace::PREFIX_BYTES + name.len())).sum(),
    )?;
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

/// Limits the number of hidden prefixes, because each name is compared with all of them.
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

/// Refuses other kinds than cells and records, because only their names are keys.
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
