//! A short workload that renames many files: segments, flush marks, table manifests.

use crate::disk::{Event, Tape};
use crate::drill::Outcome;
use mainstay::{At, Code, Database, Value};
use std::thread;
use std::time::Duration;

/// The cell written after the process was killed and restarted.
const AGAIN: u8 = 99;

/// The cell that stores its own revision.
const TURN: &str = "turn";

/// A freshly opened database is compacted within this time.
const COMPACTED: Duration = Duration::from_millis(600);

/// Fills many segments, trims them all at once, and writes again.
pub(super) fn live(db: &Database, tape: &Tape) -> mainstay::Result<()> {
    (0..80).try_for_each(|n| turn(db, n, tape))?;
    db.trim()?;
    (80..AGAIN).try_for_each(|n| turn(db, n, tape))?;
    db.close()
}

/// Every second revision writes the cell `turn`, whose value is its own revision.
pub(super) fn turn(db: &Database, n: u8, tape: &Tape) -> mainstay::Result<()> {
    db.cells().set(&cell(n), vec![n; 4096])?;
    tape.push(Event::Note(format!("{TURN} {n}")));
    db.cells().set(TURN, db.revision() as i64 + 1).map(drop)
}

/// Trims before any write, so that the trim relies only on recovered data.
pub(super) fn live_again(db: &Database, tape: &Tape) -> mainstay::Result<()> {
    db.trim()?;
    turn(db, AGAIN, tape)?;
    db.close()
}

/// Leaves the database idle until it has been compacted.
pub(super) fn rest(db: &Database) -> mainstay::Result<()> {
    thread::sleep(COMPACTED);
    db.close()
}

/// The cell number that a journal line acknowledges.
pub(super) fn turn_of(line: &str) -> Option<u8> {
    line.strip_prefix(TURN)?.trim().parse().ok()
}

fn cell(n: u8) -> String {
    format!("cell/{n}")
}

/// The cells form a prefix of those written, without gaps. Past revisions are unchanged or reported as
/// trimmed.
pub(super) fn check_lived(db: &Database, turns: &[u8]) -> Outcome<()> {
    let there = |n: u8| match db.cells().get(&cell(n)) {
        Ok(value) => Ok(value.is_some()),
        Err(error) => Err(format!("LOST: {}: {error}", cell(n))),
    };
    for at in 2..=db.revision() {
        let past = db.cells().at(At::Revision(at)).and_then(|past| past.get(TURN));
        match past {
            // Two ordinary cells follow each other if the process was killed between a cell and its turn.
            Ok(Some(Value::Int(turn))) if at - turn as u64 <= 2 => {}
            Err(error) if error.code() == Code::HistoryTrimmed => {}
            seen => return Err(format!("LOST: what was at revision {at}: {seen:?}")),
        }
    }
    check_there(db, turns)?;
    let first = (0..AGAIN).map(there).collect::<Outcome<Vec<bool>>>()?;
    if first.windows(2).any(|two| two == [false, true]) {
        return Err(format!("LOST: there are holes: {first:?}"));
    }
    Ok(())
}

/// Every acknowledged cell exists.
pub(super) fn check_there(db: &Database, turns: &[u8]) -> Outcome<()> {
    for &n in turns {
        match db.cells().get(&cell(n)) {
            Ok(Some(_)) => {}
            seen => return Err(format!("LOST: {} was acknowledged: {seen:?}", cell(n))),
        }
    }
    Ok(())
}
