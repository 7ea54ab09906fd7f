//! Record load: written repeatedly, indexed, with and without expiry, found by their index.

use super::{Desk, agree, told};
use crate::drill::Outcome;
use mainstay::{Database, Field, RecordWrite, Result, Test, Transaction, Ttl, Where};

/// The number of records per worker.
const RECORDS: u64 = 400;
/// The number of states of records.
const STATES: u64 = 8;
/// The time to live of expiring records, in milliseconds.
const FLASH_MS: u64 = 1000;
/// The page size of an index scan.
const PAGE: usize = 20;

/// The prefix of the keys.
const PREFIX: &str = "record/";

fn key(hand: u64, k: u64) -> String {
    format!("{PREFIX}{hand}/{k}")
}

/// The acknowledged operations of one worker.
#[derive(Default)]
pub(super) struct Records {
    /// The last number written to each record without expiry.
    last: std::collections::BTreeMap<u64, u64>,
    written: u64,
}

/// Declares an index whose entries change with every write.
pub(super) fn declare(db: &Database) -> Result<()> {
    db.records().add_index(PREFIX, &["state", "number"]).map(drop)
}

impl Records {
    pub fn step(&mut self, desk: &mut Desk) -> Result<()> {
        self.written += 1;
        match desk.random.below(10) {
            0..6 => self.write(desk),
            6..8 => self.flash(desk),
            _ => find(desk),
        }
    }

    /// Writes a record. Every other record expires unless it is written again.
    fn write(&mut self, desk: &mut Desk) -> Result<()> {
        let k = desk.random.below(RECORDS);
        let stays = k.is_multiple_of(2);
        let ttl = if stays { Ttl::Clear } else { Ttl::Millis(3 * FLASH_MS) };
        let write = self.filled(desk, &key(desk.number, k))?.ttl(ttl);
        desk.commit(Transaction::new().step(write))?;
        if stays {
            self.last.insert(k, self.written);
        }
        Ok(())
    }

    /// Writes a record whose key is used only once.
    fn flash(&mut self, desk: &mut Desk) -> Result<()> {
        let key = format!("{PREFIX}{}/flash/{}", desk.number, self.written);
        let write = self.filled(desk, &key)?.ttl(Ttl::Millis(FLASH_MS));
        desk.commit(Transaction::new().step(write)).map(drop)
    }

    fn filled(&self, desk: &mut Desk, key: &str) -> Result<RecordWrite> {
        RecordWrite::to(key)?
            .set("state", desk.random.below(STATES).to_string())?
            .set("number", self.written.to_string())?
            .set("text", desk.text())
    }

    /// Checks that records without expiry have their last value, and that no other record exists.
    pub fn check(&self, db: &Database, hand: u64) -> Outcome<()> {
        for (k, number) in &self.last {
            let name = key(hand, *k);
            let record = db.records().get(&name).map_err(told)?;
            let found = record.as_ref().and_then(|record| record.fields.text("number"));
            agree(&format!("the record `{name}`"), Some(number.to_string().as_str()), found)?;
        }
        let count = db.records().count(&format!("{PREFIX}{hand}/"), &[]).map_err(told)?;
        agree("records", self.last.len() as u64, count)
    }
}

/// Finds records by the index.
fn find(desk: &mut Desk) -> Result<()> {
    let state = desk.random.below(STATES).to_string();
    let filter = Where { field: Field::new("state")?, test: Test::Eq(state.into()) };
    desk.db.records().scan(PREFIX, &[filter], None, PAGE).map(drop)
}
