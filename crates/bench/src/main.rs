//! Benchmarks of the engine and the server against their peers, in one harness.
//!
//! ```text
//!   bench engine                          bench server --quick --json figures.json
//!        |                                     |
//!   cases/  one file per case             server/  the same for the server: ours and Redis
//!   peers/  the systems compared with          |
//!        \____________  ______________________/
//!                     \/
//!   harness: ours, peer, ours, peer … in short slices; the ratio is the median over the rounds
//!                     |
//!   report: an aligned table, and the figures as JSON
//! ```

// Elsewhere, time is always an argument. Measuring time is this program's purpose.
#![allow(clippy::disallowed_methods)]

mod args;
mod cases;
mod context;
mod forms;
mod harness;
mod json;
mod keyed;
mod peers;
mod proc;
mod records;
mod report;
mod runs;
mod server;
mod sessions;
mod workload;

use args::{Args, Task};
use context::{Context, Outcome};
use std::process::ExitCode;

// One allocator for all sides, so that none of them has an advantage.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match args::parse(std::env::args().skip(1)).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Outcome<()> {
    match task {
        Task::Help => {
            println!("{}", args::USAGE);
            Ok(())
        }
        Task::Engine(args) => bench("engine", args, cases::run_all),
        Task::Server(args) => bench("server", args, server::run_all),
        Task::Records(args) => bench("records", args, records::run_all),
        Task::Runs(args) => bench("runs", args, runs::run_all),
        Task::Keyed(args) => bench("keyed", args, keyed::run_all),
        Task::Sessions(args) => bench("sessions", args, sessions::run_all),
        Task::WriteUntilKilled { directory, cells } => {
            cases::reopen::write_until_killed(&directory, cells)
        }
        Task::MeasureMemory { directory, cells } => cases::memory::child(&directory, cells),
        Task::Serve { directory, port, durability } => server::serve(&directory, port, durability),
    }
}

fn bench(name: &'static str, args: Args, run_all: fn(&mut Context) -> Outcome<()>) -> Outcome<()> {
    let json = args.json.clone();
    let mut context = Context::new(name, args)?;
    run_all(&mut context)?;
    context.report.print();
    match json {
        Some(path) => context.report.write_json(&path),
        None => Ok(()),
    }
}
