//! Cell load: set, delete, increment, compare-and-swap, and cells that expire after a second.

use super::{Desk, agree, number, told};
use crate::drill::Outcome;
use mainstay::{CellCommand, Database, Durability, Name, Number, Result, Transaction, Ttl};

/// The number of cells that all workers set.
const CELLS: u64 = 20_000;
/// The number of counters that all workers increment.
pub(super) const COUNTERS: u64 = 16;
/// The number of cells that all workers compare and swap.
const SWAPPED: u64 = 16;
/// The time to live of expiring cells, in milliseconds.
const FLASH_MS: u64 = 1000;
/// The number of cells written in one transaction during the preparation.
const FILL: u64 = 1000;

/// The prefix of the counters.
pub(in crate::soak) const COUNTER: &str = "counter/";

fn cell(k: u64) -> String {
    format!("cell/{k}")
}

pub(super) fn counter(k: u64) -> String {
    format!("{COUNTER}{k}")
}

fn swapped(k: u64) -> String {
    format!("swapped/{k}")
}

/// The acknowledged operations of one worker.
#[derive(Default)]
pub(super) struct Cells {
    increments: [u64; COUNTERS as usize],
    swaps: [u64; SWAPPED as usize],
    flashes: u64,
}

/// Gives every cell an initial value.
pub(super) fn fill(db: &Database) -> Result<()> {
    for from in (0..CELLS).step_by(FILL as usize) {
        let mut transaction = Transaction::new().durability(Durability::Memory);
        for k in from..(from + FILL).min(CELLS) {
            transaction = transaction.step(CellCommand::set(Name::new(&cell(k))?, "x".repeat(100)));
        }
        db.execute(transaction)?;
    }
    Ok(())
}

impl Cells {
    pub fn step(&mut self, desk: &mut Desk) -> Result<()> {
        match desk.random.below(10) {
            0..4 => self.set(desk),
            4 => self.flash(desk),
            5..8 => self.increment(desk),
            _ => self.swap(desk),
        }
    }

    fn set(&mut self, desk: &mut Desk) -> Result<()> {
        let name = Name::new(&cell(desk.random.below(CELLS)))?;
        let command = if desk.random.chance(10) {
            CellCommand::Delete { name, counter: None }
        } else {
            CellCommand::set(name, desk.text())
        };
        desk.commit(Transaction::new().step(command)).map(drop)
    }

    /// Writes a cell whose name is used only once.
    fn flash(&mut self, desk: &mut Desk) -> Result<()> {
        self.flashes += 1;
        let name = Name::new(&format!("flash/{}/{}", desk.number, self.flashes))?;
        let value = desk.text().into();
        let ttl = Ttl::Millis(FLASH_MS);
        desk.commit(Transaction::new().step(CellCommand::Set { name, value, ttl })).map(drop)
    }

    fn increment(&mut self, desk: &mut Desk) -> Result<()> {
        let k = desk.random.below(COUNTERS);
        let name = Name::new(&counter(k))?;
        let by = Number::Int(1);
        desk.commit(Transaction::new().step(CellCommand::Incr { name, by }))?;
        self.increments[k as usize] += 1;
        Ok(())
    }

    /// The value counts the swaps, so that a lost or repeated swap shows.
    fn swap(&mut self, desk: &mut Desk) -> Result<()> {
        let k = desk.random.below(SWAPPED);
        let name = swapped(k);
        let seen = desk.db.cells().get_versioned(&name)?;
        let expected = seen.as_ref().map(|seen| seen.counter);
        let value = (number(seen.as_ref().map(|seen| &seen.value)) + 1).into();
        let name = Name::new(&name)?;
        let swap = Transaction::new().step(CellCommand::Cas { name, expected, value });
        let receipt = desk.commit(swap)?;
        let did = receipt.answers.iter().all(mainstay::Answer::took_effect);
        self.swaps[k as usize] += u64::from(did);
        Ok(())
    }
}

/// Checks that the counters equal the sums of all workers.
pub(super) fn check<'a>(db: &Database, hands: impl Iterator<Item = &'a Cells>) -> Outcome<()> {
    let mut expected = Cells::default();
    for hand in hands {
        add(&mut expected.increments, &hand.increments);
        add(&mut expected.swaps, &hand.swaps);
    }
    let counters = (0..).map(counter).zip(expected.increments);
    let swapped = (0..).map(swapped).zip(expected.swaps);
    for (name, count) in counters.chain(swapped) {
        let found = number(db.cells().get(&name).map_err(told)?.as_ref());
        agree(&format!("the cell `{name}`"), count as i64, found)?;
    }
    agree("cells that are over", 0, count_of(db, "flash/")?)
}

fn add(to: &mut [u64], counts: &[u64]) {
    to.iter_mut().zip(counts).for_each(|(to, count)| *to += count);
}

fn count_of(db: &Database, prefix: &str) -> Outcome<usize> {
    let page = db.cells().list(prefix, None, CELLS as usize).map_err(told)?;
    Ok(page.names.len())
}
