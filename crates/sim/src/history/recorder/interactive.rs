//! Interactive transactions: they read, write, list and pause, and are committed, refused or rolled back.

use super::super::serial::{Fate, Recorded, Saw, Step};
use super::keys::{self, FIELD, Part};
use super::line::{Scene, durability};
use super::stage::Verdict;
use crate::drill::Outcome;
use mainstay::{Answer, Error, InteractiveTransaction, RecordWrite, Result};
use mainstay_conformance::random::Random;
use std::thread;
use std::time::Duration;

/// An open transaction.
struct Draft {
    open: InteractiveTransaction,
    steps: Vec<Step>,
    deletes: bool,
}

/// Runs one transaction and returns its record.
pub fn run(
    scene: &Scene<'_>,
    random: &mut Random,
    mut value: impl FnMut() -> i64,
) -> Outcome<Recorded> {
    let invoked = scene.stage.moments.next();
    let mut open = scene.db.begin().map_err(|error| error.to_string())?;
    durability(random).into_iter().for_each(|durability| open.durability(durability));
    let read_at = Some(open.revision());
    let mut draft = Draft { open, steps: Vec::new(), deletes: false };
    for _ in 0..1 + random.below(6) {
        draft.step(random, &mut value).map_err(|error| error.to_string())?;
        hesitate(random);
    }
    if draft.deletes {
        draft.write(&keys::mark(scene.thread), value()).map_err(|error| error.to_string())?;
    }
    let Draft { open, steps, .. } = draft;
    let fate = if random.chance(8) { Fate::Aborted } else { fate(scene, open.commit().map(drop))? };
    let thread = scene.thread;
    let returned = scene.stage.moments.next();
    Ok(Recorded { thread, invoked, returned, fate, read_at, steps })
}

/// Maps the result of a commit to the fate of its transaction.
pub fn fate(scene: &Scene<'_>, answer: Result<()>) -> Outcome<Fate> {
    match answer {
        Ok(()) => Ok(Fate::Committed),
        Err(error) => Ok(match scene.stage.judge(&error)? {
            Verdict::Nothing => Fate::Aborted,
            Verdict::Unknown => Fate::Unknown,
        }),
    }
}

/// Pauses, so that other transactions can interleave.
fn hesitate(random: &mut Random) {
    match random.below(20) {
        0 => thread::sleep(Duration::from_micros(random.below(200))),
        1..10 => thread::yield_now(),
        _ => {}
    }
}

impl Draft {
    fn step(&mut self, random: &mut Random, value: &mut impl FnMut() -> i64) -> Result<()> {
        let key = keys::any(random);
        match random.below(100) {
            0..30 => self.read(&key).map(drop),
            30..55 => self.write(&key, value()),
            55..75 => {
                self.read(&key)?;
                self.write(&key, value())
            }
            75..85 => self.delete(&key),
            _ => self.list(Part::any(random)),
        }
    }

    fn read(&mut self, key: &str) -> Result<()> {
        let saw = if keys::is_record(key) {
            keys::saw_record(self.open.get_record(key)?.as_ref())
        } else {
            keys::saw_cell(self.open.get_versioned(key)?.as_ref())
        };
        self.steps.push(Step::Read(key.to_owned(), saw.ok_or_else(|| nonsense(key))?));
        Ok(())
    }

    fn write(&mut self, key: &str, value: i64) -> Result<()> {
        if keys::is_record(key) {
            let write = RecordWrite::to(key)?.set(FIELD, value.to_string())?;
            self.open.write_record(write).map(drop)?;
        } else {
            self.open.set(key, value)?;
        }
        self.steps.push(Step::Write(key.to_owned(), Some(value)));
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<()> {
        let did = if keys::is_record(key) {
            self.open.delete_record(key, Vec::new())?
        } else {
            self.open.delete(key)?
        };
        let saw = if did { Saw::Present } else { Saw::Absent };
        self.steps.push(Step::Read(key.to_owned(), saw));
        if did {
            self.steps.push(Step::Write(key.to_owned(), None));
            self.deletes = true;
        }
        Ok(())
    }

    fn list(&mut self, part: Part) -> Result<()> {
        let prefix = part.prefix.clone();
        let after = part.after.clone();
        let step = if keys::is_record(&prefix) {
            let page = self.open.scan_records(&prefix, &[], after.as_deref(), part.limit)?;
            part.of_records(&page).ok_or_else(|| nonsense(&prefix))?
        } else {
            let page = self.open.list(&prefix, after.as_deref(), part.limit)?;
            part.of_cells(&page)
        };
        self.steps.push(step);
        Ok(())
    }
}

/// The error for a value that no thread has written.
pub fn nonsense(key: &str) -> Error {
    let message = format!("`{key}` holds something that is no number");
    Error::new(mainstay::Code::CorruptData, message)
}

/// The error for an answer of the wrong type.
pub fn unexpected(answer: &Answer) -> Error {
    Error::new(mainstay::Code::Unsupported, format!("{answer:?} is no answer to that"))
}
