//! Invariants of the database as a whole, independent of the journals.

use super::journal::{Ack, End, Entry, Run};
use super::ledger::{Ledger, Request, Settled};
use super::op::answers;
use super::records;
use super::sight::{Known, hash};
use super::{ACCOUNTS, Outcome, account};
use mainstay::{
    At, ChangeKind, Code, Contract, Database, ErrorKind, Filter, MAIN, Revision, Value,
};
use mainstay_conformance::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

/// Number of past revisions checked each time.
const PAST_REVISIONS: u64 = 10;
/// Number of cells checked at each of them.
const PAST_CELLS: u64 = 8;
/// Approximate number of new acknowledged requests repeated each time, plus a quarter of it from earlier ones.
const REQUESTS: usize = 200;

/// The account balances sum to zero, now and at past revisions, and past values are unchanged.
pub fn check_past(db: &Database, ledger: &Ledger, random: &mut Random) -> Outcome<()> {
    check_at(db, ledger, ledger.tip, random)?;
    for _ in 0..PAST_REVISIONS {
        check_at(db, ledger, random.below(ledger.tip + 1), random)?;
    }
    Ok(())
}

fn check_at(
    db: &Database,
    ledger: &Ledger,
    revision: Revision,
    random: &mut Random,
) -> Outcome<()> {
    let told = |error: mainstay::Error| format!("reading at revision {revision}: {error}");
    let cells = db.cells().at(At::Revision(revision)).map_err(told)?;
    let records = db.records().at(At::Revision(revision)).map_err(told)?;
    let mut sum = 0;
    for k in 0..ACCOUNTS {
        let balance = cells.get(&account(k)).map_err(told)?;
        sum += balance.as_ref().and_then(Value::as_i64).unwrap_or(0);
    }
    if sum != 0 {
        return Err(format!("the accounts hold {sum} instead of 0 at revision {revision}"));
    }
    for _ in 0..PAST_CELLS {
        let at = random.below(ledger.past.len() as u64) as usize;
        let Some((name, known)) = ledger.past.iter().nth(at) else { continue };
        let end = known.partition_point(|known| known.revision <= revision);
        let expected = known[..end].last().filter(|known| known.value.is_some());
        let expected = expected.map(|known| (known.counter, known.revision, known.value));
        let found = cells.get_versioned(name).map_err(told)?;
        if name.starts_with("own/") {
            let record = records.get(name).map_err(told)?;
            let place = format!("at revision {revision}");
            records::agree(&place, name, found.as_ref(), record.as_ref())?;
        }
        let found = found.map(|cell| (cell.counter, cell.revision, Some(hash(&cell.value))));
        if found != expected {
            return Err(format!(
                "`{name}` at revision {revision} reads as {found:?} instead of {expected:?}"
            ));
        }
    }
    Ok(())
}

/// Every version of every cell is unchanged.
pub fn check_everything(db: &Database, ledger: &Ledger) -> Outcome<()> {
    for (name, known) in &ledger.past {
        let mut found = Vec::new();
        let mut before = None;
        loop {
            let page = db.cells().history(name, 50_000, before);
            let page = page.map_err(|error| format!("history of `{name}`: {error}"))?;
            let Some(last) = page.last() else { break };
            before = Some(last.counter);
            found.extend(page.iter().map(Known::of));
        }
        found.reverse();
        if found != *known {
            let at = found.iter().zip(known).take_while(|(a, b)| a == b).count();
            return Err(format!(
                "LOST: version {at} of `{name}` is {:?} instead of {:?}",
                found.get(at),
                known.get(at)
            ));
        }
    }
    Ok(())
}

/// The feed contains every revision from the start of the log to its end, and its events for new revisions
/// match the cell histories.
///
/// Revisions without a known owner come from operations on branches, from sealing keyed state, or from the
/// database itself. Of the latter, a sweep delivers only expiries, and index maintenance delivers no events.
pub fn check_feed(
    db: &Database,
    ledger: &Ledger,
    settled: &Settled,
    since: Revision,
) -> Outcome<()> {
    let tip = ledger.tip;
    let start = beginning(db, tip)?;
    let told = |error: mainstay::Error| format!("the feed after {start}: {error}");
    let mut feed = db.watch(Filter::default(), start).map_err(told)?;
    let mut last = start;
    // Revisions with events other than expiries.
    let mut told_of: BTreeSet<Revision> = BTreeSet::new();
    let mut versions: BTreeMap<(String, Revision), Known> = BTreeMap::new();
    for (name, known) in &ledger.past {
        let from = known.partition_point(|known| known.revision <= since.max(start));
        versions.extend(known[from..].iter().map(|k| ((name.clone(), k.revision), *k)));
    }
    while last < tip || feed.position() < tip {
        let event = feed.next(Duration::ZERO).map_err(told)?;
        let Some(event) = event else {
            if feed.position() < tip {
                return Err(format!("the feed ends at revision {last}, the database at {tip}"));
            }
            silent(settled, last + 1..tip + 1)?;
            break;
        };
        silent(settled, last + 1..event.revision)?;
        if event.revision < last {
            return Err(format!("the feed goes from revision {last} to {}", event.revision));
        }
        last = event.revision;
        // Writers also seal waiting writes and open sessions, which they do not report.
        let beside = matches!(event.contract, Contract::Keyed | Contract::Sessions);
        if event.kind != ChangeKind::Expired && !beside {
            told_of.insert(last);
        }
        if event.branch != MAIN || event.contract != Contract::Cells || last <= since {
            continue;
        }
        let known = versions.remove(&(event.key.clone(), last));
        let value = event.value.as_ref().map(hash);
        let counter = event.counter;
        let same = known.is_some_and(|known| known.value == value && known.counter == counter);
        if !same || (event.kind == ChangeKind::Deleted) != value.is_none() {
            return Err(format!("the feed tells {event:?}, the cell's history {known:?}"));
        }
    }
    if let Some(untold) = versions.first_key_value() {
        return Err(format!("the feed does not tell of {untold:?}"));
    }
    let nobodys = told_of.range(since + 1..=tip);
    let nobodys = nobodys.filter(|revision| !settled.owners.contains_key(revision)).count() as u64;
    if nobodys > settled.open_branch_ops {
        return Err(format!(
            "of the revisions from {since} to {tip}, nobody announced {nobodys}; operations on \
             branches explain {}",
            settled.open_branch_ops
        ));
    }
    Ok(())
}

/// Fails if a revision in the range has an owner, because the feed left it out.
fn silent(settled: &Settled, revisions: Range<Revision>) -> Outcome<()> {
    let mut owned = revisions.filter_map(|revision| settled.owners.get_key_value(&revision));
    match owned.next() {
        Some((revision, id)) => Err(format!("the feed leaves out revision {revision} of {id}")),
        None => Ok(()),
    }
}

/// The revision after which the log starts, found by binary search.
fn beginning(db: &Database, tip: Revision) -> Outcome<Revision> {
    let mut trimmed = 0;
    let mut kept = tip;
    let reaches = |after| match db.watch(Filter::default(), after) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::HistoryTrimmed => Ok(false),
        Err(error) => Err(format!("the feed after {after}: {error}")),
    };
    if reaches(0)? {
        return Ok(0);
    }
    while trimmed + 1 < kept {
        let middle = trimmed + (kept - trimmed) / 2;
        if reaches(middle)? { kept = middle } else { trimmed = middle }
    }
    Ok(kept)
}

/// Repeats requests. Executed ones must return the same answer without a new effect. The others are executed
/// now. Returns those as an acknowledged journal, and the number of repeated requests.
pub fn ask_again(
    db: &Database,
    requests: &mut Vec<Request>,
    fresh: Vec<Request>,
    random: &mut Random,
) -> Outcome<(Run, u64)> {
    let mut run = Run::default();
    let mut asked = Vec::new();
    for _ in 0..requests.len().min(REQUESTS / 4) {
        asked.push(requests[random.below(requests.len() as u64) as usize].clone());
    }
    let every = fresh.len().div_ceil(REQUESTS).max(1) as u64;
    for request in fresh {
        if request.ack.is_none() || random.below(every) == 0 {
            asked.push(request.clone());
        }
        requests.extend(Some(request).filter(|request| request.ack.is_some()));
    }
    let count = asked.len() as u64;
    for request in asked {
        if let Some(entry) = ask(db, &request)? {
            let End::Acknowledged(ack) = entry.end.clone() else { continue };
            let revision = Some(ack.revision);
            requests.push(Request { ack: Some(ack), revision, ..request });
            run.entries.push(entry);
        }
    }
    Ok((run, count))
}

/// Repeats one request. Returns its journal entry if it was executed only now.
fn ask(db: &Database, request: &Request) -> Outcome<Option<Entry>> {
    let Request { id, op, ack, revision } = request;
    let told = |error: mainstay::Error| format!("asking {id} ({op}) again: {error}");
    let Some(transaction) = op.transaction(*id).map_err(told)? else { return Ok(None) };
    let receipt = match db.execute(transaction) {
        // The client has confirmed that it no longer needs the response. Only a client that has received the
        // response does so.
        Err(error) if op.is_in_session() && error.code() == Code::ResponseEvicted => {
            return if ack.is_some() { Ok(None) } else { Err(told(error)) };
        }
        receipt => receipt.map_err(told)?,
    };
    let now = Ack {
        revision: receipt.revision,
        stamp: receipt.stamp,
        answers: answers(&receipt).unwrap_or_default(),
    };
    let same = ack.as_ref().is_none_or(|ack| *ack == now)
        && revision.is_none_or(|revision| revision == now.revision);
    if receipt.repeated != revision.is_some() || !same {
        return Err(format!(
            "LOST: {id} ({op}), found at {revision:?}, was answered {ack:?}; asked again it says \
             {receipt:?}"
        ));
    }
    if receipt.repeated {
        return Ok(None);
    }
    Ok(Some(Entry { id: *id, op: op.clone(), end: End::Acknowledged(now) }))
}
