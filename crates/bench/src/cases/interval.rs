//! Unsynced writes with history: our plain set, compared with a batch of two writes in fjall.

use crate::context::{Context, Outcome, short_count};
use crate::forms::threads;
use crate::harness::{Side, interleave};
use crate::peers::fjall::Fjall;
use crate::workload::{self, Random};
use mainstay::{Durability, Options};

/// One of this many writes is timed.
const SAMPLE: u64 = 16;

/// Runs the comparison.
pub fn run(context: &mut Context) -> Outcome<()> {
    let count = context.sized(100_000);
    let case = format!("set with history, interval, {} keys, 1 thread", short_count(count));
    if !context.wants(&case) {
        return Ok(());
    }
    let names = workload::names(count);
    let values = workload::values();
    let directory = context.directory("interval")?;
    let database =
        Options::new().durability(Durability::Interval).open(directory.path().join("ours"))?;
    let fjall = Fjall::open(&directory.path().join("fjall"), 32 << 20)?;
    let cells = database.cells();
    let mut sides = [
        writer("ours", &names, &values, |name, value| Ok(cells.set(name, value).map(drop)?)),
        writer("fjall, value + history entry", &names, &values, |name, value| {
            fjall.set_with_history(name, value)
        }),
    ];
    let measured = interleave(&mut sides, context.disk_bar())?;
    drop(sides);
    context.report.compare(&case, &measured, Some(1.5));
    Ok(())
}

fn writer<'a>(
    side: &str,
    names: &'a [String],
    values: &'a [String],
    write: impl Fn(&str, &str) -> Outcome<()> + Send + 'a,
) -> Side<'a> {
    let mut random = Random::new(3);
    let mut workers = [move || write(random.pick(names), random.pick(values))];
    Side::new(side, move |slice| threads(&mut workers, SAMPLE, slice))
}
