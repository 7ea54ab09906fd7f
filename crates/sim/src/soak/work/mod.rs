//! The workload: every contract, over a working set of constant size.
//!
//! ```text
//!   worker 0 ─┐  one operation after the other: cells, records, runs, outbox, keyed state, sessions,
//!   worker 1 ─┤  transactions over all of them, reads now and a second ago
//!     ...     v
//!        database ── closed, opened again ── every worker checks its acknowledged writes
//!
//! State that is written repeatedly has a bounded number of names. State with a new name each time
//! (records and cells that expire, runs, items) is removed again, and everything that it leaves must be
//! removed, too. Requests with ids are missing on purpose, because their receipts are kept for a day.

mod cells;
mod keyed;
mod outbox;
mod reads;
mod records;
mod runs;
mod sessions;
mod transfers;

pub(super) use cells::COUNTER;

use crate::drill::Outcome;
use mainstay::{Database, Durability, Options, Receipt, Result, Transaction, Value};
use mainstay_conformance::random::Random;
use std::time::Duration;

/// How long past versions are readable.
pub(super) const RETENTION: Duration = Duration::from_secs(5);
/// How much of the log is kept for the feed, in bytes.
const FEED_BYTES: u64 = 32 << 20;

/// Buffers and segments so small that flushes, compactions, trims and sweeps happen all the time.
pub(super) fn options() -> Options {
    Options::new()
        .retention(RETENTION)
        .record_retention(Some(RETENTION))
        .keyed_retention(Some(RETENTION))
        .feed_retention(2 * RETENTION, FEED_BYTES)
        .sweep_interval(Some(Duration::from_secs(1)))
        .write_buffer_bytes(8 << 20)
        .segment_bytes(4 << 20)
        .cache_bytes(8 << 20)
        .block_cache_bytes(8 << 20)
}

/// Writes the working set, so that it is as large at the beginning as at the end.
pub(super) fn prepare(db: &Database) -> Result<()> {
    records::declare(db)?;
    cells::fill(db)
}

/// A worker: runs one operation after the other and records the expected state.
pub(super) struct Hand {
    desk: Desk,
    cells: cells::Cells,
    records: records::Records,
    runs: runs::Runs,
    outbox: outbox::Outbox,
    keyed: keyed::Keyed,
    seat: sessions::Seat,
    transfers: transfers::Transfers,
}

/// The context of all operations of a worker.
struct Desk {
    db: Database,
    random: Random,
    /// The worker's number, and the number of workers.
    number: u64,
    hands: u64,
}

impl Desk {
    /// Returns a durability; mostly `Sync`.
    fn durability(&mut self) -> Durability {
        match self.random.below(20) {
            0 => Durability::Memory,
            1 => Durability::Interval,
            _ => Durability::Sync,
        }
    }

    fn commit(&mut self, transaction: Transaction) -> Result<Receipt> {
        let durability = self.durability();
        self.db.execute(transaction.durability(durability))
    }

    /// Returns text that does not compress well.
    fn text(&mut self) -> String {
        let length = 20 + self.random.below(180);
        (0..length).map(|_| char::from(b'a' + self.random.below(26) as u8)).collect()
    }
}

impl Hand {
    pub fn new(db: &Database, seed: u64, number: u64, hands: u64) -> Result<Hand> {
        let random = Random::of(&[seed, number]);
        let desk = Desk { db: db.clone(), random, number, hands };
        Ok(Hand {
            cells: cells::Cells::default(),
            records: records::Records::default(),
            runs: runs::Runs::default(),
            outbox: outbox::Outbox::default(),
            keyed: keyed::Keyed::declare(&desk)?,
            seat: sessions::Seat::take(&desk)?,
            transfers: transfers::Transfers::default(),
            desk,
        })
    }

    /// Runs one operation.
    pub fn step(&mut self) -> Outcome<()> {
        let desk = &mut self.desk;
        let chance = desk.random.below(100);
        let (what, done) = match chance {
            0..32 => ("cells", self.cells.step(desk)),
            32..46 => ("records", self.records.step(desk)),
            46..54 => ("runs", self.runs.step(desk)),
            54..60 => ("the outbox", self.outbox.step(desk)),
            60..70 => ("keyed state", self.keyed.step(desk)),
            70..77 => ("sessions", self.seat.step(desk)),
            77..84 => ("transfers", self.transfers.step(desk)),
            _ => ("reads", reads::step(desk)),
        };
        done.map_err(|error| format!("{what}: {error}"))
    }
}

/// Checks that all acknowledged state is present and that all removed state is gone.
pub(super) fn check(db: &Database, hands: &[Hand]) -> Outcome<()> {
    cells::check(db, hands.iter().map(|hand| &hand.cells))?;
    outbox::check(db, hands)?;
    transfers::check_sum(db)?;
    for hand in hands {
        let number = hand.desk.number;
        hand.records.check(db, number)?;
        hand.runs.check(db, number)?;
        hand.keyed.check(db, number)?;
        hand.transfers.check(db, number)?;
        sessions::check(db, hands, number)?;
    }
    Ok(())
}

/// The error of a read that must not fail.
fn told(error: mainstay::Error) -> String {
    format!("looking at what is there: {error}")
}

/// Returns the number in a cell.
fn number(value: Option<&Value>) -> i64 {
    value.and_then(Value::as_i64).unwrap_or(0)
}

/// Compares an expected value with the one found.
fn agree<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, found: T) -> Outcome<()> {
    if expected == found {
        Ok(())
    } else {
        Err(format!("{what}: there has to be {expected:?}, there is {found:?}"))
    }
}
