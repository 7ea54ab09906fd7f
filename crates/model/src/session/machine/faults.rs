//! Faults that can be planted, to see that the tests find them. Without the feature `planted-faults` there are none:
//! `planted` is always false, and the compiler takes out what stands behind it.

/// A fault: each bends one thing, at the one place that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The answer of an aborted command is not kept with the state.
    AbortNotKept,
    /// One response too many is evicted.
    EvictionOffByOne,
    /// When all is acknowledged, the last number is given once more.
    LetterNumberReused,
    /// What was sent exactly at the moment is retried, too.
    RetryNotStrict,
    /// A request is executed in a session whose lease is over, as long as that was not ended.
    ExpiredExecutes,
    /// A snapshot has the lowest number that is kept instead of the mark.
    MarkNotInSnapshot,
    /// The requests of an aborted command are sent.
    AbortedRequestsSent,
    /// A panic leaves behind what was written before it.
    PanicKeepsWrites,
    /// What a client says about the responses that it has is not heard.
    LowestPendingIgnored,
    /// A late keep-alive lowers the mark.
    MarkLowered,
    /// A session that ends takes with it those whose names begin with its own.
    NeighbourTaken,
    /// The numbers of sessions that are gone are forgotten at once.
    FormerForgotten,
}

#[cfg(feature = "planted-faults")]
impl Fault {
    /// All of them.
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

    /// Runs something on this thread with a fault planted in it.
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
