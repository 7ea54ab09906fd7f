//! The ledger of a world: requests, server promises, client results, and the revisions known to be durable.

use super::operation::Operation;
use crate::drill::Outcome;
use mainstay::{Answer, Durability, ErrorKind, Receipt, Result, Revision, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The answer of one execution; it is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// The operation.
    pub id: u64,
    /// The revision of the transaction that executed it.
    pub revision: Revision,
    /// The stamp of that transaction.
    pub stamp: Stamp,
    /// The position of the operation in the order of all operations.
    pub sequence: i64,
}

impl Answered {
    /// Extracts the answer from a receipt of an operation; `None` if the receipt does not fit.
    pub fn of(id: u64, receipt: &Receipt) -> Option<Answered> {
        match receipt.answers.get(1)? {
            Answer::Number { value, .. } => {
                let revision = receipt.revision;
                let stamp = receipt.stamp;
                let sequence = value.as_i64()?;
                Some(Answered { id, revision, stamp, sequence })
            }
            _ => None,
        }
    }
}

/// The final result that a client got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It was executed, with this answer.
    Answered(Answered),
    /// It was not executed, and never will be.
    Refused(ErrorKind),
    /// The outcome is unknown.
    Unknown,
}

/// A message that a client has handled.
#[derive(Clone, Copy, Debug)]
pub struct Handled {
    /// The client that handled it.
    pub client: usize,
    /// The incarnation of that client.
    pub life: u64,
    /// The time at which the receiving session was opened.
    pub opened: Stamp,
    /// The number of the message in that session.
    pub number: u64,
    /// The operation that sent it.
    pub id: u64,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations that were requested.
    pub asked: u64,
    /// Operations with an answer.
    pub answered: u64,
    /// Operations that were refused, so that the client knows that they were not executed.
    pub refused: u64,
    /// Operations with an unknown outcome.
    pub unknown: u64,
    /// Messages that clients handled.
    pub letters: u64,
    /// Calls that reached the server.
    pub calls: u64,
    /// Power failures.
    pub cuts: u64,
    /// Power failures in the middle of a disk call.
    pub inside: u64,
    /// Power failures while the server was starting.
    pub starting: u64,
    /// Unsynced answers that a power failure took back, which is allowed.
    pub lost: u64,
    /// Torn log tails that were cut off.
    pub torn: u64,
    /// Restarts after a failed sync.
    pub failed_syncs: u64,
    /// How often the disk was full.
    pub full: u64,
    /// Client crashes.
    pub crashes: u64,
    /// Sessions that were opened again after they had expired.
    pub reopened: u64,
    /// Disk calls.
    pub disk_calls: u64,
}

impl Tally {
    /// Adds the counts of another tally.
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

/// The ledger, to which all parts of the world write.
#[derive(Default)]
pub struct Book(Mutex<Inside>);

#[derive(Default)]
pub struct Inside {
    pub operations: BTreeMap<u64, Operation>,
    pub told: BTreeMap<u64, Told>,
    pub letters: Vec<Handled>,
    /// Answers that were not synced: a power failure may take them back.
    loose: BTreeSet<Answered>,
    /// Answers that a power failure has taken back.
    pub lost: BTreeSet<Answered>,
    /// The newest revision that was promised as durable or shown as durable.
    pub floor: Revision,
    /// The operations that the last check found executed.
    pub executed: BTreeSet<u64>,
    pub tally: Tally,
    wrong: Option<String>,
}

impl Book {
    /// Locks and returns the contents.
    pub fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counts.
    pub fn tally(&self) -> Tally {
        self.inside().tally
    }

    /// Updates the counts.
    pub fn count(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.inside().tally);
    }

    /// Records a violation. Only the first one is kept.
    pub fn wrong(&self, what: String) {
        self.inside().wrong.get_or_insert(what);
    }

    /// Fails with the recorded violation, if any.
    pub fn check_sound(&self) -> Outcome<()> {
        self.inside().wrong.clone().map_or(Ok(()), Err)
    }

    /// Records that a client is about to request an operation.
    pub fn ask(&self, operation: Operation) {
        let mut inside = self.inside();
        inside.tally.asked += 1;
        inside.operations.insert(operation.id, operation);
    }

    /// Records an answer of the server, which is a promise from here on, whether or not it reaches the
    /// client.
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

    /// Records that everything up to a revision was shown as durable.
    pub fn is_certain(&self, revision: Revision) {
        let mut inside = self.inside();
        inside.floor = inside.floor.max(revision);
    }

    /// Records the result that a client got for an operation.
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

    /// Records that a message was handled.
    pub fn handle(&self, handled: Handled) {
        let mut inside = self.inside();
        inside.tally.letters += 1;
        inside.letters.push(handled);
    }
}

impl Inside {
    /// Records that the server restarted with everything up to a revision: later unsynced answers are
    /// lost.
    pub fn start(&mut self, reached: Revision) {
        let (gone, kept) =
            std::mem::take(&mut self.loose).into_iter().partition(|of| of.revision > reached);
        self.loose = kept;
        let gone: BTreeSet<Answered> = gone;
        self.tally.lost += gone.len() as u64;
        self.lost.extend(gone);
    }
}
