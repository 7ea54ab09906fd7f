//! The benchmark cases, one file each.

pub mod cached;
pub mod durable;
pub mod fork;
pub mod interval;
pub mod memory;
pub mod misc;
pub mod reopen;
pub mod uncached;
mod writers;

use crate::context::{Context, Outcome};
use mainstay::{CellCommand, Database, Durability, Name, Transaction};

/// Runs all selected cases.
pub fn run_all(context: &mut Context) -> Outcome<()> {
    durable::run(context)?;
    cached::run(context)?;
    uncached::run(context)?;
    interval::run(context)?;
    fork::run(context)?;
    reopen::run(context)?;
    memory::run(context)?;
    misc::run(context)
}

/// Sets all cells, a thousand per transaction, with one fsync at the end.
pub fn load(
    database: &Database,
    names: impl Iterator<Item = String>,
    values: &[String],
) -> Outcome<()> {
    const BATCH: usize = 1_000;
    let mut names = names.zip(values.iter().cycle()).peekable();
    while names.peek().is_some() {
        let mut batch = Transaction::new().durability(Durability::Memory);
        for (name, value) in names.by_ref().take(BATCH) {
            batch = batch.step(CellCommand::set(Name::new(&name)?, value.as_str()));
        }
        database.execute(batch)?;
    }
    database.sync()?;
    Ok(())
}
