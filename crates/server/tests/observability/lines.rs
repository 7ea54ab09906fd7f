//! The log of this process, kept in memory.

use std::io::{self, Write};
use std::sync::{Mutex, OnceLock};
use tracing_subscriber::fmt::MakeWriter;

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Kept;

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Kept {
    type Writer = Kept;

    fn make_writer(&'a self) -> Kept {
        Kept
    }
}

/// Starts to keep log lines.
pub fn keep() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Kept).finish();
        tracing::subscriber::set_global_default(lines).unwrap();
    });
}

/// Returns all log lines.
pub fn all() -> String {
    String::from_utf8(LINES.lock().unwrap().clone()).unwrap()
}
