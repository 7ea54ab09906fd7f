//! Runs: append-only event logs with idempotent appends and derived snapshots.
//!
//! ```text
//!   NewEvent --checked, keyed--> Event { run_seq, event_id, persisted_at, … }   never changed, never deleted alone
//!                                   |
//!                                   v  reducer, one event after another
//!                               RunSnapshot { status, steps, watermark }, hashed
//! ```

mod bytes;
mod capabilities;
mod command;
mod event;
mod instant;
mod json;
mod key;
mod new;
mod page_size;
mod reduce;
mod snapshot;
mod snapshot_bytes;
mod store;

pub use bytes::{EventHeader, peek_event, put_text, take_text};
pub use capabilities::{Listings, RunCapabilities};
pub use command::{
    Appended, KeptState, RunAlert, RunAnswer, RunCommand, RunFilter, RunInfo, RunPage,
};
pub use event::{CONTRACT_VERSION, CanonicalEvent};
pub use instant::Instant;
pub use key::{EventKey, event_id, signal_key};
pub(crate) use new::KEY_LIMIT_BYTES;
pub use new::NewEvent;
pub use page_size::PageSize;
pub use reduce::{Judgement, reduce, reduce_parts};
pub use snapshot::{AttemptSnapshot, RunSnapshot, RunStatus, StepSnapshot, StepStatus};
pub use store::{FetchOptions, RunStore};
