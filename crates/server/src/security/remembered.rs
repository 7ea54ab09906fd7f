//! A cache of recently verified passwords, so that not every request pays for argon2id.
//!
//! The cache holds keyed hashes. The key is created when the server starts and exists only in its memory.
//! Each user has one entry, so the number of users bounds the size.

use super::Secret;
use argon2::password_hash::try_generate_salt;
use mainstay::{Clock, Code, Error, Result, SystemClock};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use subtle::ConstantTimeEq;

type Print = [u8; 32];

/// The key of the hashes, and how long entries are valid.
pub(super) struct Remembered {
    key: [[u8; 16]; 2],
    clock: Arc<dyn Clock>,
    limit_us: u64,
}

/// The cache entry of a user.
#[derive(Default)]
pub(super) struct Place(Mutex<Option<(Print, u64)>>);

impl Remembered {
    pub fn new(limit_ms: u64) -> Result<Remembered> {
        Remembered::with_clock(limit_ms, Arc::new(SystemClock::new()))
    }

    fn with_clock(limit_ms: u64, clock: Arc<dyn Clock>) -> Result<Remembered> {
        let piece = || {
            try_generate_salt()
                .map_err(|error| Error::new(Code::Io, format!("no random numbers: {error}")))
        };
        let limit_us = limit_ms.saturating_mul(1000);
        Ok(Remembered { key: [piece()?, piece()?], clock, limit_us })
    }

    /// Hashes a password. It takes the same time for unknown users.
    pub fn print(&self, name: &str, password: &Secret) -> Print {
        let mut hasher = Sha256::new();
        self.key.iter().for_each(|piece| hasher.update(piece));
        hasher.update((name.len() as u64).to_le_bytes());
        hasher.update(name);
        hasher.update(password.expose());
        hasher.finalize().into()
    }

    /// Returns whether this is the verified password and the entry is still valid.
    pub fn holds(&self, place: &Place, print: &Print) -> bool {
        let kept = *place.0.lock();
        kept.is_some_and(|(kept, until_us)| {
            bool::from(kept.ct_eq(print)) && self.clock.monotonic_us() < until_us
        })
    }

    /// Stores a verified password.
    pub fn keep(&self, place: &Place, print: Print) {
        let until_us = self.clock.monotonic_us().saturating_add(self.limit_us);
        *place.0.lock() = Some((print, until_us));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::ManualClock;
    use std::time::Duration;

    #[test]
    fn only_the_same_password_of_the_same_user_is_remembered_and_only_for_a_while() {
        let clock = ManualClock::new(1);
        let remembered = Remembered::with_clock(1000, clock.clone()).unwrap();
        let print = |name: &str, password: &str| remembered.print(name, &Secret::new(password));
        let place = Place::default();
        assert!(!remembered.holds(&place, &print("a", "b")));
        remembered.keep(&place, print("a", "b"));
        assert!(remembered.holds(&place, &print("a", "b")));
        for (name, password) in [("a", "c"), ("b", "b"), ("ab", ""), ("", "ab")] {
            assert!(!remembered.holds(&place, &print(name, password)));
        }
        clock.advance(Duration::from_millis(1000));
        assert!(!remembered.holds(&place, &print("a", "b")));
    }

    #[test]
    fn prints_of_two_servers_differ() {
        let one = || Remembered::new(1).unwrap().print("a", &Secret::new("b"));
        assert_ne!(one(), one());
    }
}
