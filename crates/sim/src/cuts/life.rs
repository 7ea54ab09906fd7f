//! A short life that names are given in: segments, marks, lists of tables.

use crate::disk::{Event, Tape};
use crate::drill::Outcome;
use mainstay::{At, Code, Database, Value};
use std::thread;
use std::time::Duration;

/// The cell that is written when it was killed and begun again.
const AGAIN: u8 = 99;

/// The cell that says at which revision it was written.
const TURN: &str = "turn";

/// Who has just opened a database compacts it in this time.
const COMPACTED: Duration = Duration::from_millis(600);

/// Writes segment after segment, trims many at once, and writes again.
pub(super) fn live(db: &Database, tape: &Tape) -> mainstay::Result<()> {
    (0..80).try_for_each(|n| turn(db, n, tape))?;
    db.trim()?;
    (80..AGAIN).try_for_each(|n| turn(db, n, tape))?;
    db.close()
}

/// Every second revision is one of a cell that says which.
pub(super) fn turn(db: &Database, n: u8, tape: &Tape) -> mainstay::Result<()> {
    db.cells().set(&cell(n), vec![n; 4096])?;
    tape.push(Event::Note(format!("{TURN} {n}")));
    db.cells().set(TURN, db.revision() as i64 + 1).map(drop)
}

/// Trims before anything is written: that rests on what was found.
pub(super) fn live_again(db: &Database, tape: &Tape) -> mainstay::Result<()> {
    db.trim()?;
    turn(db, AGAIN, tape)?;
    db.close()
}

/// Leaves it alone until it has been compacted.
pub(super) fn rest(db: &Database) -> mainstay::Result<()> {
    thread::sleep(COMPACTED);
    db.close()
}

/// The cell that a line says was acknowledged.
pub(super) fn turn_of(line: &str) -> Option<u8> {
    line.strip_prefix(TURN)?.trim().parse().ok()
}

fn cell(n: u8) -> String {
    format!("cell/{n}")
}

/// What was written is there up to some moment, and nothing behind it; the past is as it was, or said to be gone.
pub(super) fn check_lived(db: &Database, turns: &[u8]) -> Outcome<()> {
    let there = |n: u8| match db.cells().get(&cell(n)) {
        Ok(value) => Ok(value.is_some()),
        Err(error) => Err(format!("LOST: {}: {error}", cell(n))),
    };
    for at in 2..=db.revision() {
        let past = db.cells().at(At::Revision(at)).and_then(|past| past.get(TURN));
        match past {
            // Two cells in a row are written where it was killed between a cell and its turn.
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

/// What was acknowledged is there.
pub(super) fn check_there(db: &Database, turns: &[u8]) -> Outcome<()> {
    for &n in turns {
        match db.cells().get(&cell(n)) {
            Ok(Some(_)) => {}
            seen => return Err(format!("LOST: {} was acknowledged: {seen:?}", cell(n))),
        }
    }
    Ok(())
}
