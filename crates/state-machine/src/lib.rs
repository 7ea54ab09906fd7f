//! Deterministic state machine with sessions: wraps a user's state machine so that its commands execute
//! exactly once.
//!
//! ```text
//!   log: (now, Input) ---> SessionMachine ---> Output { answer, requests to be sent }
//!                           |          |
//!                    sessions          state  <---- UserStateMachine: apply, session_created, session_expired
//!                    ledgers           tables       sees the state, the time and the sessions; nothing else
//!                    mailboxes
//!                           \          /
//!                            snapshot, hash
//! ```
//!
//! A [`UserStateMachine`] has three pure functions. A [`SessionMachine`] adds exactly-once execution: stored
//! responses, mailboxes and leases. The whole state is deterministic: all replicas that apply the same log
//! have the same state and the same [`hash`](SessionMachine::hash).
//!
//! The machine has no I/O, no clock and no threads. The owner of the log supplies entries with timestamps and
//! sends the output requests. It also decides when to expire sessions ([`Input::ExpireDue`]), resend requests
//! ([`Input::Retry`]) and take snapshots ([`SnapshotPolicy`]).
//!
//! # Which messages renew a lease
//!
//! Opening, keep-alives, acknowledgements and requests renew the lease, even retried and evicted requests,
//! because they prove that the client is alive. A session is live while `now` is before its expiry. From that
//! microsecond on it is treated as absent by requests, by messages to it and by user functions, even if it
//! has not been ended. Ending it calls `session_expired`. Reopening its name ends it first.

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
