//! Keyed-state load: rising versions of the same keys, waiting writes with seals, and dropped spaces.

use super::{Desk, agree, told};
use crate::drill::Outcome;
use mainstay::{Database, Error, Result, SpaceOptions, StateCommand, StateWrite, Transaction};
use mainstay::{Name, VersionKind};
use std::collections::BTreeMap;

/// The number of keys per worker.
const KEYS: u64 = 300;
/// The number of waiting writes after which a worker seals them.
const SEALED: u64 = 40;
/// The number of items after which a worker drops their space.
const ITEMS: u64 = 200;
/// The space of states.
pub(super) const STATES: &str = "states";

fn key(hand: u64, k: u64) -> String {
    format!("{hand}/{k}")
}

fn due(hand: u64) -> String {
    format!("due/{hand}")
}

fn items(hand: u64) -> String {
    format!("items/{hand}")
}

/// The acknowledged operations of one worker.
pub(super) struct Keyed {
    version: u64,
    /// The last version of each key.
    last: BTreeMap<u64, u64>,
    /// The number of waiting writes, and the number of items.
    waiting: u64,
    items: u64,
}

impl Keyed {
    /// Declares the spaces of a worker.
    pub fn declare(desk: &Desk) -> Result<Keyed> {
        let options = SpaceOptions::default().versions(VersionKind::U64);
        desk.db.keyed(STATES)?.declare(options)?;
        desk.db.keyed(&due(desk.number))?.declare(options.ordered())?;
        Ok(Keyed { version: 0, last: BTreeMap::new(), waiting: 0, items: 0 })
    }

    pub fn step(&mut self, desk: &mut Desk) -> Result<()> {
        self.version += 1;
        match desk.random.below(10) {
            0..7 => self.put(desk),
            7 | 8 => self.wait(desk),
            _ => self.add_item(desk),
        }
    }

    fn put(&mut self, desk: &mut Desk) -> Result<()> {
        let k = desk.random.below(KEYS);
        let write = StateWrite::put(key(desk.number, k), desk.text(), self.version);
        write_to(desk, STATES, write)?;
        self.last.insert(k, self.version);
        Ok(())
    }

    fn wait(&mut self, desk: &mut Desk) -> Result<()> {
        let space = due(desk.number);
        if self.waiting == SEALED {
            let settled = desk.db.keyed(&space)?.seal(self.version)?;
            return expect(settled == std::mem::take(&mut self.waiting), "a seal left some");
        }
        let k = desk.random.below(KEYS);
        let write = StateWrite::put(key(desk.number, k), desk.text(), self.version);
        write_to(desk, &space, write)?;
        self.waiting += 1;
        Ok(())
    }

    fn add_item(&mut self, desk: &mut Desk) -> Result<()> {
        let space = items(desk.number);
        if self.items == ITEMS {
            self.items = 0;
            return desk.db.keyed(&space)?.clear().map(drop);
        }
        let write = StateWrite::append("log", self.version.to_string(), desk.text());
        write_to(desk, &space, write)?;
        self.items += 1;
        Ok(())
    }

    /// Checks the last version of each key, the unsealed writes, and the items since the space was
    /// dropped last.
    pub fn check(&self, db: &Database, hand: u64) -> Outcome<()> {
        let states = db.keyed(STATES).map_err(told)?;
        for (k, version) in &self.last {
            let key = key(hand, *k);
            let found = states.get(&key).map_err(told)?.map(|state| state.version);
            agree(&format!("the state `{key}`"), Some((*version).into()), found)?;
        }
        let waiting = db.keyed(&due(hand)).map_err(told)?;
        let waiting = waiting.waiting(None, 2 * SEALED as usize).map_err(told)?;
        agree("writes that wait", self.waiting, waiting.len() as u64)?;
        let items = db.keyed(&items(hand)).map_err(told)?;
        let items = items.items(b"log", None, 2 * ITEMS as usize).map_err(told)?;
        agree("items", self.items, items.len() as u64)
    }
}

fn write_to(desk: &mut Desk, space: &str, write: StateWrite) -> Result<()> {
    let write = StateCommand::Write { space: Name::new(space)?, writes: vec![write] };
    let receipt = desk.commit(Transaction::new().step(write))?;
    expect(receipt.answers.iter().all(mainstay::Answer::took_effect), "a newer write was stale")
}

fn expect(holds: bool, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::new(mainstay::Code::CorruptData, what)) }
}
