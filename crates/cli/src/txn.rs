//! `mainstay txn`: executes the commands of a file as one transaction.
//!
//! ```text
//!   CELL.SET a 1      TXN.BEGIN
//!   CELL.INCR b   --> CELL.SET a 1, CELL.INCR b  --> TXN.COMMIT
//!                     the first that fails       --> TXN.ROLLBACK, nothing is written
//! ```

use super::args::OnBranch;
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::Field;
use super::output::RawFields;
use super::reply_format;
use super::store::Store;
use clap::Args;
use mainstay_server::resp::inline_command::{SplitError, quote, split};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Commands that would end or leave the transaction.
const FORBIDDEN: [&str; 10] = [
    "TXN.BEGIN",
    "TXN.COMMIT",
    "TXN.ROLLBACK",
    "MULTI",
    "EXEC",
    "DISCARD",
    "BRANCH.USE",
    "HELLO",
    "RESET",
    "QUIT",
];

/// Running commands as one transaction.
#[derive(Debug, Args)]
pub struct Txn {
    /// A file with a command a line, as CELL.SET a 1; # begins a comment [default: -, the standard input]
    file: Option<PathBuf>,
    #[command(flatten)]
    on: OnBranch,
}

/// A command and the number of its first line.
struct Line {
    number: usize,
    words: Vec<Vec<u8>>,
}

/// A command and its answer.
type CommandAnswer = (String, mainstay::Value);

impl Txn {
    /// Reads all commands, executes them, and prints the answers and the revision.
    pub fn run(self, context: &mut Context) -> Result<()> {
        let file = self.file.as_deref().filter(|file| *file != Path::new("-"));
        if context.interactive && file.is_none() {
            let how = "here a transaction is TXN.BEGIN, commands, TXN.COMMIT; or name a file";
            return Err(Failure::error(how));
        }
        // Reads all input first, because an open transaction must not wait for a user who types.
        let lines = parse_lines(&read_text(file)?)?;
        let store = context.store_to_write()?;
        let (answers, revision) =
            store.on(self.on.branch.as_deref(), |store| run_all(store, lines))?;
        for (command, answer) in answers {
            let command = ("command".into(), Field::text(command));
            context.printer.row(vec![command, ("answer".into(), Field::Plain(answer))]);
        }
        context.printer.flush();
        context.printer.end_lines();
        context
            .printer
            .one(vec![("revision".into(), Field::number(revision))], RawFields::Field("revision"));
        Ok(())
    }
}

fn read_text(file: Option<&Path>) -> Result<String> {
    let mut text = String::new();
    let read = match file {
        Some(path) => std::fs::read_to_string(path).map(|read| text = read),
        None => std::io::stdin().lock().read_to_string(&mut text).map(|_| ()),
    };
    let name = file.map_or("the standard input".into(), |path| path.display().to_string());
    read.map_err(|error| Failure::error(format!("{name} could not be read: {error}")))?;
    Ok(text)
}

/// Parses the commands. An open quote at the end of a line continues on the next.
fn parse_lines(text: &str) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let mut open = String::new();
    let mut began = 1;
    for (index, line) in text.lines().enumerate() {
        if open.is_empty() {
            began = index + 1;
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
        }
        open.push_str(line);
        match split(&open) {
            Ok(words) => {
                lines.push(check_allowed(Line { number: began, words })?);
                open.clear();
            }
            Err(SplitError::UnclosedQuote) => open.push('\n'),
            Err(wrong) => return Err(Failure::error(format!("line {began}: {wrong}"))),
        }
    }
    if open.is_empty() {
        Ok(lines)
    } else {
        Err(Failure::error(format!("line {began}: {}", SplitError::UnclosedQuote)))
    }
}

fn check_allowed(line: Line) -> Result<Line> {
    let command = line.words.first().map(|word| String::from_utf8_lossy(word).to_uppercase());
    let command = command.unwrap_or_default();
    if FORBIDDEN.contains(&command.as_str()) {
        Err(Failure::error(format!(
            "line {}: {command} has no place here: the lines are one transaction already; nothing \
             was done",
            line.number
        )))
    } else {
        Ok(line)
    }
}

fn run_all(store: &mut Store, lines: Vec<Line>) -> Result<(Vec<CommandAnswer>, u64)> {
    store.call(CommandBuilder::new("TXN.BEGIN").words())?;
    let answers = lines.into_iter().map(|line| run_one(store, line)).collect::<Result<_>>();
    let answers = answers.inspect_err(|_| {
        // If the connection broke, the server rolls back by itself.
        let _ = store.call(CommandBuilder::new("TXN.ROLLBACK").words());
    })?;
    let committed = store.call(CommandBuilder::new("TXN.COMMIT").words())?;
    Ok((
        answers,
        committed
            .as_u64()
            .ok_or_else(|| Failure::error(format!("TXN.COMMIT answered {committed:?}")))?,
    ))
}

fn run_one(store: &mut Store, line: Line) -> Result<CommandAnswer> {
    let shown = line.words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    let reply = store.call(line.words).map_err(|failure| {
        let what = format!("line {}: {failure}: nothing was written", line.number);
        Failure::error(what)
    })?;
    Ok((shown, reply_format::to_value(reply)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_no_commands_and_quotes_go_over_lines() {
        let text = "# first\n\nCELL.SET a \"x\ny\"\n  # second\nCELL.GET a\n";
        let lines = parse_lines(text).unwrap();
        let numbers: Vec<usize> = lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [3, 6]);
        assert_eq!(lines[0].words[2], b"x\ny");
    }

    #[test]
    fn what_would_end_the_transaction_is_refused_by_its_line() {
        for text in ["CELL.GET a\ntxn.commit", "\nMULTI", "CELL.SET a 'x", "CELL.SET 'a'b"] {
            let failure = parse_lines(text).err().unwrap().to_string();
            assert!(failure.starts_with("line "), "{failure}");
        }
    }
}
