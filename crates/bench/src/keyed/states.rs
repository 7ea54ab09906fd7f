//! Puts and gets: each put is applied if its version is newer.

use super::entries::{self, BATCH};
use crate::context::{Context, Outcome, short_count};
use crate::report::Row;
use fjall::{KeyspaceCreateOptions, PersistMode};
use mainstay::{Durability, KeyedState, Options};
use mainstay_streams::MemoryState;
use std::hint::black_box;
use std::time::Instant;

const ENTRIES: usize = 1_000_000;
const GETS: u64 = 200_000;

/// Rates of puts and gets.
struct Rates {
    puts: f64,
    gets: f64,
}

/// Runs both cases.
pub fn run(context: &mut Context) -> Outcome<()> {
    let entries = context.sized(ENTRIES) as u64;
    let puts = format!("put {} states, unsynced, {BATCH} at once", short_count(entries as usize));
    let gets = format!("get of {} states", short_count(entries as usize));
    if !context.wants(&puts) && !context.wants(&gets) {
        return Ok(());
    }
    let directory = context.directory("states")?;
    let database = Options::new().open(directory.path().join("ours"))?;
    let space = database.keyed("counts")?.durability(Durability::Memory);
    let ours = of_store(&space, entries)?;
    let memory = of_store(&MemoryState::new(), entries)?;
    let fjall = of_fjall(&directory.path().join("fjall"), entries)?;
    for (peer, rates) in [("in memory", &memory), ("fjall", &fjall)] {
        context.report.add(Row::larger(&puts, "op/s", ours.puts, (peer, rates.puts)));
        context.report.add(Row::larger(&gets, "op/s", ours.gets, (peer, rates.gets)));
    }
    Ok(())
}

fn of_store(space: &dyn KeyedState, entries: u64) -> Outcome<Rates> {
    let started = Instant::now();
    for first in (0..entries).step_by(BATCH as usize) {
        space.write(entries::batch(first, 1, 1))?;
    }
    let puts = entries as f64 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    for n in 0..GETS {
        let found = space.get(entries::key(n * 7 % entries).as_bytes())?;
        if black_box(found).is_none() {
            return Err("a state is not there".into());
        }
    }
    Ok(Rates { puts, gets: GETS as f64 / started.elapsed().as_secs_f64() })
}

/// The same on fjall: a version before each value, which is read before each write.
fn of_fjall(path: &std::path::Path, entries: u64) -> Outcome<Rates> {
    let database = fjall::Database::builder(path).open()?;
    let states = database.keyspace("states", KeyspaceCreateOptions::default)?;
    let started = Instant::now();
    for first in (0..entries).step_by(BATCH as usize) {
        let mut batch = database.batch().durability(Some(PersistMode::Buffer));
        for n in first..first + BATCH {
            let key = entries::key(n);
            let version = n + 1;
            let before =
                states.get(&key)?.and_then(|held| Some(u64::from_be_bytes(*held.first_chunk()?)));
            if before.is_none_or(|before| before < version) {
                let held = [&version.to_be_bytes()[..], entries::value(n).as_bytes()].concat();
                batch.insert(&states, key, held);
            }
        }
        batch.commit()?;
    }
    let puts = entries as f64 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    for n in 0..GETS {
        if black_box(states.get(entries::key(n * 7 % entries))?).is_none() {
            return Err("a state is not there".into());
        }
    }
    Ok(Rates { puts, gets: GETS as f64 / started.elapsed().as_secs_f64() })
}
