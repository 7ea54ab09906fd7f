//! Record part of the writers' own cells: each transaction that writes such a cell also writes its record.
//!
//! ```text
//!   one transaction   own/3/1 = text      the cell, which the ledger checks
//!                     own/3/1 {text, …}   the record, which must agree with it
//!                     flash/3 {…} 5 ms    a record that expires before anyone reads it
//! ```
//!
//! The cells are matched with the acknowledgements. So a record that differs from its cell, now, in the past
//! or on a branch, is a lost acknowledged write or a write that no operation made. Indexes are declared and
//! filled under load. An index scan must find exactly the matching records.

use super::op::Id;
use super::{OWN_CELLS, Outcome, WRITERS, own_cell};
use mainstay::{
    Branch, Database, Field, Name, Record, RecordCommand, RecordWrite, Result, Test, Ttl,
    Versioned, Where,
};
use mainstay_conformance::random::Random;
use std::thread;
use std::time::Duration;

/// The key prefix of the records of own cells.
const OWN: &str = "own/";
/// Number of distinct values of the field `state`.
const STATES: u64 = 3;
/// The TTL of records that must outlive any run of the test, in milliseconds.
const LONG_MS: u64 = 1 << 40;
/// The TTL of records that must expire before they are read, in milliseconds.
const FLASH_MS: u64 = 5;

/// The key of a record that expires at once.
fn flash(thread: u64) -> String {
    format!("flash/{thread}")
}

/// The record write of an operation that sets a cell of its writer.
pub fn mirror(id: Id, k: u64, text: &str) -> Result<RecordWrite> {
    let lives = id.seq.is_multiple_of(2);
    let write = on_branch(id, k, text)?.set("lives", if lives { "1" } else { "0" })?;
    let ttl = if lives { Ttl::Millis(LONG_MS) } else { Ttl::Clear };
    Ok(RecordWrite { replace: true, ttl, ..write })
}

/// The record write of an operation on a branch. It leaves the expiry and the field `lives` unchanged. A
/// merge resolves each of them separately, so they stay consistent only if one side alone changes them.
pub fn on_branch(id: Id, k: u64, text: &str) -> Result<RecordWrite> {
    RecordWrite::to(&own_cell(id.thread, k))?
        .set("text", text)?
        .set("state", (id.seq % STATES).to_string())?
        .set("number", id.seq.to_string())
}

/// The write of a record that soon expires.
pub fn flashing(id: Id) -> Result<RecordWrite> {
    let write = RecordWrite::to(&flash(id.thread))?.set("number", id.seq.to_string())?;
    Ok(RecordWrite { ttl: Ttl::Millis(FLASH_MS), ..write })
}

/// The record command of an operation that deletes a cell of its writer.
pub fn deletion(id: Id, k: u64) -> Result<RecordCommand> {
    Ok(RecordCommand::Delete { key: Name::new(&own_cell(id.thread, k))?, when: Vec::new() })
}

/// Makes sure that an index exists. Sometimes replaces it by a new one, which must be filled with all
/// records.
pub fn declare(db: &Database, random: &mut Random) -> Result<()> {
    let records = db.records();
    for index in records.indexes()? {
        if !random.chance(30) {
            return Ok(());
        }
        records.drop_index(index.id)?;
    }
    records.add_index(OWN, &["state", "number"]).map(drop)
}

/// Checks that a record agrees with its cell.
pub fn agree(
    place: &str,
    name: &str,
    cell: Option<&Versioned>,
    record: Option<&Record>,
) -> Outcome<()> {
    let same = match (cell, record) {
        (None, None) => true,
        (Some(cell), Some(record)) => {
            let text = record.fields.text("text");
            text.is_some()
                && text == cell.value.as_str()
                && (record.counter, record.revision) == (cell.counter, cell.revision)
                && record.expires.is_some() == (record.fields.text("lives") == Some("1"))
        }
        _ => false,
    };
    if same {
        Ok(())
    } else {
        let record = record.map(|it| (it.counter, it.revision, it.expires, it.fields.text("text")));
        let cell = cell.map(|it| (it.counter, it.revision, &it.value));
        Err(format!("LOST: {place} the record `{name}` is {record:?}, its cell {cell:?}"))
    }
}

/// Checks that on every branch every record agrees with its cell, that index scans are right, and that
/// expired records are deleted.
pub fn check(db: &Database) -> Outcome<()> {
    let told = |error: mainstay::Error| format!("looking at records: {error}");
    // The last indexes are filled here, while no other thread writes.
    db.fill_indexes().map_err(told)?;
    for info in db.branches() {
        let branch = db.branch(&info.name).map_err(told)?;
        check_mirrors(&branch, &info.name)?;
        check_scans(&branch, &info.name)?;
    }
    check_flashes(db)
}

fn check_mirrors(branch: &Branch, place: &str) -> Outcome<()> {
    let told = |error: mainstay::Error| format!("reading records on `{place}`: {error}");
    for name in (0..WRITERS).flat_map(|t| (0..OWN_CELLS).map(move |k| own_cell(t, k))) {
        let cell = branch.cells().get_versioned(&name).map_err(told)?;
        let record = branch.records().get(&name).map_err(told)?;
        agree(&format!("on `{place}`"), &name, cell.as_ref(), record.as_ref())?;
    }
    Ok(())
}

/// Checks that an index scan finds the same records as a full scan.
fn check_scans(branch: &Branch, place: &str) -> Outcome<()> {
    let told = |error: mainstay::Error| format!("scanning records on `{place}`: {error}");
    let records = branch.records();
    let all = records.scan(OWN, &[], None, 10_000).map_err(told)?.records;
    for state in (0..STATES).map(|state| state.to_string()) {
        let filters = filters(&state).map_err(told)?;
        let passes = |record: &Record| {
            let number = record.fields.text("number").and_then(|n| n.parse::<u64>().ok());
            record.fields.text("state") == Some(&state) && number.is_some_and(|n| n < BELOW)
        };
        let expected: Vec<_> = all.iter().filter(|(_, record)| passes(record)).collect();
        let found = records.scan(OWN, &filters, None, 10_000).map_err(told)?.records;
        if found.iter().collect::<Vec<_>>() != expected {
            let way = records.explain(OWN, &filters).unwrap_or_default();
            return Err(format!(
                "LOST: on `{place}` there are {expected:?} in state {state}, found are {found:?}: {way}"
            ));
        }
    }
    Ok(())
}

/// The upper bound of the field `number` in scans: the early operations of a process.
const BELOW: u64 = 100;

fn filters(state: &str) -> Result<Vec<Where>> {
    let of = |field: &str, test| Ok(Where { field: Field::new(field)?, test });
    Ok(vec![
        of("state", Test::Eq(state.into()))?,
        of("number", Test::Lt(BELOW.to_string().into()))?,
    ])
}

/// Checks that the next sweep deletes expired records, regardless of the process that wrote them.
fn check_flashes(db: &Database) -> Outcome<()> {
    let told = |error: mainstay::Error| format!("sweeping records: {error}");
    thread::sleep(Duration::from_millis(2 * FLASH_MS));
    db.sweep().map_err(told)?;
    for name in (0..WRITERS).map(flash) {
        let newest = db.records().history(&name, 1, None).map_err(told)?.pop();
        if newest.as_ref().is_some_and(|newest| newest.fields.is_some()) {
            return Err(format!("the sweep left `{name}`: {newest:?}"));
        }
    }
    Ok(())
}
