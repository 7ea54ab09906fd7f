//! Messages of the program: lines on the standard output, and errors on the standard error.

use std::io::{self, Write};

/// Prints a line.
pub fn print_line(text: &str) {
    // A write error means that the reader has closed the pipe, as in `mainstay | head -1`.
    let _ = writeln!(io::stdout(), "{text}");
}

/// Prints a line and flushes it, because its reader waits for it.
pub fn print_now(text: &str) {
    print_line(text);
    let _ = io::stdout().flush();
}

/// Prints an error to the standard error.
pub fn print_error(message: &str) {
    let _ = writeln!(io::stderr(), "mainstay: {message}");
}

/// True unless `NO_COLOR` is set.
pub fn colours_enabled() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
