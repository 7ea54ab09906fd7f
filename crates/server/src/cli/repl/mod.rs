//! `mainstay repl`: executes commands that are typed or piped in.
//!
//! ```text
//!   terminal --rustyline--+
//!                         +--> line --split--> words --+--> noun and verb: as on the command line
//!   pipe --lines----------+                            +--> anything else: a command of the store
//! ```
//!
//! An open quote continues the line on the next one.

mod complete;
mod help;
mod history;
mod lines;

use super::args::DataNoun;
use super::failure::{Failure, Result};
use super::paper::complain;
use super::session::Session;
use super::shape::Shape;
use super::store::Begun;
use super::{execute, shapes};
use clap::Parser;
use lines::Lines;
use mainstay_server::resp::inline_command::split;
use std::process::ExitCode;

/// A line that begins with a noun.
#[derive(Debug, Parser)]
#[command(name = "", no_binary_name = true, disable_help_subcommand = true)]
struct NounLine {
    #[command(subcommand)]
    noun: DataNoun,
}

/// The action after a line.
enum Next {
    GoOn,
    Leave,
}

/// Reads and executes lines until they end. The exit code is the highest of all lines.
pub fn run(mut session: Session) -> ExitCode {
    session.interactive = true;
    session.printer.end_lines();
    let mut worst = 0;
    match all(&mut session, &mut worst).and_then(|()| session.close()) {
        Ok(()) => ExitCode::from(worst),
        Err(failure) => {
            complain(&failure.to_string());
            failure.exit()
        }
    }
}

fn all(session: &mut Session, worst: &mut u8) -> Result<()> {
    let mut lines = Lines::open()?;
    session.store_to_write()?;
    if lines.is_terminal() {
        session.printer.note("`help` lists what there is, Ctrl-D leaves.");
    }
    while let Some(line) = lines.next(&session.prompt())? {
        match one(session, &line) {
            Ok(Next::GoOn) => {}
            Ok(Next::Leave) => break,
            // The rest of a script must not run outside of the transaction that it began.
            Err(failure) if session.is_broken() && !lines.is_terminal() => return Err(failure),
            Err(failure) => {
                complain(&failure.to_string());
                // On a terminal the user has already seen the error.
                if !lines.is_terminal() {
                    *worst = failure.code().max(*worst);
                }
            }
        }
        if session.printer.is_closed() {
            break;
        }
    }
    Ok(())
}

fn one(session: &mut Session, line: &str) -> Result<Next> {
    if lines::is_comment(line) {
        return Ok(Next::GoOn);
    }
    let words = split(line).map_err(|wrong| Failure::error(wrong.to_string()))?;
    let Some(first) = words.first() else { return Ok(Next::GoOn) };
    let first = String::from_utf8_lossy(first).to_lowercase();
    match first.as_str() {
        "exit" | "quit" => return Ok(Next::Leave),
        "help" | "?" => help::show(&words[1..], &mut session.printer)?,
        noun if complete::is_noun(noun) && session.begun() == Some(Begun::Multi) => {
            return Err(queues_no_nouns(noun));
        }
        noun if complete::is_noun(noun) => noun_line(session, words)?,
        _ => command(session, words)?,
    }
    Ok(Next::GoOn)
}

/// Executes a noun and a verb, as on the command line.
fn noun_line(session: &mut Session, words: Vec<Vec<u8>>) -> Result<()> {
    let mut texts = Vec::new();
    for (index, word) in words.into_iter().enumerate() {
        let text = String::from_utf8(word).map_err(|_| {
            Failure::error("only UTF-8 here: bytes go in with CELL.SET name \"\\xff\"")
        })?;
        texts.push(if index == 0 { text.to_lowercase() } else { text });
    }
    match NounLine::try_parse_from(texts) {
        Ok(line) => execute(line.noun, session),
        Err(error) if error.exit_code() == 0 => {
            session.printer.text(&error.to_string());
            Ok(())
        }
        Err(error) => Err(Failure::error(error.to_string().trim_end().to_owned())),
    }
}

/// A verb needs the replies to its commands, and inside `MULTI` every reply is `QUEUED` until `EXEC`.
fn queues_no_nouns(noun: &str) -> Failure {
    Failure::error(format!(
        "{noun} is not for inside MULTI, which keeps commands, as CELL.GET a, until EXEC: end it with \
         EXEC or DISCARD first; between TXN.BEGIN and TXN.COMMIT nouns work, too"
    ))
}

/// Executes a RESP command.
fn command(session: &mut Session, words: Vec<Vec<u8>>) -> Result<()> {
    let name = words.first().map(|word| String::from_utf8_lossy(word).to_lowercase());
    let name = name.unwrap_or_default();
    if name == "feed.watch" {
        let instead = "FEED.WATCH sends changes on their own, which is not shown here: `feed --follow` \
                       shows them as they happen";
        return Err(Failure::error(instead));
    }
    let shape = match session.begun() {
        // A queued command replies `QUEUED`.
        Some(Begun::Multi) => Shape::Any,
        _ => shapes::shape_of(&words),
    };
    let reply = session.store()?.call(words)?;
    if !session.printer.reply(shape, reply.clone(), false) {
        session.printer.odd(reply);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_lines_contradict_nowhere() {
        NounLine::command().debug_assert();
    }
}
