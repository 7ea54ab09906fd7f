//! Transactions, lists and histories, compared with the nearest equivalent in other stores.

use super::load;
use crate::context::{Context, Outcome, short_count};
use crate::forms::threads;
use crate::harness::{Measured, Side, interleave};
use crate::peers::fjall::{Fjall, FjallTransactions};
use crate::peers::redb::Redb;
use crate::workload::{self, Random};
use mainstay::{Database, Durability, Options};
use std::hint::black_box;

const CACHE_BYTES: u64 = 32 << 20;
/// One of this many operations is timed.
const SAMPLE: u64 = 8;

/// Runs all three cases.
pub fn run(context: &mut Context) -> Outcome<()> {
    let data =
        Data { names: workload::names(context.sized(1_000_000)), values: workload::values() };
    transaction(context, &data)?;
    list(context, &data)?;
    history(context, &data)
}

struct Data {
    names: Vec<String>,
    values: Vec<String>,
}

fn transaction(context: &mut Context, data: &Data) -> Outcome<()> {
    let case = "transaction, interval, 2 reads + 2 writes, 1 thread";
    if !context.wants(case) {
        return Ok(());
    }
    let directory = context.directory("transaction")?;
    let names = &data.names[..data.names.len() / 10];
    let ours = open(&directory.path().join("ours"))?;
    load(&ours, names.iter().cloned(), &data.values)?;
    let fjall = FjallTransactions::open(&directory.path().join("fjall"), CACHE_BYTES)?;
    for (name, value) in names.iter().zip(data.values.iter().cycle()) {
        fjall.set(name, value)?;
    }
    let redb = Redb::create(directory.path(), CACHE_BYTES as usize)?;
    redb.load(names, &data.values)?;
    let mut sides = [
        side("ours", |random| read_and_write(&ours, two(random, names), random.pick(&data.values))),
        side("fjall, optimistic", |random| {
            fjall.read_and_write(two(random, names), random.pick(&data.values))
        }),
        side("redb, not durable", |random| {
            redb.read_and_write(two(random, names), random.pick(&data.values))
        }),
    ];
    let measured = interleave(&mut sides, context.shown())?;
    drop(sides);
    show(context, case, &measured)
}

fn read_and_write(database: &Database, names: [&str; 2], value: &str) -> Outcome<()> {
    let done = database.transaction(|transaction| {
        for name in names {
            black_box(transaction.get(name)?);
        }
        for name in names {
            transaction.set(name, value)?;
        }
        Ok(())
    });
    Ok(done?)
}

fn list(context: &mut Context, data: &Data) -> Outcome<()> {
    const PAGE: usize = 100;
    let names = &data.names[..data.names.len().min(100_000)];
    let case = format!("list, {PAGE} of {} names, 1 thread", short_count(names.len()));
    if !context.wants(&case) {
        return Ok(());
    }
    let directory = context.directory("list")?;
    let ours = open(&directory.path().join("ours"))?;
    load(&ours, names.iter().cloned(), &data.values)?;
    let fjall = Fjall::open(&directory.path().join("fjall"), CACHE_BYTES)?;
    for (name, value) in names.iter().zip(data.values.iter().cycle()) {
        fjall.set(name, value)?;
    }
    let redb = Redb::create(directory.path(), CACHE_BYTES as usize)?;
    redb.load(names, &data.values)?;
    let starts = &names[..names.len() - 2 * PAGE];
    let cells = ours.cells();
    let mut sides = [
        side("ours", |random| {
            full(cells.list("cell:", Some(random.pick(starts)), PAGE)?.names.len(), PAGE)
        }),
        side("fjall", |random| full(fjall.list(random.pick(starts), PAGE)?.len(), PAGE)),
        side("redb", |random| full(redb.list(random.pick(starts), PAGE)?.len(), PAGE)),
    ];
    let measured = interleave(&mut sides, context.shown())?;
    drop(sides);
    show(context, &case, &measured)
}

fn history(context: &mut Context, data: &Data) -> Outcome<()> {
    const VERSIONS: usize = 100;
    const NEWEST: usize = 10;
    let case = format!("history, {NEWEST} newest of {VERSIONS}, 1 thread");
    if !context.wants(&case) {
        return Ok(());
    }
    let directory = context.directory("history")?;
    let names = &data.names[..data.names.len().min(1_000)];
    let ours = open(&directory.path().join("ours"))?;
    let fjall = Fjall::open(&directory.path().join("fjall"), CACHE_BYTES)?;
    let cells = ours.cells();
    for value in data.values.iter().cycle().take(VERSIONS) {
        for name in names {
            cells.set(name, value.as_str())?;
            fjall.set_with_history(name, value)?;
        }
    }
    let mut sides = [
        side("ours", |random| full(cells.history(random.pick(names), NEWEST, None)?.len(), NEWEST)),
        side("fjall", |random| full(fjall.history(random.pick(names), NEWEST)?.len(), NEWEST)),
    ];
    let measured = interleave(&mut sides, context.shown())?;
    drop(sides);
    show(context, &case, &measured)
}

fn open(path: &std::path::Path) -> Outcome<Database> {
    Ok(Options::new().durability(Durability::Interval).block_cache_bytes(CACHE_BYTES).open(path)?)
}

fn side<'a>(name: &str, mut body: impl FnMut(&mut Random) -> Outcome<()> + Send + 'a) -> Side<'a> {
    let mut random = Random::new(11);
    let mut workers = [move || body(&mut random)];
    Side::new(name, move |slice| threads(&mut workers, SAMPLE, slice))
}

fn two<'a>(random: &mut Random, names: &'a [String]) -> [&'a str; 2] {
    let first = random.below(names.len());
    // A different cell: the step is at least one and less than a full round.
    let second = (first + 1 + random.below(names.len() - 1)) % names.len();
    [&names[first], &names[second]]
}

fn full(found: usize, expected: usize) -> Outcome<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{expected} entries were asked for and there, {found} came").into())
}

fn show(context: &mut Context, case: &str, measured: &[Measured]) -> Outcome<()> {
    context.report.compare(case, measured, None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_names_of_a_transaction_differ() {
        let names = workload::names(3);
        let mut random = Random::new(5);
        for _ in 0..100 {
            let [first, second] = two(&mut random, &names);
            assert_ne!(first, second);
        }
    }
}
