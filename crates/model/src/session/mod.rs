//! Sessions: commands of clients that are executed exactly once, and requests of the server that reach them in order.
//!
//! ```text
//!   request { session, request_id, lowest_pending }
//!        |
//!        |  no such session            -> SessionExpired,  nothing happens
//!        |  its response is kept       -> that response,   nothing happens
//!        |  below the mark             -> ResponseEvicted, nothing happens
//!        v
//!   mark := lowest_pending, if that is more; what is below goes
//!        |
//!     execute -> response, an error too: kept with what was written, in the same commit
//! ```
//!
//! A [`Ledger`] is what is known of one session's requests, a [`Mailbox`] what waits for its client. They are kept by the
//! engine, whose commands are transactions, and by the [`SessionMachine`](machine::SessionMachine) around a machine of a
//! user's own.

mod command;
mod ledger;
pub mod machine;
mod mailbox;
mod request;

pub use command::{
    Hold, SessionAnswer, SessionCommand, SessionInfo, SessionPage, check_session_open,
};
pub use ledger::{Former, KeptLimits, Ledger, Verdict, Weighed};
pub use mailbox::{Letter, Mailbox, Retries};
pub use request::SessionRequest;
use request::check_number;

/// How long a session lives without a word of its client, if it is not said otherwise.
pub const SESSION_LEASE_MS: u64 = 60_000;
/// The longest lease: a day.
pub const SESSION_LEASE_LIMIT_MS: u64 = 86_400_000;
/// The most responses that are kept for one session.
pub const KEPT_LIMIT: usize = 1_000;
/// The most bytes of responses that are kept for one session.
pub const KEPT_LIMIT_BYTES: usize = 1 << 20;
/// The most requests of the server that one session has not acknowledged.
pub const MAILBOX_LIMIT: usize = 10_000;
/// The most bytes of them.
pub const MAILBOX_LIMIT_BYTES: usize = 16 << 20;
/// The most requests of the server that all sessions together have not acknowledged.
pub const LETTERS_LIMIT: usize = 1_000_000;
/// The largest of them.
pub const LETTER_LIMIT_BYTES: usize = 1 << 20;
/// The most capabilities of a session.
pub const CAPABILITY_LIMIT: usize = 64;
/// The longest name, and the longest value, of a capability.
pub const CAPABILITY_LIMIT_BYTES: usize = 1_024;
/// The most bytes of all capabilities of a session: they are written with each change of its standing.
pub const CAPABILITIES_LIMIT_BYTES: usize = 16 << 10;
/// The most sessions.
pub const SESSION_LIMIT: usize = 100_000;
/// The highest number of a request: the largest that every protocol and every client's language can say.
pub const REQUEST_LIMIT: u64 = i64::MAX as u64;
/// How far a client's numbers may be ahead of the next one that its session knows of: as many as responses are kept.
pub const REQUESTS_AHEAD_LIMIT: u64 = KEPT_LIMIT as u64;
/// How long the numbers of a session that is gone are remembered, in microseconds: a day. Whoever opens one of its name
/// meanwhile goes on behind all that its client can have had under way, so that a late copy of an old request is not
/// executed in the new session.
pub const FORMER_KEPT_US: u64 = 24 * 3_600_000_000;
