//! Reads of cached cells, compared with lookups in a papaya map of the same names and values.

use super::load;
use crate::context::{Context, Outcome, short_count};
use crate::forms::threads;
use crate::harness::{Side, interleave};
use crate::peers::papaya::{DefaultMap, Map};
use crate::peers::redb::Redb;
use crate::workload::{self, Random};
use mainstay::Options;
use std::hint::black_box;

/// Small enough to load quickly, and large enough to exceed the processor's caches.
const KEYS: usize = 100_000;
/// One of this many lookups is timed.
const SAMPLE: u64 = 64;

/// Runs the case with one and with two threads.
pub fn run(context: &mut Context) -> Outcome<()> {
    let case = |threads: usize| {
        let word = if threads == 1 { "thread" } else { "threads" };
        format!("get, cached, {} keys, {threads} {word}", short_count(KEYS))
    };
    let wanted: Vec<usize> = [1, 2].into_iter().filter(|&n| context.wants(&case(n))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let names = workload::names(KEYS);
    let values = workload::values();
    let directory = context.directory("cached")?;
    let database = Options::new().cache_bytes(256 << 20).open(directory.path().join("ours"))?;
    load(&database, names.iter().cloned(), &values)?;
    let map = Map::filled(&names, &values);
    let default_map = DefaultMap::filled(&names, &values);
    let redb = Redb::create(directory.path(), 256 << 20)?;
    redb.load(&names, &values)?;
    let cells = database.cells();
    // Warm the cache before the clock runs.
    for name in &names {
        cells.get(name)?.ok_or_else(|| missing(name))?;
    }
    for n in wanted {
        let ours = |name: &str| {
            black_box(cells.get(name)?.ok_or_else(|| missing(name))?);
            Ok(())
        };
        let papaya = |name: &str| {
            black_box(map.get(name).ok_or_else(|| missing(name))?);
            Ok(())
        };
        let default = |name: &str| {
            black_box(default_map.get(name).ok_or_else(|| missing(name))?);
            Ok(())
        };
        let redb = |name: &str| {
            black_box(redb.get(name)?.ok_or_else(|| missing(name))?);
            Ok(())
        };
        let mut sides = [
            reader("ours", &names, n, ours),
            reader("papaya", &names, n, papaya),
            reader("papaya, default hasher", &names, n, default),
            reader("redb", &names, n, redb),
        ];
        let measured = interleave(&mut sides, context.processor_bar())?;
        drop(sides);
        context.report.compare(&case(n), &measured, Some(0.5));
    }
    Ok(())
}

fn missing(name: &str) -> String {
    format!("the key {name} is not there")
}

/// Threads that look up random names.
pub fn reader<'a>(
    side: &str,
    names: &'a [String],
    count: usize,
    read: impl Fn(&str) -> Outcome<()> + Clone + Send + 'a,
) -> Side<'a> {
    let worker = |seed| {
        let read = read.clone();
        let mut random = Random::new(seed);
        move || read(random.pick(names))
    };
    let mut workers: Vec<_> = (0..count as u64).map(worker).collect();
    Side::new(side, move |slice| threads(&mut workers, SAMPLE, slice))
}
