//! Time to the first reply of a server that was shut down cleanly, measured from the process start.

use super::load;
use super::process::Server;
use super::wire::{Operation, key};
use crate::context::{Context, Outcome, short_count};
use crate::harness::median;
use crate::report::Row;
use mainstay::Durability;
use std::time::Instant;

const LIMIT_SECONDS: f64 = 0.2;
/// Number of starts, each with a new database, because a second start has less work than the first.
const ROUNDS: usize = 3;

/// Runs the case.
pub fn run(context: &mut Context) -> Outcome<()> {
    let keys = context.sized(1_000_000);
    let case = format!("start to first reply, {} keys", short_count(keys));
    if !context.wants(&case) {
        return Ok(());
    }
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        seconds.push(start_after_stop(context, keys)?);
    }
    context.report.add(row(&case, &mut seconds));
    Ok(())
}

fn start_after_stop(context: &Context, keys: usize) -> Outcome<f64> {
    let directory = context.directory("start")?;
    let path = directory.path().join("ours");
    let mut server = Server::ours(&path, Durability::Sync)?;
    server.wait()?;
    load::fill(server.address, keys)?;
    server.stop()?;
    let started = Instant::now();
    let mut server = Server::ours(&path, Durability::Sync)?;
    server.wait_for(&["GET", &key(keys as u64 / 2)], &Operation::Get.reply())?;
    let seconds = started.elapsed().as_secs_f64();
    server.stop()?;
    Ok(seconds)
}

fn row(case: &str, seconds: &mut [f64]) -> Row {
    let middle = median(seconds);
    let mut row = Row::smaller(case, "s", middle, ("limit", LIMIT_SECONDS)).must(1.0);
    // The median has sorted them.
    let ends = seconds.first().zip(seconds.last());
    row.range = ends.map(|(low, high)| (low / LIMIT_SECONDS, high / LIMIT_SECONDS));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_start_counts_and_the_others_are_its_range() {
        let row = row("start", &mut [0.3, 0.1, 0.15]);
        assert_eq!((row.ours, row.reached()), (0.15, Some(true)));
        assert_eq!(row.range, Some((0.1 / 0.2, 0.3 / 0.2)));
    }
}
