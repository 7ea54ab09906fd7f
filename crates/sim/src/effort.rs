//! A counter of check steps.
//!
//! A check that found an injected fault runs once more for as many steps without it, and must then find nothing.

use crate::drill::Outcome;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of steps taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The most steps that may be taken.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// The error that ends a check that has taken enough steps.
pub const ENOUGH: &str = "this is far enough";

/// Counts one cut, failure, flip or round. An error ends the check.
pub fn step() -> Outcome<()> {
    // SeqCst for simplicity: only the counts matter, and no other data is published through them.
    if TAKEN.fetch_add(1, Ordering::SeqCst) < LIMIT.load(Ordering::SeqCst) {
        Ok(())
    } else {
        Err(ENOUGH.to_owned())
    }
}

/// Fails unless each of these events has occurred, because a check without them proves nothing.
pub fn insist_on(met: &[(&str, u64)]) -> Outcome<()> {
    match met.iter().find(|(_, count)| *count == 0) {
        Some((what, _)) => Err(format!("too little was tried: no {what}")),
        None => Ok(()),
    }
}

/// Limits the next check to as many steps as the check before took.
#[cfg(feature = "planted")]
pub fn go_as_far_again() {
    // SeqCst as in `step`.
    LIMIT.store(TAKEN.swap(0, Ordering::SeqCst), Ordering::SeqCst);
}
