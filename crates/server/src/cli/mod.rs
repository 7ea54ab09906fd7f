//! The command line: nouns and verbs on a store.
//!
//! ```text
//!   arguments --clap--> noun and verb --Call--> Store --> Reply --Shape--> rows --Printer--> output
//!                                        ^
//!   lines of the repl --split------------+
//! ```
//!
//! Every verb on data is one command of the RESP face (or a few), so it works alike on a directory
//! that this process opens and on a server.

mod args;
mod backup;
mod branch;
mod call;
mod cell;
mod client;
mod commands;
mod doctor;
mod embedded;
mod failure;
mod feed;
mod field;
mod output;
mod paper;
mod progress;
mod repl;
mod reply;
mod session;
mod shape;
mod split;
mod store;
mod tag;
mod time;
mod tour;
mod transfer;
mod txn;
mod web;

pub use args::ServeArgs;
pub use paper::complain;

use args::{Arguments, DataNoun, Noun};
use clap::{CommandFactory, Parser};
use failure::Result;
use paper::Paper;
use session::Session;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program with these arguments, the first of which is its own name.
///
/// `serve` is what the server is started with, also when no noun is given.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    serve: fn(ServeArgs) -> ExitCode,
) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return misread(&error),
    };
    let Arguments { place, output, noun } = arguments;
    match noun {
        None => serve(ServeArgs { data: place.data, ..ServeArgs::default() }),
        Some(Noun::Serve(given)) => serve(ServeArgs { data: place.data, ..given }),
        Some(Noun::Doctor(doctor)) => doctor.run(&mut Paper::stdout()),
        Some(Noun::Tour(tour)) => tour.run(&mut Paper::stdout()),
        Some(Noun::Repl) => repl::run(Session::new(place, output)),
        Some(Noun::Completions { shell }) => completions(shell),
        Some(Noun::Version) => version(),
        Some(Noun::Restore(restore)) => {
            ended(Session::new(place, output), |session| restore.run(session))
        }
        Some(Noun::Data(noun)) => {
            ended(Session::new(place, output), |session| execute(noun, session))
        }
    }
}

/// Executes a noun on data; the repl does, too.
fn execute(noun: DataNoun, session: &mut Session) -> Result<()> {
    match noun {
        DataNoun::Cell(verb) => verb.run(session),
        DataNoun::Branch(verb) => verb.run(session),
        DataNoun::Tag(verb) => verb.run(session),
        DataNoun::Feed(feed) => feed.run(session),
        DataNoun::Txn(txn) => txn.run(session),
        DataNoun::Export(export) => export.run(session),
        DataNoun::Import(import) => import.run(session),
        DataNoun::Backup(backup) => backup.run(session),
    }
}

/// Does the work of one invocation, and ends it in good order.
fn ended(mut session: Session, work: impl FnOnce(&mut Session) -> Result<()>) -> ExitCode {
    let done = work(&mut session);
    match done.and_then(|()| session.close()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure.to_string());
            failure.exit()
        }
    }
}

/// Help and versions are what was asked for; everything else could not be read.
fn misread(error: &clap::Error) -> ExitCode {
    // Nobody reads where writing fails.
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
