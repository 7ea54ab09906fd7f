//! Size of records on disk, with an index, after compaction.

use super::tasks;
use crate::context::{Context, Outcome, short_count};
use crate::report::Row;
use mainstay::Options;

/// Runs the case.
pub fn run(context: &mut Context) -> Outcome<()> {
    let count = context.sized(1_000_000);
    let case = format!("{} records of 12 fields with an index, on disk", short_count(count));
    if !context.wants(&case) {
        return Ok(());
    }
    let directory = context.directory("size")?;
    let path = directory.path().join("ours");
    let database = Options::new().feed_retention(std::time::Duration::ZERO, 0).open(&path)?;
    tasks::declare(&database)?;
    tasks::load(&database, count)?;
    database.trim()?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let disk = mib(database.stats().index_bytes);
    let raw = mib(tasks::raw_bytes(count));
    context.report.add(Row::smaller(&case, "MiB", disk, ("keys, names and values", raw)).must(1.6));
    Ok(())
}
