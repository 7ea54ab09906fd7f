//! Reads that miss the value cache and search the LSM tree, compared with fjall with the same block cache.

use super::cached::reader;
use super::load;
use crate::context::{Context, Outcome, short_count};
use crate::harness::{Side, interleave};
use crate::peers::fjall::Fjall;
use crate::workload;
use mainstay::{Database, Options};
use std::hint::black_box;

/// Smaller than the data, so that blocks are evicted. Proportional to the number of keys, so that a quick
/// run has the same miss rate as a full one.
const BLOCK_CACHE_BYTES_PER_KEY: u64 = 8;
/// The smallest size that the engine accepts: almost no data fits.
const VALUE_CACHE_BYTES: u64 = 0;

/// Runs the comparison.
pub fn run(context: &mut Context) -> Outcome<()> {
    let count = context.sized(1_000_000);
    let case = format!("get, uncached, {} keys, 1 thread", short_count(count));
    if !context.wants(&case) {
        return Ok(());
    }
    let names = workload::names(count);
    let values = workload::values();
    let directory = context.directory("uncached")?;
    let block_cache_bytes = BLOCK_CACHE_BYTES_PER_KEY * count as u64;
    let database = Options::new()
        .cache_bytes(VALUE_CACHE_BYTES)
        .block_cache_bytes(block_cache_bytes)
        .open(directory.path().join("ours"))?;
    load(&database, names.iter().cloned(), &values)?;
    database.trim()?;
    let fjall = Fjall::open(&directory.path().join("fjall"), block_cache_bytes)?;
    for (name, value) in names.iter().zip(values.iter().cycle()) {
        fjall.set(name, value)?;
    }
    fjall.settle()?;
    let mut sides = sides(&database, &fjall, &names);
    let measured = interleave(&mut sides, context.processor_bar())?;
    drop(sides);
    context.report.compare(&case, &measured, Some(0.8));
    Ok(())
}

fn sides<'a>(database: &Database, fjall: &'a Fjall, names: &'a [String]) -> [Side<'a>; 2] {
    let cells = database.cells();
    let ours = move |name: &str| match black_box(cells.get(name)?) {
        Some(_) => Ok(()),
        None => Err(format!("ours has lost {name}").into()),
    };
    let theirs = |name: &str| {
        if black_box(fjall.get(name)?) {
            Ok(())
        } else {
            Err(format!("fjall has lost {name}").into())
        }
    };
    [reader("ours", names, 1, ours), reader("fjall", names, 1, theirs)]
}
