//! Keyed state of stream processors: versioned values by key, with idempotent writes.
//!
//! ```text
//!   put(key, value, version) --newer than the key's?--> state { value, version }
//!                             \--no: no-op, and the answer is `Stale`
//!   ordered: waits until the frontier passes its version --seal--> state
//! ```

mod capabilities;
mod command;
mod entry;
mod group;
mod merging;
mod snapshot;
mod space;
mod store;
mod version;
mod write;

pub use capabilities::KeyedCapabilities;
pub use command::{StateAnswer, StateCommand, StateKey, StatePlace};
pub use entry::{EntryKind, EntryPlace, EntryRef, SpaceEntry, WaitingEntry, put_state, take_state};
pub use group::{GROUPS_DEFAULT, GROUPS_LIMIT, KeySelection, key_group};
pub use merging::{MergeFunction, Merging};
pub use snapshot::{
    Entries, EntryBlock, EntryParts, SnapshotHead, SnapshotMark, SnapshotReader, SnapshotSummary,
    SnapshotTaken, SnapshotWriter,
};
pub use space::{SpaceInfo, SpaceOptions};
pub use store::KeyedState;
pub use version::{LogicalTime, Version, VersionKind};
pub use write::{Item, Kept, STATE_KEY_LIMIT_BYTES, State, StatePage, StateWrite, Wrote};
