//! Where lines come from: an editor on a terminal, the standard input elsewhere.

use super::complete::Words;
use super::history;
use crate::cli::failure::{Failure, Result};
use mainstay_server::resp::line::{Unsplit, split};
use mainstay_server::resp::table;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use std::io::{BufRead, IsTerminal, stdin};
use std::path::PathBuf;

/// How many lines are remembered.
const HISTORY_LIMIT: usize = 1000;

/// Lines to come.
pub enum Lines {
    /// Typed, with history and completion.
    Terminal(Box<Typed>),
    /// Read as they are.
    Pipe,
}

/// An editor, and where it keeps its history.
pub struct Typed {
    editor: Editor<Words, FileHistory>,
    history: Option<PathBuf>,
}

impl Lines {
    /// An editor when somebody sits at a terminal.
    pub fn open() -> Result<Lines> {
        match stdin().is_terminal() {
            true => Typed::open().map(|typed| Lines::Terminal(Box::new(typed))),
            false => Ok(Lines::Pipe),
        }
    }

    /// Whether somebody sits at a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Lines::Terminal(_))
    }

    /// The next line, with those that an open quote joins to it; nothing at the end.
    pub fn next(&mut self, prompt: &str) -> Result<Option<String>> {
        match self {
            Lines::Terminal(typed) => typed.next(prompt),
            Lines::Pipe => piped(),
        }
    }
}

fn piped() -> Result<Option<String>> {
    let (mut line, mut input) = (String::new(), stdin().lock());
    loop {
        let read = input.read_line(&mut line);
        let read = read.map_err(|e| Failure::error(format!("the standard input: {e}")))?;
        match (read, split(&line)) {
            (0, _) if line.is_empty() => return Ok(None),
            (1.., Err(Unsplit::Open)) if !is_comment(&line) => {}
            _ => return Ok(Some(line)),
        }
    }
}

/// An apostrophe in a comment opens no quote.
pub fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// A password that was typed is nothing to remember.
fn has_password(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    table::named(first.as_bytes()).is_some_and(table::Spec::carries_secrets)
}

impl Typed {
    fn open() -> Result<Typed> {
        let wrong = |error: ReadlineError| Failure::error(format!("the terminal: {error}"));
        let config = Config::builder().completion_type(CompletionType::List);
        let config = config.max_history_size(HISTORY_LIMIT).map_err(wrong)?.build();
        let mut editor = Editor::with_config(config).map_err(wrong)?;
        editor.set_helper(Some(Words));
        let history = history::file();
        if let Some(path) = &history {
            // The first time there is none, and without one everything else works.
            let _ = editor.load_history(path);
        }
        Ok(Typed { editor, history })
    }

    fn next(&mut self, prompt: &str) -> Result<Option<String>> {
        loop {
            match self.editor.readline(prompt) {
                Ok(line) => {
                    self.remember(&line);
                    return Ok(Some(line));
                }
                // Ctrl-C gives up the line, Ctrl-D the session.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(Failure::error(format!("the terminal: {error}"))),
            }
        }
    }

    /// Keeps a line for the next session, where that is possible.
    fn remember(&mut self, line: &str) {
        let kept = !line.trim().is_empty() && !has_password(line);
        let added = kept && self.editor.add_history_entry(line).unwrap_or(false);
        if let Some(path) = self.history.as_ref().filter(|_| added) {
            let _ = self.editor.append_history(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_passwords_are_not_remembered() {
        for line in ["AUTH secret", "  auth app secret", "Hello 3 AUTH app secret"] {
            assert!(has_password(line), "{line}");
        }
        assert!(!has_password("SET auth 1") && !has_password(""));
    }
}
