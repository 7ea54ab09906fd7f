//! A state machine of a user's own, with sessions around it.
//!
//! ```text
//!   log: (now, Input) ---> SessionMachine ---> Output { answer, requests to be sent }
//!                           |          |
//!                    sessions          state  <---- UserStateMachine: apply, session_created, session_expired
//!                    ledgers           tables       sees the state, the time and who is there; nothing else
//!                    mailboxes
//!                           \          /
//!                            snapshot, hash
//! ```
//!
//! A [`UserStateMachine`] is three pure functions. A [`SessionMachine`] puts around it what makes its commands happen
//! once: which requests were answered and with what, what waits for clients, who is alive. All of it is one value:
//! whoever applies the same log to it comes to the same value, and the same [`hash`](SessionMachine::hash).
//!
//! There is no I/O here, no clock and no thread. Whoever has the log gives entries with their times, sends what is to
//! be sent, and decides when sessions are looked at for expiry ([`Input::ExpireDue`]), requests for retries
//! ([`Input::Retry`]) and the state for a snapshot ([`SnapshotPolicy`]).
//!
//! # Which words renew a lease
//!
//! Opening, keep-alives, acknowledgements and requests do, also repeated ones and those that came too late: the client
//! is there. A session lives while `now` is before its expiry; from that very microsecond on it is as if it were gone,
//! for requests, for what is sent to it, and for what functions see, whether or not it was ended yet. Ending it runs
//! `session_expired`, and opening its name anew does that first.

mod call;
mod codec;
mod context;
mod core;
mod counters;
#[cfg(feature = "planted-faults")]
pub mod faults;
#[cfg(not(feature = "planted-faults"))]
mod faults;
mod formers;
mod input;
mod limits;
mod output;
mod policy;
mod query;
mod reply;
mod session_machine;
mod sessions;
mod snapshot;
mod state;
mod table;
mod user;

pub use codec::{Codec, Ordered, Postcard};
pub use context::{Context, SessionMetadata};
pub use counters::Counters;
pub use input::Input;
pub use limits::{FORMER_LIMIT, Limits};
pub use output::{Answer, Output, Response, ServerRequest};
pub use policy::{SNAPSHOT_ENTRIES, SNAPSHOT_LOG_BYTES, SinceSnapshot, SnapshotPolicy};
pub use query::Usage;
pub use reply::Reply;
pub use session_machine::{MachineCodec, SessionMachine};
pub use snapshot::SnapshotWritten;
pub use state::StateView;
pub use table::Table;
pub use user::{Emitted, Outcome, UserStateMachine};
