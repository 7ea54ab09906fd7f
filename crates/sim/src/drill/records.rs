//! Records beside the writers' own cells: each transaction that writes such a cell writes its record, too.
//!
//! ```text
//!   one transaction   own/3/1 = text      the cell, which the ledger settles
//!                     own/3/1 {text, …}   the record, which has to agree with it
//!                     flash/3 {…} 5 ms    a record that is over before anybody looks
//! ```
//!
//! The cells are matched with what was acknowledged. So a record that differs from its cell, now, in the past or
//! on a branch, is an acknowledged write that was lost or one that nobody made. Indexes are declared and filled
//! under fire; what a scan finds by them has to be what is there.

use super::op::Id;
use super::{OWN_CELLS, Outcome, WRITERS, own_cell};
use mainstay::{
    Branch, Database, Field, Name, Record, RecordCommand, RecordWrite, Result, Test, Ttl,
    Versioned, Where,
};
use mainstay_conformance::random::Random;
use std::thread;
use std::time::Duration;

/// What the keys of records of cells begin with.
const OWN: &str = "own/";
/// How many states records have.
const STATES: u64 = 3;
/// How long records live that live long: longer than any run.
const LONG_MS: u64 = 1 << 40;
/// How long those live that nobody is to see.
const FLASH_MS: u64 = 5;

/// A record that is over at once.
fn flash(thread: u64) -> String {
    format!("flash/{thread}")
}

/// What an operation that sets a cell of its own writes beside it.
pub fn mirror(id: Id, k: u64, text: &str) -> Result<RecordWrite> {
    let lives = id.seq.is_multiple_of(2);
    let write = on_branch(id, k, text)?.set("lives", if lives { "1" } else { "0" })?;
    let ttl = if lives { Ttl::Millis(LONG_MS) } else { Ttl::Clear };
    Ok(RecordWrite { replace: true, ttl, ..write })
}

/// What one on a branch writes: it leaves the expiry and what tells of it. A merge settles each by itself, so
/// that they agree afterwards only if one side alone changes them.
pub fn on_branch(id: Id, k: u64, text: &str) -> Result<RecordWrite> {
    RecordWrite::to(&own_cell(id.thread, k))?
        .set("text", text)?
        .set("state", (id.seq % STATES).to_string())?
        .set("number", id.seq.to_string())
}

/// What it leaves for a moment.
pub fn flashing(id: Id) -> Result<RecordWrite> {
    let write = RecordWrite::to(&flash(id.thread))?.set("number", id.seq.to_string())?;
    Ok(RecordWrite { ttl: Ttl::Millis(FLASH_MS), ..write })
}

/// What one that deletes a cell of its own does beside it.
pub fn deletion(id: Id, k: u64) -> Result<RecordCommand> {
    Ok(RecordCommand::Delete { key: Name::new(&own_cell(id.thread, k))?, when: Vec::new() })
}

/// Sees to an index; now and then to a new one, which has all records to be filled with.
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

/// A record has to be as its cell is.
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
    match same {
        true => Ok(()),
        false => {
            let record =
                record.map(|it| (it.counter, it.revision, it.expires, it.fields.text("text")));
            let cell = cell.map(|it| (it.counter, it.revision, &it.value));
            Err(format!("LOST: {place} the record `{name}` is {record:?}, its cell {cell:?}"))
        }
    }
}

/// Every record is as its cell is, on every branch, and found by the indexes; what was over is gone.
pub fn check(db: &Database) -> Outcome<()> {
    let told = |error: mainstay::Error| format!("looking at records: {error}");
    // The last ones are filled here, while nobody else writes.
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

/// What an index finds is what a look at all records finds.
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

/// Of the operations of a process these are the early ones.
const BELOW: u64 = 100;

fn filters(state: &str) -> Result<Vec<Where>> {
    let of = |field: &str, test| Ok(Where { field: Field::new(field)?, test });
    Ok(vec![
        of("state", Test::Eq(state.into()))?,
        of("number", Test::Lt(BELOW.to_string().into()))?,
    ])
}

/// Records whose time is over are deleted by the next sweep, whichever process wrote them.
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
