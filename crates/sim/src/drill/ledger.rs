//! The ledger: matches reported operations with the versions in the database, one to one.

use super::branches::Branches;
use super::journal::{Ack, End, Entry, Run};
use super::op::{Id, Op};
use super::sight::{Past, Seen, Sight};
use super::{HOT_CELLS, Outcome, account, cas_cell, hot_cell, mark_cell, own_cell};
use mainstay::{Database, Revision, Value};
use std::collections::BTreeMap;

/// The expected effect of an operation on a cell.
enum Effect {
    Value(Value),
    Deleted,
    /// The numeric value changes by this amount.
    Delta(i64),
}

impl Effect {
    fn is(&self, seen: &Seen) -> bool {
        let number = |value: &Option<Value>| value.as_ref().map_or(Some(0), Value::as_i64);
        match self {
            Effect::Value(value) => seen.entry.value.as_ref() == Some(value),
            Effect::Deleted => seen.entry.value.is_none(),
            Effect::Delta(by) => {
                let from = number(&seen.before);
                let to = number(&seen.entry.value);
                seen.entry.value.is_some()
                    && from.zip(to).is_some_and(|(from, to)| from.checked_add(*by) == Some(to))
            }
        }
    }
}

/// The effects of an operation on `main`, in the order of its answers.
fn effects(id: Id, op: &Op) -> Vec<(String, Effect)> {
    match op {
        Op::Set { k, filler, .. } => {
            vec![(own_cell(id.thread, *k), Effect::Value(id.value(*filler)))]
        }
        Op::Delete { k, .. } => vec![(own_cell(id.thread, *k), Effect::Deleted)],
        Op::Hot { k, .. } => vec![(hot_cell(*k), Effect::Delta(1))],
        Op::Cas { k, filler, .. } => vec![(cas_cell(*k), Effect::Value(id.value(*filler)))],
        Op::Move { from, to, amount, .. } => vec![
            (account(*from), Effect::Delta(-amount)),
            (account(*to), Effect::Delta(*amount)),
            (mark_cell(id.thread), Effect::Value(id.value(0))),
        ],
        _ => Vec::new(),
    }
}

/// A request that can be repeated.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its id.
    pub id: Id,
    /// Its operation.
    pub op: Op,
    /// Its acknowledgement, if it received one.
    pub ack: Option<Ack>,
    /// Its revision, if its effects were found.
    pub revision: Option<Revision>,
}

/// The verified state, over all crashes.
#[derive(Default)]
pub struct Ledger {
    /// All versions known to exist.
    pub past: Past,
    /// The newest revision that was checked.
    pub tip: Revision,
    /// The number of writes acknowledged as durable that were found.
    pub acknowledged: u64,
    /// The number of writes acknowledged without durability that were lost.
    pub unsynced_lost: u64,
    branches: Branches,
    /// By counter: the number of acknowledged increments, and of all that may have happened.
    hot: BTreeMap<String, (u64, u64)>,
}

/// The result of settling a cycle.
pub struct Settled {
    /// Requests to repeat.
    pub requests: Vec<Request>,
    /// The operation that owns each new revision, as far as it is known.
    pub owners: BTreeMap<Revision, Id>,
    /// The maximum number of other revisions that operations on branches can explain.
    pub open_branch_ops: u64,
}

/// State of the matching of a cycle.
struct Settling<'a> {
    runs: &'a [Run],
    /// The newest revision that each process acknowledged as durable.
    promised: Vec<Revision>,
    sight: Sight,
    there: Vec<String>,
    settled: Settled,
}

impl Ledger {
    /// Matches the journals of a cycle's processes with the current content of the database.
    pub fn settle(&mut self, db: &Database, runs: &[Run]) -> Outcome<Settled> {
        let tip = db.revision();
        // Later revisions are internal: the database sweeps and fills indexes as soon as it is open.
        let found = db.open_report().revision;
        let sight = Sight::take(db, &mut self.past)?;
        let there = db.branches().into_iter().map(|branch| branch.name).collect();
        let owners = BTreeMap::new();
        let settled = Settled { requests: Vec::new(), owners, open_branch_ops: 0 };
        let promised = runs.iter().map(Run::promised).collect();
        let mut settling = Settling { runs, promised, sight, there, settled };
        if let Some(opened) = runs.iter().filter_map(|run| run.opened).find(|at| *at > found) {
            return Err(format!(
                "LOST: a process was opened at revision {opened}, but the log ends at {found}"
            ));
        }
        for at in 0..runs.len() {
            settling.own(at, limit(runs, at, found))?;
        }
        for (at, run) in runs.iter().enumerate() {
            for entry in &run.entries {
                self.entry(&mut settling, at, limit(runs, at, found), entry)?;
            }
        }
        if let Some((cell, seen)) = settling.sight.rest().next() {
            return Err(format!("nobody announced `{cell}`: {:?}", seen.entry));
        }
        self.branches.check(db)?;
        self.check_hot()?;
        self.tip = tip;
        Ok(settling.settled)
    }

    fn entry(
        &mut self,
        settling: &mut Settling<'_>,
        at: usize,
        limit: Revision,
        entry: &Entry,
    ) -> Outcome<()> {
        self.count_hot(entry, limit);
        let found = match &entry.end {
            End::Failed => return Ok(()),
            End::Acknowledged(ack) if ack.revision > limit => {
                // A broken durability promise would have been reported before.
                self.unsynced_lost += 1;
                None
            }
            End::Acknowledged(ack) => {
                self.acknowledged += u64::from(ack.revision <= settling.promised[at]);
                self.acknowledged(settling, entry, ack)?;
                Some(ack.revision)
            }
            End::Unknown => self.unknown(settling, at, entry)?,
        };
        if entry.op.has_request() {
            let ack = match &entry.end {
                End::Acknowledged(ack) if found.is_some() => Some(ack.clone()),
                _ => None,
            };
            let id = entry.id;
            let op = entry.op.clone();
            settling.settled.requests.push(Request { id, op, ack, revision: found });
        }
        Ok(())
    }

    /// Every effect of an acknowledged operation must exist at its revision.
    fn acknowledged(&mut self, s: &mut Settling<'_>, entry: &Entry, ack: &Ack) -> Outcome<()> {
        let id = entry.id;
        let op = &entry.op;
        match op {
            Op::Fork { branch } => self.branches.fork(branch, id.thread),
            Op::Put { branch, k, filler } => {
                self.branches.put(branch, *k, id.value(*filler), true)?;
            }
            Op::Merge { branch } => self.branches.merged(branch, ack.revision, &mut s.sight)?,
            Op::Drop { branch } => self.branches.drop(branch),
            _ => {}
        }
        for (position, (cell, effect)) in effects(id, op).iter().enumerate() {
            let seen = s.sight.get(ack.revision, cell);
            let lost = |what: &str| {
                format!("LOST: {id} ({op}) was acknowledged as {ack:?}, but `{cell}` {what}")
            };
            let seen = seen.ok_or_else(|| lost("has no version of it"))?;
            let told = ack.counter(position);
            let counter = told.is_none_or(|told| told.0 == seen.entry.counter);
            let number = told.and_then(|told| told.1).map(Value::from);
            let number = number.is_none_or(|number| seen.entry.value.as_ref() == Some(&number));
            if !effect.is(seen) || !counter || !number {
                return Err(lost(&format!("has {:?} after {:?}", seen.entry, seen.before)));
            }
            s.sight.claim(ack.revision, cell);
        }
        Ok(())
    }

    /// An operation with unknown outcome must have left all of its effects or none.
    fn unknown(
        &mut self,
        s: &mut Settling<'_>,
        at: usize,
        entry: &Entry,
    ) -> Outcome<Option<Revision>> {
        let id = entry.id;
        let op = &entry.op;
        if let Some(branch) = op.branch() {
            s.settled.open_branch_ops += 1;
            // A later process that works on the branch proves that it existed.
            let mut later = s.runs[at + 1..].iter().flat_map(|run| &run.entries);
            let named = later.any(|later| later.op.branch() == Some(branch));
            let there = named || s.there.iter().any(|name| name == branch);
            match op {
                Op::Fork { .. } if there => self.branches.fork(branch, id.thread),
                Op::Drop { .. } if !there => self.branches.drop(branch),
                Op::Put { k, filler, .. } => {
                    self.branches.put(branch, *k, id.value(*filler), false)?;
                }
                Op::Merge { .. } => {
                    let owners = &s.settled.owners;
                    let sight = &mut s.sight;
                    let found = self.branches.maybe_merged(branch, owners, sight)?;
                    s.settled.owners.extend(found.map(|revision| (revision, id)));
                }
                _ => {}
            }
            return Ok(None);
        }
        let effects = effects(id, op);
        // Only operations whose last effect contains their id can be identified.
        let Some((cell, effect)) = effects.last() else { return Ok(None) };
        let matches = |revision: &Revision| {
            !s.settled.owners.contains_key(revision)
                && s.sight.get(*revision, cell).is_some_and(|seen| effect.is(seen))
        };
        let Some(revision) = s.sight.revisions_of(cell).find(matches) else { return Ok(None) };
        for (cell, effect) in &effects {
            if !s.sight.get(revision, cell).is_some_and(|seen| effect.is(seen)) {
                let there = s.sight.at(revision);
                return Err(format!(
                    "torn: {id} ({op}) is at revision {revision} only in part: {there:?}"
                ));
            }
        }
        effects.iter().for_each(|(cell, _)| s.sight.claim(revision, cell));
        s.settled.owners.insert(revision, id);
        Ok(Some(revision))
    }

    fn count_hot(&mut self, entry: &Entry, limit: Revision) {
        if let (Op::Hot { k, .. }, end) = (&entry.op, &entry.end) {
            let count = self.hot.entry(hot_cell(*k)).or_default();
            let there = matches!(end, End::Acknowledged(ack) if ack.revision <= limit);
            count.0 += u64::from(there);
            count.1 += u64::from(*end != End::Failed);
        }
    }

    /// A counter lies between the increments acknowledged and those started, and each of its versions counts
    /// as one.
    fn check_hot(&self) -> Outcome<()> {
        for cell in (0..HOT_CELLS).map(hot_cell) {
            let (least, most) = self.hot.get(&cell).copied().unwrap_or_default();
            let count =
                self.past.get(&cell).and_then(|known| known.last()).map_or(0, |k| k.counter);
            if count < least || count > most {
                return Err(format!("LOST: `{cell}` is at {count}, not in {least}..={most}"));
            }
        }
        Ok(())
    }
}

impl Settling<'_> {
    /// Records the owner of each acknowledged revision, and checks durability promises and order.
    fn own(&mut self, at: usize, limit: Revision) -> Outcome<()> {
        let run = &self.runs[at];
        let promised = self.promised[at];
        if promised > limit {
            return Err(format!(
                "LOST: revision {promised} was acknowledged as durable, but the log ends at {limit}"
            ));
        }
        let mut last: BTreeMap<u64, Revision> = BTreeMap::new();
        for Entry { id, op, end } in &run.entries {
            let End::Acknowledged(ack) = end else { continue };
            if *op == Op::Sync || ack.revision > limit {
                continue;
            }
            if last.insert(id.thread, ack.revision).is_some_and(|last| last >= ack.revision) {
                return Err(format!("{id} ({op}) has a revision that is not newer: {ack:?}"));
            }
            if let Some(other) = self.settled.owners.insert(ack.revision, *id) {
                return Err(format!("{id} and {other} were both given revision {}", ack.revision));
            }
        }
        Ok(())
    }
}

/// The revision up to which a process's work survived: the one at which the next process opened the database.
fn limit(runs: &[Run], at: usize, found: Revision) -> Revision {
    runs[at + 1..].iter().find_map(|run| run.opened).unwrap_or(found)
}
