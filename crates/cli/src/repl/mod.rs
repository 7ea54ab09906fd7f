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
use super::console::print_error;
use super::context::Context;
use super::failure::{Failure, Result};
use super::reply_format::ReplyFormat;
use super::store::OpenTransaction;
use super::{execute, reply_formats};
use clap::Parser;
use lines::LineSource;
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
enum NextStep {
    Continue,
    Exit,
}

/// Reads and executes lines until they end. The exit code is the highest of all lines.
pub fn run(mut context: Context) -> ExitCode {
    context.interactive = true;
    context.printer.end_lines();
    let mut worst = 0;
    match run_lines(&mut context, &mut worst).and_then(|()| context.close()) {
        Ok(()) => ExitCode::from(worst),
        Err(failure) => {
            print_error(&failure.to_string());
            failure.exit()
        }
    }
}

fn run_lines(context: &mut Context, worst: &mut u8) -> Result<()> {
    let mut lines = LineSource::open()?;
    context.store_to_write()?;
    if lines.is_terminal() {
        context.printer.note("`help` lists what there is, Ctrl-D leaves.");
    }
    while let Some(line) = lines.next(&context.prompt())? {
        match run_line(context, &line) {
            Ok(NextStep::Continue) => {}
            Ok(NextStep::Exit) => break,
            // The rest of a script must not run outside of the transaction that it began.
            Err(failure) if context.is_broken() && !lines.is_terminal() => return Err(failure),
            Err(failure) => {
                print_error(&failure.to_string());
                // On a terminal the user has already seen the error.
                if !lines.is_terminal() {
                    *worst = failure.code().max(*worst);
                }
            }
        }
        if context.printer.is_closed() {
            break;
        }
    }
    Ok(())
}

fn run_line(context: &mut Context, line: &str) -> Result<NextStep> {
    if lines::is_comment(line) {
        return Ok(NextStep::Continue);
    }
    let words = split(line).map_err(|wrong| Failure::error(wrong.to_string()))?;
    let Some(first) = words.first() else { return Ok(NextStep::Continue) };
    let first = String::from_utf8_lossy(first).to_lowercase();
    match first.as_str() {
        "exit" | "quit" => return Ok(NextStep::Exit),
        "help" | "?" => help::show(&words[1..], &mut context.printer)?,
        noun if complete::is_noun(noun)
            && context.open_transaction() == Some(OpenTransaction::Multi) =>
        {
            return Err(noun_in_multi(noun));
        }
        noun if complete::is_noun(noun) => run_noun(context, words)?,
        _ => run_command(context, words)?,
    }
    Ok(NextStep::Continue)
}

/// Executes a noun and a verb, as on the command line.
fn run_noun(context: &mut Context, words: Vec<Vec<u8>>) -> Result<()> {
    let mut texts = Vec::new();
    for (index, word) in words.into_iter().enumerate() {
        let text = String::from_utf8(word).map_err(|_| {
            Failure::error("only UTF-8 here: bytes go in with CELL.SET name \"\\xff\"")
        })?;
        texts.push(if index == 0 { text.to_lowercase() } else { text });
    }
    match NounLine::try_parse_from(texts) {
        Ok(line) => execute(line.noun, context),
        Err(error) if error.exit_code() == 0 => {
            context.printer.text(&error.to_string());
            Ok(())
        }
        Err(error) => Err(Failure::error(error.to_string().trim_end().to_owned())),
    }
}

/// A verb needs the replies to its commands, and inside `MULTI` every reply is `QUEUED` until `EXEC`.
fn noun_in_multi(noun: &str) -> Failure {
    Failure::error(format!(
        "{noun} is not for inside MULTI, which keeps commands, as CELL.GET a, until EXEC: end it with \
         EXEC or DISCARD first; between TXN.BEGIN and TXN.COMMIT nouns work, too"
    ))
}

/// Executes a RESP command.
fn run_command(context: &mut Context, words: Vec<Vec<u8>>) -> Result<()> {
    let name = words.first().map(|word| String::from_utf8_lossy(word).to_lowercase());
    let name = name.unwrap_or_default();
    if name == "feed.watch" {
        let instead = "FEED.WATCH sends changes on their own, which is not shown here: `feed --follow` \
                       shows them as they happen";
        return Err(Failure::error(instead));
    }
    let format = match context.open_transaction() {
        // A queued command replies `QUEUED`.
        Some(OpenTransaction::Multi) => ReplyFormat::Any,
        _ => reply_formats::of_words(&words),
    };
    let reply = context.store()?.call(words)?;
    if !context.printer.reply(format, reply.clone(), false) {
        context.printer.unformatted(reply);
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
