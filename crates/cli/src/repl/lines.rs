//! The line source of the repl: an editor on a terminal, else the standard input.

use super::complete::LineHelper;
use super::history;
use crate::failure::{Failure, Result};
use mainstay_server::resp::inline_command::{SplitError, split};
use mainstay_server::resp::table;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use std::io::{BufRead, IsTerminal, stdin};
use std::path::PathBuf;

/// The number of lines in the history.
const HISTORY_LIMIT: usize = 1000;

/// A source of lines.
pub enum LineSource {
    /// A line editor with history and completion.
    Terminal(Box<LineEditor>),
    /// Plain lines from the standard input.
    Pipe,
}

/// The editor and its history file.
pub struct LineEditor {
    editor: Editor<LineHelper, FileHistory>,
    history: Option<PathBuf>,
}

impl LineSource {
    /// Opens the editor if the standard input is a terminal.
    pub fn open() -> Result<LineSource> {
        if stdin().is_terminal() {
            LineEditor::open().map(|editor| LineSource::Terminal(Box::new(editor)))
        } else {
            Ok(LineSource::Pipe)
        }
    }

    /// True if the standard input is a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, LineSource::Terminal(_))
    }

    /// The next line, joined with the following ones while a quote is open; `None` at the end.
    pub fn next(&mut self, prompt: &str) -> Result<Option<String>> {
        match self {
            LineSource::Terminal(editor) => editor.next(prompt),
            LineSource::Pipe => next_from_pipe(),
        }
    }
}

fn next_from_pipe() -> Result<Option<String>> {
    let mut line = String::new();
    let mut input = stdin().lock();
    loop {
        let read = input.read_line(&mut line);
        let read = read.map_err(|e| Failure::error(format!("the standard input: {e}")))?;
        match (read, split(&line)) {
            (0, _) if line.is_empty() => return Ok(None),
            (1.., Err(SplitError::UnclosedQuote)) if !is_comment(&line) => {}
            _ => return Ok(Some(line)),
        }
    }
}

/// An apostrophe in a comment does not open a quote.
pub fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Lines with passwords must not enter the history.
fn has_password(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    table::by_name(first.as_bytes()).is_some_and(table::Spec::carries_secrets)
}

impl LineEditor {
    fn open() -> Result<LineEditor> {
        let wrong = |error: ReadlineError| Failure::error(format!("the terminal: {error}"));
        let config = Config::builder().completion_type(CompletionType::List);
        let config = config.max_history_size(HISTORY_LIMIT).map_err(wrong)?.build();
        let mut editor = Editor::with_config(config).map_err(wrong)?;
        editor.set_helper(Some(LineHelper));
        let history = history::file();
        if let Some(path) = &history {
            // The file does not exist the first time. The repl also works without a history.
            let _ = editor.load_history(path);
        }
        Ok(LineEditor { editor, history })
    }

    fn next(&mut self, prompt: &str) -> Result<Option<String>> {
        loop {
            match self.editor.readline(prompt) {
                Ok(line) => {
                    self.add_to_history(&line);
                    return Ok(Some(line));
                }
                // Ctrl-C discards the line, Ctrl-D ends the session.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(Failure::error(format!("the terminal: {error}"))),
            }
        }
    }

    /// Adds a line to the history and to its file, if possible.
    fn add_to_history(&mut self, line: &str) {
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
