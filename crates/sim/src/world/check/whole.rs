//! Check: atomicity across contracts. An operation has left all of its parts, or none.

use super::{ALL, told};
use crate::drill::Outcome;
use crate::world::book::Book;
use crate::world::operation::{Operation, RECORDS, RUNS, SPACE, label, record, run};
use mainstay::Database;
use std::collections::BTreeSet;

/// Checks records, runs, keyed state and the outbox.
pub fn check(book: &Book, db: &Database, executed: &BTreeSet<u64>) -> Outcome<()> {
    let inside = book.inside();
    let labels = |has: fn(&Operation) -> bool| -> BTreeSet<String> {
        let all = inside.operations.values().filter(|of| executed.contains(&of.id));
        all.filter(|of| has(of)).map(|of| label(of.id)).collect()
    };
    alike("fields of records", &fields(db)?, &labels(|of| of.parts.record))?;
    alike("events of runs", &events(db)?, &labels(|of| of.parts.event))?;
    alike("states", &states(db)?, &labels(|of| of.parts.state))?;
    let expected = labels(|of| of.parts.message).len() as u64;
    let outbox = db.outbox().state().map_err(told("the outbox"))?;
    if outbox.pending == expected && outbox.last_id == expected {
        Ok(())
    } else {
        Err(format!("{expected} messages were put, and there is {outbox:?}"))
    }
}

fn fields(db: &Database) -> Outcome<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for k in 0..RECORDS {
        let Some(record) = db.records().get(&record(k)).map_err(told("a record"))? else {
            continue;
        };
        let names = record.fields.iter().map(|(name, _)| name.as_bytes());
        found.extend(names.map(|name| String::from_utf8_lossy(name).into_owned()));
    }
    Ok(found)
}

fn events(db: &Database) -> Outcome<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for run in (0..RUNS).map(run) {
        for event in db.runs().fetch(&run, 0, ALL).map_err(told("a run"))? {
            if !found.insert(event.idempotency_key.clone()) {
                return Err(format!("{} is in `{run}` twice", event.idempotency_key));
            }
        }
    }
    Ok(found)
}

fn states(db: &Database) -> Outcome<BTreeSet<String>> {
    let space = db.keyed(SPACE).map_err(told("keyed state"))?;
    let page = space.scan(b"", None, ALL).map_err(told("keyed state"))?;
    Ok(page.states.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect())
}

fn alike(what: &str, found: &BTreeSet<String>, expected: &BTreeSet<String>) -> Outcome<()> {
    let one = |side: &str, one: Option<&String>| match one {
        Some(one) => Err(format!("{what}: {one} is {side}")),
        None => Ok(()),
    };
    one("missing", expected.difference(found).next())?;
    one("there, and was not executed", found.difference(expected).next())
}
