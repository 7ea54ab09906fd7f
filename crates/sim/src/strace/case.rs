//! One failure.

use super::call::{Call, Errno};
use super::child::Orders;
use std::fmt;

/// Which call fails, and how.
///
/// strace counts the calls of each thread for itself, so the n-th call of every thread that makes so many fails. That is a worse disk
/// than one that fails once: where several threads write, each meets its own failure, at another moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Of a process that makes its database; else it finds one with a past.
    pub new: bool,
    /// A call of this kind.
    pub call: Call,
    /// It fails so.
    pub error: Errno,
    /// The n-th one of each thread, from 1.
    pub n: u64,
    /// And all that follow in that thread.
    pub lasting: bool,
}

impl Case {
    /// What strace is told.
    pub fn expression(&self) -> String {
        let Case { call, error, n, lasting, .. } = self;
        let more = if *lasting { "+" } else { "" };
        format!("inject={call}:error={error}:when={n}{more}")
    }

    /// What is expected of a process that meets it.
    pub fn orders(&self, seed: u64, generation: u64) -> Orders {
        // Names and files cannot be made, but there is room again later; an opening that says so may have been one for reading.
        let full = self.error.is_full() && !self.call.syncs() && self.call != Call::Openat;
        Orders {
            seed,
            generation,
            faulty: !self.error.is_harmless(),
            blind: self.call == Call::Openat,
            resumes: full && !self.lasting,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { new, call, error, n, lasting } = self;
        let lasting = if *lasting { "from then on" } else { "once" };
        let whose = if *new { "of a new database " } else { "" };
        write!(f, "{call} {n} of each thread {whose}fails, {lasting}, with {error}")
    }
}
