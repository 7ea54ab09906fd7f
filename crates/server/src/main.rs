//! The program `mainstay`.

mod cli;

use mainstay_server::config::Config;
use mainstay_server::serve;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run(std::env::args_os(), serve)
}

fn serve(config: &Config) -> ExitCode {
    match serve::run(config, cli::welcome) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            cli::complain(error.message());
            ExitCode::from(2)
        }
    }
}
