//! Memory while writing: limited to the configured caches and buffers plus some overhead, without growth.
//!
//! A child process does the writing, so that nothing else counts towards its peak.

use crate::args::MEASURE_MEMORY;
use crate::context::{Context, Outcome, short_count};
use crate::proc;
use crate::report::Row;
use crate::workload;
use mainstay::{Durability, Options};
use std::path::Path;
use std::process::Command;

const MIB: u64 = 1 << 20;
const VALUE_CACHE_BYTES: u64 = 32 * MIB;
const BLOCK_CACHE_BYTES: u64 = 32 * MIB;
const WRITE_BUFFER_BYTES: u64 = 96 * MIB;

/// Runs the case: peak memory, and the longest stall of a writer.
pub fn run(context: &mut Context) -> Outcome<()> {
    let count = context.sized(10_000_000);
    let case = format!("peak memory, writing {} cells", short_count(count));
    if !context.wants(&case) {
        return Ok(());
    }
    let directory = context.directory("memory")?;
    let output = Command::new(std::env::current_exe()?)
        .arg(MEASURE_MEMORY)
        .arg(directory.path().join("ours"))
        .arg(count.to_string())
        .output()?;
    if !output.status.success() {
        return Err(format!("{case}: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let (peak_kib, stall_us) = parse(&String::from_utf8_lossy(&output.stdout))?;
    let peak = peak_kib as f64 / 1024.0;
    context.report.add(Row::smaller(&case, "MiB", peak, ("limit", limit_mib())).must(1.0));
    let stall = Row::figure(&format!("longest stall, {case}"), "ms", stall_us as f64 / 1e3);
    context.report.add(stall);
    Ok(())
}

/// The configured memory plus 20 %, plus 64 MiB.
fn limit_mib() -> f64 {
    let configured = VALUE_CACHE_BYTES + BLOCK_CACHE_BYTES + WRITE_BUFFER_BYTES;
    (configured / MIB) as f64 * 1.2 + 64.0
}

/// The child: writes, and prints its peak memory in KiB and the longest stall in microseconds.
pub fn child(path: &Path, count: u64) -> Outcome<()> {
    let database = Options::new()
        .durability(Durability::Memory)
        .cache_bytes(VALUE_CACHE_BYTES)
        .block_cache_bytes(BLOCK_CACHE_BYTES)
        .write_buffer_bytes(WRITE_BUFFER_BYTES)
        .open(path)?;
    let cells = database.cells();
    let values = workload::values();
    for (n, value) in workload::scattered(count).zip(values.iter().cycle()) {
        cells.set(&workload::name(n), value.as_str())?;
    }
    let peak_kib = proc::memory_kib(std::process::id(), proc::PEAK)?;
    println!("{peak_kib} {}", database.stats().longest_stall_us);
    Ok(())
}

fn parse(line: &str) -> Outcome<(u64, u64)> {
    let mut figures = line.split_whitespace().map(str::parse::<u64>);
    match (figures.next(), figures.next()) {
        (Some(peak), Some(stall)) => Ok((peak?, stall?)),
        _ => Err(format!("the measuring child said `{}`", line.trim()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_was_set() {
        assert_eq!(limit_mib(), 256.0);
    }

    #[test]
    fn the_childs_line_is_read() {
        assert_eq!(parse("204800 1500\n").unwrap(), (204_800, 1_500));
        assert!(parse("204800").is_err() && parse("a b").is_err());
    }
}
