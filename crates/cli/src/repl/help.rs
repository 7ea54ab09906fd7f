//! The `help` command of the repl: an overview, a noun with its verb, or a command.

use super::NounLine;
use crate::failure::{Failure, Result};
use crate::output::Printer;
use clap::CommandFactory;
use mainstay_server::resp::table;

const LINES: &str = "\
A line is a noun and a verb, as on the command line (cell set a 1), or a command (CELL.SET a 1).
\"…\" and '…' quote as in redis-cli, also over several lines; # begins a comment.
help WORD explains a noun or a command; Ctrl-C gives up a line; exit or Ctrl-D leaves.";

/// Prints the overview, the help of a noun with its verb, or the help of a command.
pub fn show(words: &[Vec<u8>], printer: &mut Printer) -> Result<()> {
    let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    let text = match words.as_slice() {
        [] => overview(),
        [noun, verb @ ..] => noun_help(noun, verb.first().map(AsRef::as_ref))
            .or_else(|| command_help(noun))
            .ok_or_else(|| Failure::negative(format!("there is no {noun}: `help` lists all")))?,
    };
    printer.text(&text);
    Ok(())
}

fn overview() -> String {
    let line = NounLine::command();
    let about =
        |noun: &clap::Command| noun.get_about().map(ToString::to_string).unwrap_or_default();
    let nouns = line.get_subcommands();
    let nouns: Vec<_> = nouns.map(|n| format!("  {:9}{}", n.get_name(), about(n))).collect();
    let names: Vec<_> = table::all().map(|command| command.name.to_uppercase()).collect();
    let names: Vec<_> = names.chunks(6).map(|names| format!("  {}", names.join("  "))).collect();
    format!("{LINES}\n\nNouns\n{}\n\nCommands\n{}", nouns.join("\n"), names.join("\n"))
}

fn noun_help(noun: &str, verb: Option<&str>) -> Option<String> {
    let mut line = NounLine::command();
    // After `build`, the usage line of a verb contains its noun.
    line.build();
    let noun = line.find_subcommand(noun.to_lowercase())?;
    let of = verb.map_or(Some(noun), |verb| noun.find_subcommand(verb.to_lowercase()))?;
    Some(of.clone().render_help().to_string())
}

fn command_help(name: &str) -> Option<String> {
    let command = table::by_name(name.as_bytes())?;
    let call = format!("{} {}", command.name.to_uppercase(), command.syntax);
    Some(format!("{}\n  {}", call.trim_end(), command.summary))
}
