//! The audit log: one JSON line for each authentication and administrative command.
//!
//! A line holds the user, the command, its object and the outcome, but never values or passwords. If a line
//! cannot be written, the failure is counted and logged, and the command runs all the same.

use mainstay::{Clock, Code, Error, Result, SystemClock};
use parking_lot::Mutex;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Longer names are truncated to this many bytes.
const ABOUT_LIMIT_BYTES: usize = 1024;

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It failed, or its object did not exist.
    Failed,
    /// The user lacks a permission.
    Denied,
    /// The name or the password was wrong.
    Wrong,
    /// Too many logins were waiting for verification.
    Busy,
}

/// An event to record.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The user. `None` if no user has the name, because the client may have sent a password in its place.
    pub user: Option<String>,
    /// The address of the client.
    pub peer: String,
    /// The name of the command.
    pub command: &'static str,
    /// The objects of the command: names of branches and tags.
    pub about: Vec<String>,
}

impl Entry {
    /// Creates an entry. Long names are truncated.
    pub fn new(
        user: Option<&str>,
        peer: &str,
        command: &'static str,
        about: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Entry {
        let about = about.into_iter().map(|name| shown(name.as_ref())).collect();
        Entry { user: user.map(str::to_owned), peer: peer.to_owned(), command, about }
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(ABOUT_LIMIT_BYTES)]).into_owned()
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    user: Option<&'a str>,
    peer: &'a str,
    command: &'a str,
    about: &'a [String],
    outcome: Outcome,
}

/// The audit file, and the number of lines that could not be written.
pub struct Audit {
    file: Option<Writing>,
    clock: SystemClock,
    failures: AtomicU64,
}

struct Writing {
    path: PathBuf,
    file: Mutex<Open>,
}

struct Open {
    file: File,
    /// True if the last line failed, which was logged.
    failing: bool,
}

impl Audit {
    /// Creates a log that records nothing.
    pub fn none() -> Audit {
        Audit { file: None, clock: SystemClock::new(), failures: AtomicU64::new(0) }
    }

    /// Opens a file for appending, if a path is given.
    pub fn open(path: Option<&Path>) -> Result<Audit> {
        let Some(path) = path else { return Ok(Audit::none()) };
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.map_err(|error| {
            let path = path.display();
            let message =
                format!("the audit file {path} cannot be written: {error}; name another one");
            Error::new(Code::Io, message)
        })?;
        let file = Mutex::new(Open { file, failing: false });
        Ok(Audit { file: Some(Writing { path: path.to_owned(), file }), ..Audit::none() })
    }

    /// Returns whether events are recorded.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the number of lines that could not be written.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Records one event.
    pub fn record(&self, entry: &Entry, outcome: Outcome) {
        self.record_all([(entry, outcome)]);
    }

    /// Records all events of a transaction with one write. A hundred thousand single writes would delay the
    /// reply to the client.
    pub fn record_all<'e>(&self, entries: impl IntoIterator<Item = (&'e Entry, Outcome)>) {
        let Some(writing) = &self.file else { return };
        let mut lines = String::new();
        let mut count = 0;
        for (entry, outcome) in entries {
            lines += &self.line(entry, outcome);
            count += 1;
        }
        if count == 0 {
            return;
        }
        let mut open = writing.file.lock();
        // One call for whole lines, so that lines of other processes that append to the file do not get in
        // between.
        let written = open.file.write_all(lines.as_bytes());
        if written.is_err() {
            self.failures.fetch_add(count, Ordering::Relaxed);
        }
        if let Err(error) = &written
            && !open.failing
        {
            let path = writing.path.display();
            tracing::error!("the audit file {path} cannot be written: {error}");
        }
        open.failing = written.is_err();
    }

    fn line(&self, entry: &Entry, outcome: Outcome) -> String {
        let Entry { user, peer, command, about } = entry;
        let time = time(self.clock.wall_us());
        let line = Line { time, user: user.as_deref(), peer, command, about, outcome };
        // Serialization of this struct cannot fail.
        serde_json::to_string(&line).unwrap_or_default() + "\n"
    }
}

fn time(now_us: u64) -> String {
    let now_us = i64::try_from(now_us).unwrap_or(i64::MAX);
    jiff::Timestamp::from_microsecond(now_us).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_what_and_how_it_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        std::fs::write(&path, "before\n").unwrap();
        let audit = Audit::open(Some(&path)).unwrap();
        let entry = Entry::new(Some("ops"), "127.0.0.1:1", "branch.delete", ["a\"\n"]);
        audit.record(&entry, Outcome::Done);
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, line) = text.split_once('\n').unwrap();
        assert_eq!((before, line.matches('\n').count()), ("before", 1), "it is put behind: {text}");
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let time: jiff::Timestamp = line["time"].as_str().unwrap().parse().unwrap();
        assert!(time.as_second() > 0);
        assert_eq!((&line["user"], &line["peer"]), (&"ops".into(), &"127.0.0.1:1".into()));
        assert_eq!((&line["command"], &line["outcome"]), (&"branch.delete".into(), &"done".into()));
        assert_eq!(line["about"], serde_json::json!(["a\"\n"]));
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return;
        }
        let audit = Audit::open(Some(full)).unwrap();
        let entry = Entry::new(None, "x", "auth", [""; 0]);
        audit.record(&entry, Outcome::Wrong);
        audit.record(&entry, Outcome::Wrong);
        assert_eq!(audit.failures(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_an_error() {
        let error = Audit::open(Some(Path::new("/no/such/place/audit"))).err().unwrap();
        assert!(error.message().contains("/no/such/place/audit"));
    }
}
