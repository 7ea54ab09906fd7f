//! Three-way merge of one branch into another, in one transaction.

use crate::apply::branches::BranchContext;
use crate::apply::keyed::merge::KeyedMerge;
use crate::apply::outbox::transfer::Transfer;
use crate::apply::runs::{self, merge::RunMerge};
use crate::apply::three_way_diff::{Comparison, DiffItem, ThreeWayEntry};
use crate::key::entry::{DELETED, LAPSED};
use crate::key::keyspace::{self, KEYED, RECORDS, RUNS, SPACES};
use crate::mvcc::catalog::MergeRecord;
use crate::mvcc::write_set::{Payload, Write, WriteSet};
use crate::storage::index::NEWEST;
use mainstay_model::limits::TRANSACTION_LIMIT_COMMANDS;
use mainstay_model::{Answer, Code, Error, Field, Fields, MergeStrategy, Name, Result, Stamp};
use std::collections::BTreeSet;

/// Merges the changes of `from` into `into`.
pub(crate) fn merge(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    from: &Name,
    into: &Name,
    strategy: MergeStrategy,
) -> Result<Answer> {
    try_merge(context, overlay, from, into, strategy).map_err(|error| {
        if error.code() != Code::TransactionTooLarge {
            return error;
        }
        let message = format!(
            "{}. This is the merge of `{from}` into `{into}`, which cannot be made several: merge a branch more often",
            error.message()
        );
        Error::new(Code::TransactionTooLarge, message)
    })
}

fn try_merge(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
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
    let a = (source, NEWEST);
    let b = (target, NEWEST);
    let comparison =
        Comparison::new(context.index, context.catalog, a, b, context.now, context.budget)?;
    let names = names(context, source, &comparison)?;
    let (from_layers, into_layers) = comparison.layers();
    let BranchContext { index, now, budget, .. } = *context;
    let transfer = Transfer { index, from: from_layers, into: into_layers, now, budget };
    check_size(names.len())?;
    let count = names.len();
    let mut missing = transfer.by_number(TRANSACTION_LIMIT_COMMANDS - count)?;
    check_size(count + missing.len())?;
    let mut conflicts = Vec::new();
    let mut is_unfinished = false;
    let mut states = KeyedMerge::new(context, &comparison, target, strategy);
    for name in names {
        if matches!(name.0, SPACES | KEYED) {
            conflicts.extend(states.take(overlay, &name)?);
            continue;
        }
        let triple = comparison.triple(name)?;
        if !triple.a_changed() || triple.agrees() {
            continue;
        }
        if triple.space == RUNS {
            let branches = (source, target);
            let run = String::from_utf8_lossy(&triple.name).into_owned();
            let base = comparison.base;
            match runs::merge::merge(context, overlay, branches, base, &triple, strategy)? {
                RunMerge::Done(events) => {
                    for event in events {
                        missing.extend(transfer.of_event(event)?);
                    }
                    check_size(count + missing.len())?;
                }
                RunMerge::Conflict => conflicts.push(run),
                RunMerge::Unfinished => {
                    conflicts.push(run);
                    is_unfinished = true;
                }
            }
            continue;
        }
        match outcome(&triple, strategy)? {
            Outcome::Conflict => {
                conflicts.push(String::from_utf8_lossy(&triple.name).into_owned());
            }
            Outcome::Keep => {}
            Outcome::Become { payload, expires } => {
                take(context, overlay, target, &triple, payload.as_deref(), expires)?;
            }
        }
    }
    conflicts.extend(states.finish(overlay)?);
    if !conflicts.is_empty() {
        let message = match strategy {
            _ if is_unfinished => format!(
                "{} keys of `{from}` cannot be merged into `{into}`, among them a run that is being restored or rewound: merge when \
                 that is done, or, if it was broken off, with ours, which leaves the run as it is",
                conflicts.len()
            ),
            MergeStrategy::Strict => format!(
                "`{from}` and `{into}` both changed {} keys: merge with theirs or ours",
                conflicts.len()
            ),
            _ => format!(
                "{} keys of `{from}` cannot be put together with those of `{into}`: events of a run that would not follow \
                 each other, or a run that was deleted: merge with ours, which leaves them as they are",
                conflicts.len()
            ),
        };
        return Err(Error::new(Code::MergeConflict, message).with_keys(conflicts));
    }
    context.dropped.add(transfer.bring(overlay, missing, context.desk)?);
    record(context, overlay, source, target)?;
    Ok(Answer::Revision(context.revision))
}

/// Returns the names that the source may have changed: the prepared candidates if they are still valid, else
/// the result of a scan.
fn names(
    context: &BranchContext<'_>,
    source: u32,
    comparison: &Comparison<'_>,
) -> Result<Vec<DiffItem>> {
    let found = match context.candidates {
        Some(Err(stopped)) => return Err(stopped.clone()),
        Some(Ok(candidates)) => candidates.all(source, comparison.base, context.trail),
        None => None,
    };
    found.map_or_else(|| first_names(comparison.walk_a()), Ok)
}

/// Returns the names of a scan, up to one more than a merge may have.
fn first_names(walk: impl Iterator<Item = Result<Option<DiffItem>>>) -> Result<Vec<DiffItem>> {
    let mut names = BTreeSet::new();
    for name in walk {
        names.extend(name?);
        if names.len() > TRANSACTION_LIMIT_COMMANDS {
            break;
        }
    }
    Ok(names.into_iter().collect())
}

/// Outcome for a name that the source changed.
enum Outcome {
    /// The target keeps its value.
    Keep,
    /// The target gets this payload. `None` deletes the name.
    Become { payload: Option<Vec<u8>>, expires: Option<Stamp> },
    /// Both sides changed it, and the strategy does not say which side wins.
    Conflict,
}

/// Decides the outcome for a name that the source changed. A record that exists on both sides is merged field
/// by field, all else as a whole. A record that one side deleted is not rebuilt from the fields that the
/// other side changed.
fn outcome(triple: &ThreeWayEntry, strategy: MergeStrategy) -> Result<Outcome> {
    if let (RECORDS, Some(a), Some(b)) = (triple.space, &triple.a.payload, &triple.b.payload) {
        return record_outcome(triple, a, b, strategy);
    }
    let payload = triple.a.payload.clone();
    let expires = triple.a.expires;
    Ok(match (triple.b_changed(), strategy) {
        (true, MergeStrategy::Strict) => Outcome::Conflict,
        (true, MergeStrategy::Ours) => Outcome::Keep,
        _ => Outcome::Become { payload, expires },
    })
}

fn record_outcome(
    triple: &ThreeWayEntry,
    a: &[u8],
    b: &[u8],
    strategy: MergeStrategy,
) -> Result<Outcome> {
    let base = triple.base.payload.as_deref().map(Fields::decode).transpose()?;
    let sides = [base.unwrap_or_default(), Fields::decode(a)?, Fields::decode(b)?];
    let expiries = [triple.base.expires, triple.a.expires, triple.b.expires];
    let merged = fields(&sides, strategy).zip(settle(expiries, strategy));
    let Some((fields, expires)) = merged else { return Ok(Outcome::Conflict) };
    if fields == sides[2] && expires == triple.b.expires {
        return Ok(Outcome::Keep);
    }
    let mut payload = Vec::new();
    fields.encode(&mut payload)?;
    Ok(Outcome::Become { payload: Some(payload).filter(|_| !fields.is_empty()), expires })
}

/// Merges the fields of base, source and target. Returns `None` on a conflict.
fn fields(sides: &[Fields; 3], strategy: MergeStrategy) -> Option<Fields> {
    let names: BTreeSet<&Field> =
        sides.iter().flat_map(|side| side.iter().map(|(name, _)| name)).collect();
    let mut merged = Fields::default();
    for name in names {
        let [base, a, b] = sides.each_ref().map(|side| side.get(name.as_bytes()));
        if let Some(value) = settle([base, a, b], strategy)? {
            merged.insert(name.clone(), value.to_vec());
        }
    }
    Some(merged)
}

/// Merges one value of base, source and target. Returns `None` on a conflict.
fn settle<T: PartialEq>([base, a, b]: [T; 3], strategy: MergeStrategy) -> Option<T> {
    match (a == base || a == b, b == base, strategy) {
        (true, _, _) => Some(b),
        (false, true, _) | (_, _, MergeStrategy::Theirs) => Some(a),
        (_, _, MergeStrategy::Ours) => Some(b),
        (_, _, MergeStrategy::Strict) => None,
    }
}

/// Writes the merged value to the target. The counter never decreases.
fn take(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    target: u32,
    triple: &ThreeWayEntry,
    payload: Option<&[u8]>,
    expires: Option<Stamp>,
) -> Result<()> {
    let key = keyspace::key(triple.space, target, &triple.name);
    let hash = context.index.current.hash(&key);
    // An expiry before this write counts as a write.
    let lapsed = triple.b.lapsed;
    let counter = (triple.b.counter + 1 + u64::from(lapsed)).max(triple.a.counter);
    let deleted = if payload.is_some() { 0 } else { DELETED };
    let write = Write {
        // The expiry of an inherited version is reported on the branch that owns the version.
        flags: deleted | if lapsed && triple.b.marked.is_some() { LAPSED } else { 0 },
        counter,
        writes: counter - triple.b.counter,
        // A deleted name has no expiry.
        expires: expires.filter(|_| payload.is_some()),
        prior: triple.b.marked,
        payload: Payload::Bytes(payload.unwrap_or_default()),
    };
    overlay.write(key, hash, write)
}

/// Records the merge, so that the next merge starts from here.
fn record(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    source: u32,
    target: u32,
) -> Result<()> {
    let from_revision = context.revision - 1;
    let record = MergeRecord { from_revision, into_revision: context.revision };
    context.write(overlay, &record.key(target, source), &record.encode())
}

fn check_size(names: usize) -> Result<()> {
    if names <= TRANSACTION_LIMIT_COMMANDS {
        return Ok(());
    }
    let message = format!(
        "it touches more than {TRANSACTION_LIMIT_COMMANDS} keys and messages, which are the most"
    );
    Err(Error::new(Code::TransactionTooLarge, message))
}
