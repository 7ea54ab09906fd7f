//! The program `mainstay`: its command line of nouns and verbs on a store, and the server that it starts.
//!
//! ```text
//!   arguments --clap--> noun and verb --words--> Store --> Reply --ReplyFormat--> rows --Printer--> output
//!                                         ^
//!   lines of the repl --split-------------+
//! ```
//!
//! Every verb on data is one or a few RESP commands. So it works alike on a directory that this process opens
//! and on a server.

mod archive;
mod args;
mod backup;
mod bench;
mod branch;
mod cell;
mod checkpoint;
mod client;
mod command_builder;
mod config;
mod console;
mod context;
mod doctor;
mod embedded;
mod failure;
mod feed;
mod field;
mod http_client;
mod http_tls;
mod index;
mod interrupt;
mod job;
mod lock;
mod outbox;
mod output;
mod pages;
mod password;
mod progress;
mod record;
mod repl;
mod reply;
mod reply_format;
mod reply_formats;
mod run;
mod session;
mod state;
mod store;
mod tag;
mod time;
mod timeline;
mod tour;
mod tour_output;
mod transfer;
mod transport;
mod txn;
mod user;

use args::{Arguments, DataNoun, Noun, ServeArgs};
use clap::{CommandFactory, Parser};
use console::{print_error, print_line, print_now};
use context::Context;
use failure::Result;
use mainstay_server::config::Config;
use mainstay_server::serve;
use output::Format;
use std::process::ExitCode;
use tour_output::TourOutput;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs one invocation. Without a noun it serves.
fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => return print_usage_error(&error),
    };
    let Arguments { store, output, noun } = arguments;
    let data = store.data.clone();
    let configured = |given| exit_code(config::load(given).map(|loaded| serve(&loaded.config)));
    let context = || Ok(Context::new(store, output.map(Format::try_from).transpose()?));
    match noun {
        None => configured(ServeArgs { data, ..ServeArgs::default() }),
        Some(Noun::Serve(given)) => configured(ServeArgs { data, ..given }),
        Some(Noun::Config(verb)) => exit_code(verb.run(data, output).map(|()| ExitCode::SUCCESS)),
        Some(Noun::Doctor(doctor)) => doctor.run(data),
        Some(Noun::Tour(tour)) => tour.run(&mut TourOutput::stdout()),
        Some(Noun::Repl) => exit_code(context().map(repl::run)),
        Some(Noun::User(verb)) => run_and_close(context(), |context| verb.run(context)),
        Some(Noun::Completions { shell }) => completions(shell),
        Some(Noun::Version) => version(),
        Some(Noun::Restore(restore)) => run_and_close(context(), |context| restore.run(context)),
        Some(Noun::Data(noun)) => run_and_close(context(), |context| execute(noun, context)),
    }
}

/// Runs the server until it is stopped.
fn serve(config: &Config) -> ExitCode {
    match serve::run(config, print_now) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(error.message());
            ExitCode::from(failure::ERROR)
        }
    }
}

/// Executes a noun on data, from the command line or from the repl.
fn execute(noun: DataNoun, context: &mut Context) -> Result<()> {
    match noun {
        DataNoun::Cell(verb) => verb.run(context),
        DataNoun::Record(verb) => verb.run(context),
        DataNoun::Job(verb) => verb.run(context),
        DataNoun::Lock(verb) => verb.run(context),
        DataNoun::Run(verb) => verb.run(context),
        DataNoun::Outbox(verb) => verb.run(context),
        DataNoun::State(verb) => verb.run(context),
        DataNoun::Session(verb) => verb.run(context),
        DataNoun::Checkpoint(verb) => verb.run(context),
        DataNoun::Branch(verb) => verb.run(context),
        DataNoun::Tag(verb) => verb.run(context),
        DataNoun::Feed(feed) => feed.run(context),
        DataNoun::Txn(txn) => txn.run(context),
        DataNoun::Export(export) => export.run(context),
        DataNoun::Import(import) => import.run(context),
        DataNoun::Backup(backup) => backup.run(context),
        DataNoun::Bench(bench) => bench.run(context),
    }
}

/// Runs one invocation and closes its store.
fn run_and_close(
    context: Result<Context>,
    work: impl FnOnce(&mut Context) -> Result<()>,
) -> ExitCode {
    let worked = context.and_then(|mut context| {
        work(&mut context)?;
        context.close()
    });
    exit_code(worked.map(|()| ExitCode::SUCCESS))
}

/// Prints a failure to the standard error and returns the exit code.
fn exit_code(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        print_error(&failure.to_string());
        failure.exit()
    })
}

/// Prints clap's message: requested help or version, or an error in the arguments.
fn print_usage_error(error: &clap::Error) -> ExitCode {
    // The output may be closed; then nothing can be reported.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::ERROR))
}

fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "mainstay", &mut text);
    print_line(String::from_utf8_lossy(&text).trim_end());
    ExitCode::SUCCESS
}

fn version() -> ExitCode {
    print_line(concat!("mainstay ", env!("CARGO_PKG_VERSION")));
    ExitCode::SUCCESS
}
