//! Exactly-once stream processing on keyed state.
//!
//! ```text
//!   dyn KeyedState --in memory--> MemoryState
//!        |
//!        '--with types--> TypedState<K, V, Ver>
//! ```

mod checkpoint;
mod key;
mod memory;
mod typed;

pub use checkpoint::{
    Checkpoints, FilePart, Job, Manifest, ShardPart, ShardReport, Shelf, VersionName,
};
pub use key::StateKeyCodec;
pub use memory::MemoryState;
pub use typed::{TypedPage, TypedState};
