//! Synchronization primitives of the write path: locks, atomics, parking and threads.
//!
//! ```text
//!   usual builds              re-exports of parking_lot and std, no wrapper
//!   feature model-checking    shuttle: its scheduler may switch threads at every operation
//! ```
//!
//! The sequencer, tickets, wake-up signals and revision waiters use these. Locks held only for a moment,
//! without any operation of this module meanwhile, stay real locks: shuttle runs on one real thread, so they
//! are always free.

#[cfg(not(feature = "model-checking"))]
mod real {
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
    pub(crate) use std::sync::atomic;
    pub(crate) use std::{thread, thread_local};
}

#[cfg(feature = "model-checking")]
mod model;

#[cfg(feature = "model-checking")]
pub(crate) use model::*;
#[cfg(not(feature = "model-checking"))]
pub(crate) use real::*;
