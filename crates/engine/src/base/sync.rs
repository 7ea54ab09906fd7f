//! What threads meet at on the path of a write: locks, atomics, parking, threads.
//!
//! ```text
//!   usual builds              parking_lot and std, by name: nothing is between
//!   feature model-checking    shuttle: every use is a place where its scheduler may let another one run
//! ```
//!
//! The sequencer, tickets, bells and whoever waits for revisions use these. What is locked for a moment only, with
//! nothing of this module done meanwhile, stays with the real locks: under a scheduler that has one real thread they are
//! always free.

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
