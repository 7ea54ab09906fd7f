//! Sessions: exactly-once execution of client requests, and ordered delivery of requests to clients.
//!
//! ```text
//!   request { session, request_id, lowest_pending }
//!        |
//!        |  no such session            -> SessionExpired,  nothing happens
//!        |  its response is stored     -> that response,   nothing happens
//!        |  below the mark             -> ResponseEvicted, nothing happens
//!        v
//!   mark := max(mark, lowest_pending); responses below are dropped
//!        |
//!     execute -> response or error, stored with the writes in the same commit
//! ```
//!
//! A [`Ledger`] records one session's requests. A [`Mailbox`] holds the requests to its client. Both are used
//! by the engine, whose commands are transactions, and by `mainstay-state-machine` around a user's state machine.

mod command;
mod ledger;
mod mailbox;
mod request;

pub use command::{
    Hold, SessionAnswer, SessionCommand, SessionInfo, SessionPage, check_session_open,
};
pub use ledger::{Former, KeptLimits, Ledger, Verdict, Weighed};
pub use mailbox::{Letter, Mailbox, Retries};
pub use request::{SessionRequest, check_number};

/// The default lease in milliseconds: how long a session lives without a message from its client.
pub const SESSION_LEASE_MS: u64 = 60_000;
/// The longest lease in milliseconds: a day.
pub const SESSION_LEASE_LIMIT_MS: u64 = 86_400_000;
/// The most stored responses per session.
pub const KEPT_LIMIT: usize = 1_000;
/// The most bytes of stored responses per session.
pub const KEPT_LIMIT_BYTES: usize = 1 << 20;
/// The most unacknowledged requests to one session's client.
pub const MAILBOX_LIMIT: usize = 10_000;
/// The most bytes of these requests.
pub const MAILBOX_LIMIT_BYTES: usize = 16 << 20;
/// The most unacknowledged requests to all clients together.
pub const LETTERS_LIMIT: usize = 1_000_000;
/// The largest request to a client, in bytes.
pub const LETTER_LIMIT_BYTES: usize = 1 << 20;
/// The most capabilities of a session.
pub const CAPABILITY_LIMIT: usize = 64;
/// The longest name, and the longest value, of a capability, in bytes.
pub const CAPABILITY_LIMIT_BYTES: usize = 1_024;
/// The most bytes of all capabilities of a session. They are rewritten with each change of the session's
/// state.
pub const CAPABILITIES_LIMIT_BYTES: usize = 16 << 10;
/// The most sessions.
pub const SESSION_LIMIT: usize = 100_000;
/// The highest request number: the largest that every protocol and every client language can represent.
pub const REQUEST_LIMIT: u64 = i64::MAX as u64;
/// How far a request number may be ahead of the session's next one. It equals the limit of stored responses.
pub const REQUESTS_AHEAD_LIMIT: u64 = KEPT_LIMIT as u64;
/// How long the numbers of a removed session are remembered, in microseconds: a day. A new session of the
/// same name continues after all numbers that the old client may have in flight. Therefore a delayed copy of
/// an old request is not executed.
pub const FORMER_KEPT_US: u64 = 24 * 3_600_000_000;
