//! The program `mainstay`.

mod cli;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os(), serve)
}

/// The server's place: this one call is all that the command line knows of it.
fn serve(arguments: cli::ServeArgs) -> ExitCode {
    cli::complain(&format!("this build has no server yet: {arguments:?}"));
    ExitCode::from(2)
}
