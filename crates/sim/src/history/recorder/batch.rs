//! Batch transactions, with guards for values that were read before.

use super::super::serial::{Fate, Recorded, Saw, Step};
use super::interactive::{fate, nonsense, unexpected};
use super::keys::{self, FIELD, Part};
use super::line::{Scene, durability};
use crate::drill::Outcome;
use mainstay::{
    Answer, CellCommand, Field, Guard, Receipt, RecordCommand, RecordWrite, Result, Transaction,
};
use mainstay_conformance::random::Random;

/// A step of a batch.
enum Ask {
    Read(String),
    Write(String, i64),
    Delete(String),
    List(Part),
}

/// A batch before it is executed.
#[derive(Default)]
struct Batch {
    /// The expected values, which become guards.
    seen: Vec<(String, Saw)>,
    asks: Vec<Ask>,
}

/// Executes a batch, or submits it without waiting for the answer. Returns its record.
pub fn run(
    scene: &Scene<'_>,
    random: &mut Random,
    forgets: bool,
    value: impl FnMut() -> i64,
) -> Outcome<Recorded> {
    let told = |error: mainstay::Error| error.to_string();
    let batch = Batch::choose(scene, random, value).map_err(told)?;
    let mut transaction = batch.transaction().map_err(told)?;
    transaction.durability = durability(random);
    let invoked = scene.stage.moments.next();
    let receipt = if forgets {
        drop(scene.db.submit(transaction));
        None
    } else {
        Some(scene.db.execute(transaction))
    };
    let returned = scene.stage.moments.next();
    let (fate, read_at, steps) = match receipt {
        None => (Fate::Unknown, None, batch.intended()),
        Some(Err(error)) => (fate(scene, Err(error))?, None, batch.intended()),
        Some(Ok(receipt)) => {
            let (read_at, steps) = batch.answered(receipt).map_err(told)?;
            (Fate::Committed, Some(read_at), steps)
        }
    };
    // An unanswered batch may have read anything, and a refused one has written nothing.
    let refused = fate == Fate::Aborted;
    let steps =
        steps.into_iter().filter(|step| !refused || matches!(step, Step::Write(..))).collect();
    Ok(Recorded { thread: scene.thread, invoked, returned, fate, read_at, steps })
}

impl Batch {
    fn choose(
        scene: &Scene<'_>,
        random: &mut Random,
        mut value: impl FnMut() -> i64,
    ) -> Result<Batch> {
        let mut batch = Batch::default();
        for _ in 0..random.below(3) {
            let key = keys::any(random);
            if batch.seen.iter().all(|(other, _)| *other != key) {
                let saw = look(scene, &key)?;
                batch.seen.push((key.clone(), saw));
                batch.asks.push(Ask::Write(key, value()));
            }
        }
        for _ in 0..1 + random.below(4) {
            let key = keys::any(random);
            batch.asks.push(match random.below(100) {
                0..35 => Ask::Read(key),
                35..75 => Ask::Write(key, value()),
                75..85 => Ask::Delete(key),
                _ => Ask::List(Part::any(random)),
            });
        }
        if batch.asks.iter().any(|ask| matches!(ask, Ask::Delete(_))) {
            batch.asks.push(Ask::Write(keys::mark(scene.thread), value()));
        }
        Ok(batch)
    }

    fn transaction(&self) -> Result<Transaction> {
        let mut transaction = Transaction::new();
        for (key, saw) in &self.seen {
            transaction = transaction.guard(guard(key, *saw)?);
        }
        for ask in &self.asks {
            transaction = ask.add(transaction)?;
        }
        Ok(transaction)
    }

    /// Returns the batch's effects if it was executed: its guards held, and its deletions found their
    /// keys.
    fn intended(self) -> Vec<Step> {
        let held = self.seen.into_iter().map(|(key, saw)| Step::Read(key, saw));
        let written = self.asks.into_iter().filter_map(|ask| match ask {
            Ask::Write(key, value) => Some(Step::Write(key, Some(value))),
            Ask::Delete(key) => Some(Step::Write(key, None)),
            _ => None,
        });
        held.chain(written).collect()
    }

    /// Returns the revision that it read, and its reads and writes.
    fn answered(self, receipt: Receipt) -> Result<(u64, Vec<Step>)> {
        let writes = self.asks.iter().any(|ask| matches!(ask, Ask::Write(..) | Ask::Delete(_)));
        let read_at = receipt.revision - u64::from(writes);
        let mut steps: Vec<Step> =
            self.seen.into_iter().map(|(key, saw)| Step::Read(key, saw)).collect();
        for (ask, answer) in self.asks.into_iter().zip(&receipt.answers) {
            ask.answered(answer, &mut steps)?;
        }
        Ok((read_at, steps))
    }
}

fn look(scene: &Scene<'_>, key: &str) -> Result<Saw> {
    let saw = if keys::is_record(key) {
        keys::saw_record(scene.db.records().get(key)?.as_ref())
    } else {
        keys::saw_value(scene.db.cells().get(key)?.as_ref())
    };
    saw.ok_or_else(|| nonsense(key))
}

fn guard(key: &str, saw: Saw) -> Result<Guard> {
    let value = match saw {
        Saw::Value(value) => Some(value),
        _ => None,
    };
    let name = keys::name(key)?;
    Ok(if keys::is_record(key) {
        let is = value.map(|value| value.to_string().into_bytes());
        Guard::Field { key: name, field: Field::new(FIELD)?, is }
    } else {
        Guard::Value { name, is: value.map(Into::into) }
    })
}

impl Ask {
    fn add(&self, to: Transaction) -> Result<Transaction> {
        Ok(match self {
            Ask::Read(key) if keys::is_record(key) => {
                to.step(RecordCommand::Get { key: keys::name(key)?, fields: None })
            }
            Ask::Read(key) => to.step(CellCommand::Get { name: keys::name(key)? }),
            Ask::Write(key, value) if keys::is_record(key) => {
                to.step(RecordWrite::to(key)?.set(FIELD, value.to_string())?)
            }
            Ask::Write(key, value) => to.step(CellCommand::set(keys::name(key)?, *value)),
            Ask::Delete(key) if keys::is_record(key) => {
                to.must(RecordCommand::Delete { key: keys::name(key)?, when: Vec::new() })
            }
            Ask::Delete(key) => {
                to.must(CellCommand::Delete { name: keys::name(key)?, counter: None })
            }
            Ask::List(Part { prefix, after, limit }) => {
                let prefix = prefix.clone();
                let after = after.clone();
                let limit = *limit;
                if keys::is_record(&prefix) {
                    let filters = Vec::new();
                    to.step(RecordCommand::Scan { prefix, filters, after, limit })
                } else {
                    to.step(CellCommand::List { prefix, after, limit })
                }
            }
        })
    }

    fn answered(self, answer: &Answer, steps: &mut Vec<Step>) -> Result<()> {
        let step = match (self, answer) {
            (Ask::Read(key), Answer::Cell(cell)) => {
                let saw = keys::saw_cell(cell.as_ref()).ok_or_else(|| nonsense(&key))?;
                Step::Read(key, saw)
            }
            (Ask::Read(key), Answer::Record(record)) => {
                let saw = keys::saw_record(record.as_ref()).ok_or_else(|| nonsense(&key))?;
                Step::Read(key, saw)
            }
            (Ask::Write(key, value), Answer::Counter(_) | Answer::MaybeCounter(Some(_))) => {
                Step::Write(key, Some(value))
            }
            (Ask::Delete(key), Answer::Did(true)) => {
                steps.push(Step::Read(key.clone(), Saw::Present));
                Step::Write(key, None)
            }
            (Ask::List(part), Answer::Names(page)) => part.of_cells(page),
            (Ask::List(part), Answer::Records(page)) => {
                let prefix = part.prefix.clone();
                part.of_records(page).ok_or_else(|| nonsense(&prefix))?
            }
            (_, answer) => return Err(unexpected(answer)),
        };
        steps.push(step);
        Ok(())
    }
}
