//! `mainstay bench`: a small load test, with latency percentiles.
//!
//! ```text
//!   a thread per connection: commands --all at once, --pipeline many--> store --> replies, each timed
//!                                                                                    |
//!   a row per kind of command: rate, p50, p99, p999, maximum <---------- histogram --+
//! ```
//!
//! A latency is measured from the time at which the batch was sent. All results count, without a warm-up
//! phase, except that the cells that `GET` reads are written before.

mod load;

use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::progress::Bar;
use super::store::Store;
use clap::{Args, ValueEnum};
use load::{End, Load, Measurement};
use mainstay::Progress;

/// Limits of a batch that fills the store: the number of cells, and the approximate size.
const FILL_CELLS: u64 = 100;
const FILL_BYTES: u64 = 1 << 20;

/// What the load is. It writes cells whose names begin with `bench:`, and leaves them there.
#[derive(Debug, Args)]
pub struct Bench {
    /// What is asked, one kind after the other
    #[arg(value_enum, default_values = ["set", "get", "incr"])]
    commands: Vec<Kind>,
    /// How many connections ask at once, each from a thread of its own
    #[arg(short, long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    connections: u64,
    /// How many commands each sends before it waits for replies; of a server
    #[arg(short = 'P', long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pipeline: u64,
    /// The bytes of a value
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    size: u64,
    /// How many cells there are
    #[arg(short, long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: u64,
    /// How long each kind of command is measured
    #[arg(short, long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// How many commands of each kind are measured, instead of a time
    #[arg(short = 'n', long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// What has to happen before a write is answered [default: what the store has]
    #[arg(long, value_enum)]
    durability: Option<DurabilityArg>,
}

/// A kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Writes a cell.
    Set,
    /// Reads a cell.
    Get,
    /// Adds one to a cell.
    Incr,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Set => "SET",
            Kind::Get => "GET",
            Kind::Incr => "INCR",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DurabilityArg {
    /// It is on stable storage.
    Sync,
    /// It will be within a moment.
    Interval,
    /// It is in memory.
    Memory,
}

impl DurabilityArg {
    fn name(self) -> &'static str {
        match self {
            DurabilityArg::Sync => "sync",
            DurabilityArg::Interval => "interval",
            DurabilityArg::Memory => "memory",
        }
    }
}

impl Bench {
    pub fn run(self, context: &mut Context) -> Result<()> {
        if self.pipeline > 1 && context.is_directory() {
            return Err(Failure::error(
                "a directory answers one command after the other: --pipeline is for a server",
            ));
        }
        let mut stores = context.stores(usize::try_from(self.connections).unwrap_or(usize::MAX))?;
        self.set_durability(&mut stores)?;
        let bar = Bar::new("bench");
        for &kind in &self.commands {
            if kind == Kind::Get {
                self.fill(&mut stores, &bar)?;
            }
            let measured = self.load(kind).measure(&mut stores, &bar)?;
            context.printer.row(self.row(kind, &measured));
        }
        drop(bar);
        context.printer.finish();
        context.printer.note("The cells bench:… stay where they are.");
        Ok(())
    }

    /// Sets the durability of the writes on each connection.
    fn set_durability(&self, stores: &mut [Store]) -> Result<()> {
        let Some(durability) = self.durability else { return Ok(()) };
        let call = || vec![b"DURABILITY".to_vec(), durability.name().into()];
        stores.iter_mut().try_for_each(|store| store.call(call()).map(|_| ()))
    }

    fn load(&self, kind: Kind) -> Load {
        let end = match self.requests {
            Some(requests) => End::Requests(requests),
            None => End::Seconds(self.seconds),
        };
        let value = vec![b'x'; usize::try_from(self.size).unwrap_or(usize::MAX)];
        Load { kind, pipeline: self.pipeline, keys: self.keys, value, end }
    }

    /// Writes all cells that `GET` reads, because a missing cell would be answered too fast.
    fn fill(&self, stores: &mut [Store], bar: &Bar) -> Result<()> {
        let Some(store) = stores.first_mut() else { return Ok(()) };
        let load = self.load(Kind::Set);
        let step = (FILL_BYTES / self.size).clamp(1, FILL_CELLS);
        let mut next = 0;
        while next < self.keys {
            let end = self.keys.min(next + step);
            let cells = (next..end).flat_map(|key| [load.key(key), load.value.clone()]);
            store.call([b"MSET".to_vec()].into_iter().chain(cells).collect())?;
            next = end;
            bar.show(Progress { phase: "fill", done: next, total: Some(self.keys) });
        }
        Ok(())
    }

    fn row(&self, kind: Kind, measured: &Measurement) -> Row {
        let Measurement { requests, elapsed_us, latencies } = measured;
        let [p50, p99, p999] = latencies.percentiles().unwrap_or_default();
        let rate = requests.saturating_mul(1_000_000) / (*elapsed_us).max(1);
        let number = |name: &'static str, n: u64| (name.into(), Field::number(n));
        let durability = self.durability.map_or("default", DurabilityArg::name);
        vec![
            ("command".into(), Field::text(kind.name())),
            number("connections", self.connections),
            number("pipeline", self.pipeline),
            number("value_bytes", self.size),
            ("durability".into(), Field::text(durability)),
            number("requests", *requests),
            number("elapsed_ms", elapsed_us / 1000),
            number("per_second", rate),
            // Not `_us`: headings drop that suffix, which is for timestamps.
            number("p50_micros", p50),
            number("p99_micros", p99),
            number("p999_micros", p999),
            number("max_micros", latencies.most()),
        ]
    }
}
