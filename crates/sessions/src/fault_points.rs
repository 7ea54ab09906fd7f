//! Injected faults, with which the tests prove that they detect them.

/// A fault that a test injects in the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "planted-faults"), allow(dead_code, reason = "planted by tests alone"))]
pub enum ClientFault {
    /// A retried request gets a new number.
    NewNumber,
    /// The number of a request that timed out is reused for the next one.
    ReusedNumber,
    /// A request claims that all earlier requests are answered.
    LowestTooHigh,
    /// A server message is acknowledged before its handler has returned.
    AcknowledgedFirst,
    /// Handled server messages are not remembered.
    HandledForgotten,
    /// Requests do not name the epoch of their session.
    NoEpoch,
    /// Resumed requests continue in any epoch of their session.
    AnyEpoch,
    /// A lost session reports every request as not executed.
    AlwaysExpired,
}
