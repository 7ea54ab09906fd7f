//! How far a check goes. One that has found a bug goes as far once more without it, and must find nothing then.

use crate::drill::Outcome;
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps that were taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// No more than so many are taken.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// What a check ends with when it has gone far enough.
pub const ENOUGH: &str = "this is far enough";

/// One more cut, failure, flip or round; the error ends the check.
pub fn step() -> Outcome<()> {
    match TAKEN.fetch_add(1, Ordering::SeqCst) < LIMIT.load(Ordering::SeqCst) {
        true => Ok(()),
        false => Err(ENOUGH.to_owned()),
    }
}

/// Where nothing was met nothing was shown: each of these has to have happened.
pub fn insist_on(met: &[(&str, u64)]) -> Outcome<()> {
    match met.iter().find(|(_, count)| *count == 0) {
        Some((what, _)) => Err(format!("too little was tried: no {what}")),
        None => Ok(()),
    }
}

/// The next check goes no further than the one before.
#[cfg(feature = "planted")]
pub fn go_as_far_again() {
    LIMIT.store(TAKEN.swap(0, Ordering::SeqCst), Ordering::SeqCst);
}
