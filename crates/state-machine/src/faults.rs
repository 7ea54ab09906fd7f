//! Fault injection: planted bugs that the tests must detect. Without the feature `planted-faults`, `planted`
//! is always false and the compiler removes the faulty code.

/// A planted bug. Each changes one behaviour at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The reply of an aborted command is not stored.
    AbortNotKept,
    /// Evicts one response too many.
    EvictionOffByOne,
    /// Reuses the last number after all requests to a client are acknowledged.
    LetterNumberReused,
    /// Also resends requests sent exactly at the given time.
    RetryNotStrict,
    /// Executes a request in a session whose lease has expired but that has not been ended.
    ExpiredExecutes,
    /// A snapshot contains the lowest stored number instead of the mark.
    MarkNotInSnapshot,
    /// Sends the requests of an aborted command.
    AbortedRequestsSent,
    /// Keeps the writes made before a panic.
    PanicKeepsWrites,
    /// Ignores the lowest pending request that a client reports.
    LowestPendingIgnored,
    /// A delayed keep-alive lowers the mark.
    MarkLowered,
    /// Ending a session also removes the sessions whose names have its name as a prefix.
    NeighbourTaken,
    /// Forgets the numbers of a removed session at once.
    FormerForgotten,
}

#[cfg(feature = "planted-faults")]
impl Fault {
    /// All faults.
    pub const ALL: [Fault; 12] = [
        Fault::AbortNotKept,
        Fault::EvictionOffByOne,
        Fault::LetterNumberReused,
        Fault::RetryNotStrict,
        Fault::ExpiredExecutes,
        Fault::MarkNotInSnapshot,
        Fault::AbortedRequestsSent,
        Fault::PanicKeepsWrites,
        Fault::LowestPendingIgnored,
        Fault::MarkLowered,
        Fault::NeighbourTaken,
        Fault::FormerForgotten,
    ];
}

#[cfg(feature = "planted-faults")]
mod switch {
    use super::Fault;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Runs a closure on this thread with a planted fault.
    pub fn with_fault<T>(fault: Fault, run: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(fault));
        let result = run();
        PLANTED.set(None);
        result
    }

    pub(crate) fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }
}

#[cfg(feature = "planted-faults")]
pub(crate) use switch::planted;
#[cfg(feature = "planted-faults")]
pub use switch::with_fault;

#[cfg(not(feature = "planted-faults"))]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}
