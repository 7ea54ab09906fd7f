//! Tab completion in the repl: nouns, verbs, flags and commands.

use super::NounLine;
use super::lines::is_comment;
use clap::CommandFactory;
use mainstay_server::resp::inline_command::{SplitError, split};
use mainstay_server::resp::table;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

/// The completer and validator of the line editor.
pub struct LineHelper;

/// True if a line with this first word is a noun with a verb.
pub fn is_noun(word: &str) -> bool {
    NounLine::command().get_subcommands().any(|noun| noun.get_name() == word)
}

/// The words that can complete the end of this line.
fn candidates(line: &str) -> Vec<String> {
    let (before, begun) = line.rsplit_once(' ').unwrap_or(("", line));
    let before: Vec<&str> = before.split_whitespace().collect();
    let known = match before.as_slice() {
        [] => [nouns(), commands(), words(&["help", "exit"])].concat(),
        ["help"] => [nouns(), commands()].concat(),
        ["help", noun] | [noun] => verbs(noun),
        [noun, verb, ..] => flags(noun, verb),
    };
    let upper = begun.to_uppercase();
    known.into_iter().filter(|word| word.starts_with(begun) || word.starts_with(&upper)).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn nouns() -> Vec<String> {
    let line = NounLine::command();
    line.get_subcommands().map(|noun| noun.get_name().to_owned()).collect()
}

fn commands() -> Vec<String> {
    table::all().map(|command| command.name.to_uppercase()).collect()
}

fn verbs(noun: &str) -> Vec<String> {
    let line = NounLine::command();
    let Some(noun) = line.find_subcommand(noun) else { return Vec::new() };
    let verbs = noun.get_subcommands().map(|verb| verb.get_name().to_owned());
    verbs.chain(long_flags(noun)).collect()
}

fn flags(noun: &str, verb: &str) -> Vec<String> {
    let line = NounLine::command();
    let Some(noun) = line.find_subcommand(noun) else { return Vec::new() };
    long_flags(noun.find_subcommand(verb).unwrap_or(noun))
}

fn long_flags(command: &clap::Command) -> Vec<String> {
    command
        .get_arguments()
        .filter_map(|option| option.get_long())
        .map(|l| format!("--{l}"))
        .collect()
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let line = line.get(..position).unwrap_or(line);
        let start = line.rfind(' ').map_or(0, |space| space + 1);
        Ok((start, candidates(line)))
    }
}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let line = context.input();
        Ok(match split(line) {
            Err(SplitError::UnclosedQuote) if !is_comment(line) => ValidationResult::Incomplete,
            _ => ValidationResult::Valid(None),
        })
    }
}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Highlighter for LineHelper {}

impl Helper for LineHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_verbs_flags_and_commands_are_completed() {
        let both = candidates("cel");
        assert!(both.contains(&"cell".to_owned()) && both.contains(&"CELL.CAS".to_owned()));
        assert_eq!(candidates("cell get"), ["get", "getv"]);
        assert_eq!(candidates("cell set a 1 --t"), ["--ttl"]);
        assert_eq!(candidates("feed --fo"), ["--follow"]);
        assert_eq!(candidates("help CELL.C"), ["CELL.CAS"]);
        assert_eq!(candidates("branch.m"), ["BRANCH.MERGE"]);
        assert_eq!(candidates("nothing x"), [""; 0]);
    }
}
