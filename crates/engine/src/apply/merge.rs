//! Merging one branch into another, in one transaction.

use crate::apply::branches::Context;
use crate::catalog::MergeRecord;
use crate::compare::{Comparison, Item, Triple};
use crate::entry::DELETED;
use crate::index::NEWEST;
use crate::overlay::{Overlay, Payload, Write};
use crate::spaces;
use mainstay_model::limits::TRANSACTION_LIMIT_COMMANDS;
use mainstay_model::{Answer, Code, Error, MergeStrategy, Name, Result};

/// Brings the changes of `from` into `into`.
pub(crate) fn merge(
    context: &Context<'_>,
    overlay: &mut Overlay,
    from: &Name,
    into: &Name,
    strategy: MergeStrategy,
) -> Result<Answer> {
    let source = context.catalog.live(from.as_str())?.id;
    let target = context.catalog.live(into.as_str())?.id;
    if source == target {
        let message = format!("`{from}` cannot be merged into itself");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let (a, b) = ((source, NEWEST), (target, NEWEST));
    let comparison = Comparison::new(context.index, context.catalog, a, b, context.now)?;
    let names = names(context, source, &comparison)?;
    check_size(names.len())?;
    let mut conflicts = Vec::new();
    for name in names {
        let triple = comparison.triple(name)?;
        if !triple.a_changed() || triple.agrees() {
            continue;
        }
        match (triple.b_changed(), strategy) {
            (true, MergeStrategy::Strict) => {
                conflicts.push(String::from_utf8_lossy(&triple.name).into_owned());
            }
            (true, MergeStrategy::Ours) => {}
            _ => take(context, overlay, target, &triple)?,
        }
    }
    if !conflicts.is_empty() {
        let message = format!(
            "`{from}` and `{into}` both changed {} keys: merge with theirs or ours",
            conflicts.len()
        );
        return Err(Error::new(Code::MergeConflict, message).with_keys(conflicts));
    }
    record(context, overlay, source, target)?;
    Ok(Answer::Revision(context.revision))
}

/// The names that the source may have changed, from its candidates if they are still the right ones.
fn names(context: &Context<'_>, source: u32, comparison: &Comparison<'_>) -> Result<Vec<Item>> {
    let found = context.candidates.and_then(|c| c.all(source, comparison.base, context.trail));
    match found {
        Some(names) => Ok(names),
        None => Ok(comparison.changed_in_a()?.into_iter().collect()),
    }
}

/// Writes the source's side to the target; the counter never falls.
fn take(context: &Context<'_>, overlay: &mut Overlay, target: u32, triple: &Triple) -> Result<()> {
    let key = spaces::key(triple.space, target, &triple.name);
    let hash = context.index.current.hash(&key);
    let counter = (triple.b.counter + 1).max(triple.a.counter);
    let write = Write {
        flags: if triple.a.payload.is_some() { 0 } else { DELETED },
        counter,
        writes: counter - triple.b.counter,
        expires: triple.a.expires,
        prior: triple.b.marked,
        payload: Payload::Bytes(triple.a.payload.as_deref().unwrap_or_default()),
    };
    overlay.write(key, hash, write)
}

/// Remembers the merge, so that the next one starts from here.
fn record(context: &Context<'_>, overlay: &mut Overlay, source: u32, target: u32) -> Result<()> {
    let from_revision = context.revision - 1;
    let record = MergeRecord { from_revision, into_revision: context.revision };
    context.write(overlay, &record.key(target, source), &record.encode())
}

fn check_size(names: usize) -> Result<()> {
    if names <= TRANSACTION_LIMIT_COMMANDS {
        return Ok(());
    }
    let message = format!(
        "the merge touches {names} keys, {TRANSACTION_LIMIT_COMMANDS} are the most: merge in steps"
    );
    Err(Error::new(Code::TransactionTooLarge, message))
}
