//! The book: what was asked, what the server promised, what clients were told, and what is certain.

use super::operation::Operation;
use crate::drill::Outcome;
use mainstay::{Answer, Durability, ErrorKind, Receipt, Result, Revision, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The answer of an execution: nothing else has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// The operation.
    pub id: u64,
    /// The transaction that executed it.
    pub revision: Revision,
    /// When that was.
    pub stamp: Stamp,
    /// Which one of all operations it was.
    pub sequence: i64,
}

impl Answered {
    /// What a receipt of an operation says; nothing where it says something else.
    pub fn of(id: u64, receipt: &Receipt) -> Option<Answered> {
        match receipt.answers.get(1)? {
            Answer::Number { value, .. } => {
                let (revision, stamp, sequence) =
                    (receipt.revision, receipt.stamp, value.as_i64()?);
                Some(Answered { id, revision, stamp, sequence })
            }
            _ => None,
        }
    }
}

/// What a client was told in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The answer.
    Answered(Answered),
    /// It was not executed, and will not be.
    Refused(ErrorKind),
    /// Nobody knows.
    Unknown,
}

/// A letter that was handled.
#[derive(Clone, Copy, Debug)]
pub struct Handled {
    /// By whom.
    pub client: usize,
    /// In which of its lives.
    pub life: u64,
    /// When the session was opened that it was sent to.
    pub opened: Stamp,
    /// Its number there.
    pub number: u64,
    /// The operation that sent it.
    pub id: u64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations that were asked for.
    pub asked: u64,
    /// Operations that have their answer.
    pub answered: u64,
    /// Operations whose clients know that they were not executed.
    pub refused: u64,
    /// Operations of which nobody knows.
    pub unknown: u64,
    /// Letters that were handled.
    pub letters: u64,
    /// Calls that reached the server.
    pub calls: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Those of them in the middle of a call of the disk.
    pub inside: u64,
    /// Those of them while the server was starting.
    pub starting: u64,
    /// Answers that were not synced, and went with a power cut, as they may.
    pub lost: u64,
    /// Torn ends of logs that were cut off.
    pub torn: u64,
    /// Starts after a sync that failed.
    pub failed_syncs: u64,
    /// Times at which the disk was full.
    pub full: u64,
    /// Clients that crashed.
    pub crashes: u64,
    /// Sessions that were opened again since they had gone.
    pub reopened: u64,
    /// Calls of the disk.
    pub disk_calls: u64,
}

impl Tally {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Tally) {
        self.asked += other.asked;
        self.answered += other.answered;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.letters += other.letters;
        self.calls += other.calls;
        self.cuts += other.cuts;
        self.inside += other.inside;
        self.starting += other.starting;
        self.lost += other.lost;
        self.torn += other.torn;
        self.failed_syncs += other.failed_syncs;
        self.full += other.full;
        self.crashes += other.crashes;
        self.reopened += other.reopened;
        self.disk_calls += other.disk_calls;
    }
}

/// What is known. Everybody writes into it.
#[derive(Default)]
pub struct Book(Mutex<Inside>);

#[derive(Default)]
pub struct Inside {
    pub operations: BTreeMap<u64, Operation>,
    pub told: BTreeMap<u64, Told>,
    pub letters: Vec<Handled>,
    /// Answers that were given and not synced: a power cut may take them back.
    loose: BTreeSet<Answered>,
    /// Answers that a power cut has taken back.
    pub lost: BTreeSet<Answered>,
    /// Everything up to here was promised, or shown as certain.
    pub floor: Revision,
    /// The operations that were found executed, when all was looked at last.
    pub executed: BTreeSet<u64>,
    pub tally: Tally,
    wrong: Option<String>,
}

impl Book {
    /// What is in it.
    pub fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted.
    pub fn tally(&self) -> Tally {
        self.inside().tally
    }

    /// Counts something.
    pub fn count(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.inside().tally);
    }

    /// Something must be true and is not. The first of it counts.
    pub fn wrong(&self, what: String) {
        self.inside().wrong.get_or_insert(what);
    }

    /// Whether all that must be true is.
    pub fn check_sound(&self) -> Outcome<()> {
        self.inside().wrong.clone().map_or(Ok(()), Err)
    }

    /// A client is about to ask for something.
    pub fn ask(&self, operation: Operation) {
        let mut inside = self.inside();
        inside.tally.asked += 1;
        inside.operations.insert(operation.id, operation);
    }

    /// The server has answered, whoever hears it: from here on it is a promise.
    pub fn promise(&self, durability: Durability, id: Option<u64>, receipt: &Receipt) {
        let mut inside = self.inside();
        if durability == Durability::Sync {
            inside.floor = inside.floor.max(receipt.revision);
        }
        let answered = id.and_then(|id| Answered::of(id, receipt));
        if let Some(answered) = answered.filter(|_| durability != Durability::Sync) {
            inside.loose.insert(answered);
        }
    }

    /// Everything up to here was shown as certain.
    pub fn is_certain(&self, revision: Revision) {
        let mut inside = self.inside();
        inside.floor = inside.floor.max(revision);
    }

    /// A client was told what became of an operation.
    pub fn tell(&self, id: u64, answer: &Result<Receipt>) -> Told {
        let mut inside = self.inside();
        let told = match answer {
            Ok(receipt) => match Answered::of(id, receipt) {
                Some(answered) => Told::Answered(answered),
                None => {
                    let what = format!("operation {id} got the answer of another: {receipt:?}");
                    inside.wrong.get_or_insert(what);
                    Told::Unknown
                }
            },
            Err(error) => match error.kind() {
                ErrorKind::UnknownOutcome | ErrorKind::Closed => Told::Unknown,
                kind => Told::Refused(kind),
            },
        };
        let Tally { answered, refused, unknown, .. } = &mut inside.tally;
        *match told {
            Told::Answered(_) => answered,
            Told::Refused(_) => refused,
            Told::Unknown => unknown,
        } += 1;
        if let Some(before) = inside.told.insert(id, told) {
            let what = format!("operation {id} was told twice: {before:?}, then {told:?}");
            inside.wrong.get_or_insert(what);
        }
        told
    }

    /// A letter was handled.
    pub fn handle(&self, handled: Handled) {
        let mut inside = self.inside();
        inside.tally.letters += 1;
        inside.letters.push(handled);
    }
}

impl Inside {
    /// The server is there again, with everything up to a revision: what was not synced behind it is gone.
    pub fn start(&mut self, reached: Revision) {
        let (gone, kept) =
            std::mem::take(&mut self.loose).into_iter().partition(|of| of.revision > reached);
        self.loose = kept;
        let gone: BTreeSet<Answered> = gone;
        self.tally.lost += gone.len() as u64;
        self.lost.extend(gone);
    }
}
