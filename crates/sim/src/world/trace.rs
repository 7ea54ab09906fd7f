//! The trace: one line per event, and the hash of all lines.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many of the last lines are kept for reports.
const TAIL: usize = 80;

/// The hash of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest([u8; 16]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The trace of a world; clones share it.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<Inside>>);

struct Inside {
    hasher: blake3::Hasher,
    tail: VecDeque<String>,
    print: bool,
}

impl Trace {
    /// Creates an empty trace.
    pub fn new(print: bool) -> Trace {
        let hasher = blake3::Hasher::new();
        let tail = VecDeque::new();
        Trace(Arc::new(Mutex::new(Inside { hasher, tail, print })))
    }

    /// Adds a line.
    pub fn line(&self, now_us: u64, who: &str, what: fmt::Arguments<'_>) {
        let line = format!("{:>11.3} {who:<9} {what}", now_us as f64 / 1000.0);
        let mut inside = self.inside();
        inside.hasher.update(line.as_bytes());
        inside.hasher.update(b"\n");
        if inside.print {
            println!("{line}");
        }
        if inside.tail.len() == TAIL {
            inside.tail.pop_front();
        }
        inside.tail.push_back(line);
    }

    /// Returns the hash of all lines.
    pub fn digest(&self) -> Digest {
        let mut digest = [0; 16];
        digest.copy_from_slice(&self.inside().hasher.finalize().as_bytes()[..16]);
        Digest(digest)
    }

    /// Returns the last lines.
    pub fn tail(&self) -> Vec<String> {
        self.inside().tail.iter().cloned().collect()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a short hash of some bytes.
pub fn short(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..8].to_owned()
}
