//! Styled output of the tour: headings, calls with their results, notes.

use super::console::colours_enabled;
use std::io::{self, IsTerminal, StdoutLock, Write};

/// The width of the first of two columns, which has the calls. Results are in the second.
const CALL_WIDTH: usize = 53;

const BOLD: &str = "1";
const DIM: &str = "2";
const GREEN: &str = "32";

/// The standard output, with colours if they are enabled.
pub struct TourOutput {
    out: StdoutLock<'static>,
    colours: bool,
}

impl TourOutput {
    pub fn stdout() -> TourOutput {
        let out = io::stdout().lock();
        let colours = out.is_terminal() && colours_enabled();
        TourOutput { out, colours }
    }

    pub fn line(&mut self, text: &str) {
        // A write error means that the reader has closed the pipe, as in `mainstay | head -1`.
        let _ = writeln!(self.out, "{text}");
    }

    pub fn heading(&mut self, text: &str) {
        let text = self.paint(BOLD, text);
        self.line(&format!("\n{text}"));
    }

    pub fn note(&mut self, text: &str) {
        let text = self.paint(DIM, text);
        self.line(&format!("  {text}"));
    }

    /// A call and its result.
    pub fn call(&mut self, call: &str, result: impl ToString) {
        let result = self.paint(GREEN, &result.to_string());
        self.line(&format!("  {call:CALL_WIDTH$} → {result}"));
    }

    /// A line of code that continues on the next line.
    pub fn code(&mut self, code: &str) {
        self.line(&format!("  {code}"));
    }

    /// A line of a longer result.
    pub fn result(&mut self, text: &str) {
        let text = self.paint(GREEN, text);
        self.line(&format!("    → {text}"));
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
