//! One injected failure.

use super::call::{Call, Errno};
use super::child::Orders;
use std::fmt;

/// The call that fails, and the way in which it fails.
///
/// strace counts the calls of each thread separately, so the n-th call of every thread that makes as
/// many fails. This is a worse disk than one that fails once: if several threads write, each has its
/// own failure at another moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Whether the process creates its database; otherwise the database has a history.
    pub new: bool,
    /// The kind of the call.
    pub call: Call,
    /// The error.
    pub error: Errno,
    /// The index of the failing call in each thread, from 1.
    pub n: u64,
    /// Whether all later calls of that thread fail, too.
    pub lasting: bool,
}

impl Case {
    /// Returns the argument for strace.
    pub fn expression(&self) -> String {
        let Case { call, error, n, lasting, .. } = self;
        let more = if *lasting { "+" } else { "" };
        format!("inject={call}:error={error}:when={n}{more}")
    }

    /// Returns the expectations of a process with this failure.
    pub fn orders(&self, seed: u64, generation: u64) -> Orders {
        // With a full disk, names and files cannot be created, but writes resume later. A failed
        // `openat` may have been one for reading.
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
