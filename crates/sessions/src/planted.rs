//! Bugs on purpose: the tests show that they find them.

/// A bug that is in the client because a test asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "planted-faults"), allow(dead_code, reason = "planted by tests alone"))]
pub enum Planted {
    /// A request that is tried again gets a new number.
    NewNumber,
    /// The number of a request that got no answer in time is given to the next one.
    ReusedNumber,
    /// A request says that everything before it has its answer.
    LowestTooHigh,
    /// A request of the server is acknowledged before its handler has returned.
    AcknowledgedFirst,
    /// What was handled is not remembered.
    HandledForgotten,
    /// Requests do not say for which epoch of their session they are.
    NoEpoch,
    /// What was left goes on in whatever epoch its session has.
    AnyEpoch,
    /// A session that is gone tells everybody that nothing was executed.
    AlwaysExpired,
}
