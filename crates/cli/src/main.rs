//! The program `mainstay`: its command line of nouns and verbs on a store, and the server that it starts.
//!
//! ```text
//!   arguments --clap--> noun and verb --Call--> Store --> Reply --Shape--> rows --Printer--> output
//!                                        ^
//!   lines of the repl --split------------+
//! ```
//!
//! Every verb on data is one or a few RESP commands. So it works alike on a directory that this process opens
//! and on a server.

mod archive;
mod args;
mod backup;
mod bench;
mod branch;
mod call;
mod cell;
mod checkpoint;
mod client;
mod config;
mod doctor;
mod embedded;
mod failure;
mod feed;
mod field;
mod index;
mod interrupt;
mod job;
mod lock;
mod outbox;
mod output;
mod pages;
mod paper;
mod password;
mod progress;
mod record;
mod repl;
mod reply;
mod run;
mod secure_web;
mod session;
mod sessions;
mod shape;
mod shapes;
mod state;
mod store;
mod tag;
mod time;
mod timeline;
mod tour;
mod transfer;
mod txn;
mod user;
mod web;
mod wire;

use args::{Arguments, DataNoun, Noun, ServeArgs};
use clap::{CommandFactory, Parser};
use failure::Result;
use mainstay_server::config::Config;
use mainstay_server::serve;
use output::Format;
use paper::{Paper, complain, welcome};
use session::Session;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs one invocation. Without a noun it serves.
fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => return misread(&error),
    };
    let Arguments { place, output, noun } = arguments;
    let data = place.data.clone();
    let configured = |given| done(config::load(given).map(|loaded| serve(&loaded.config)));
    let session = || Ok(Session::new(place, output.map(Format::try_from).transpose()?));
    match noun {
        None => configured(ServeArgs { data, ..ServeArgs::default() }),
        Some(Noun::Serve(given)) => configured(ServeArgs { data, ..given }),
        Some(Noun::Config(verb)) => done(verb.run(data, output).map(|()| ExitCode::SUCCESS)),
        Some(Noun::Doctor(doctor)) => doctor.run(data, &mut Paper::stdout()),
        Some(Noun::Tour(tour)) => tour.run(&mut Paper::stdout()),
        Some(Noun::Repl) => done(session().map(repl::run)),
        Some(Noun::User(verb)) => ended(session(), |session| verb.run(session)),
        Some(Noun::Completions { shell }) => completions(shell),
        Some(Noun::Version) => version(),
        Some(Noun::Restore(restore)) => ended(session(), |session| restore.run(session)),
        Some(Noun::Data(noun)) => ended(session(), |session| execute(noun, session)),
    }
}

/// Runs the server until it is stopped.
fn serve(config: &Config) -> ExitCode {
    match serve::run(config, welcome) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(error.message());
            ExitCode::from(failure::ERROR)
        }
    }
}

/// Executes a noun on data, from the command line or from the repl.
fn execute(noun: DataNoun, session: &mut Session) -> Result<()> {
    match noun {
        DataNoun::Cell(verb) => verb.run(session),
        DataNoun::Record(verb) => verb.run(session),
        DataNoun::Job(verb) => verb.run(session),
        DataNoun::Lock(verb) => verb.run(session),
        DataNoun::Run(verb) => verb.run(session),
        DataNoun::Outbox(verb) => verb.run(session),
        DataNoun::State(verb) => verb.run(session),
        DataNoun::Session(verb) => verb.run(session),
        DataNoun::Checkpoint(verb) => verb.run(session),
        DataNoun::Branch(verb) => verb.run(session),
        DataNoun::Tag(verb) => verb.run(session),
        DataNoun::Feed(feed) => feed.run(session),
        DataNoun::Txn(txn) => txn.run(session),
        DataNoun::Export(export) => export.run(session),
        DataNoun::Import(import) => import.run(session),
        DataNoun::Backup(backup) => backup.run(session),
        DataNoun::Bench(bench) => bench.run(session),
    }
}

/// Runs one invocation and closes its session.
fn ended(session: Result<Session>, work: impl FnOnce(&mut Session) -> Result<()>) -> ExitCode {
    let worked = session.and_then(|mut session| {
        work(&mut session)?;
        session.close()
    });
    done(worked.map(|()| ExitCode::SUCCESS))
}

/// Prints a failure to the standard error and returns the exit code.
fn done(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        complain(&failure.to_string());
        failure.exit()
    })
}

/// Prints clap's message: requested help or version, or an error in the arguments.
fn misread(error: &clap::Error) -> ExitCode {
    // The output may be closed; then nothing can be reported.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::ERROR))
}

fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "mainstay", &mut text);
    Paper::stdout().line(String::from_utf8_lossy(&text).trim_end());
    ExitCode::SUCCESS
}

fn version() -> ExitCode {
    Paper::stdout().line(concat!("mainstay ", env!("CARGO_PKG_VERSION")));
    ExitCode::SUCCESS
}
