//! Exponential backoff with jitter.

use crate::settings::Settings;
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Pseudo-random numbers. Equal seeds give equal sequences.
pub(crate) struct Jitter(Mutex<u64>);

impl Jitter {
    /// Starts from a seed, or from a random one.
    pub fn new(seed: Option<u64>) -> Jitter {
        Jitter(Mutex::new(seed.unwrap_or_else(|| RandomState::new().hash_one(0))))
    }

    /// The next number.
    pub fn next_number(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        splitmix64(*state)
    }
}

/// The mixing function of SplitMix64: every input bit flips about half of the output bits.
pub(crate) fn splitmix64(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The pauses of one request.
pub(crate) struct Backoff<'a> {
    jitter: &'a Jitter,
    next: Duration,
    max: Duration,
}

impl<'a> Backoff<'a> {
    /// Starts with the shortest pause.
    pub fn new(settings: &Settings, jitter: &'a Jitter) -> Backoff<'a> {
        Backoff { jitter, next: settings.first_pause, max: settings.longest_pause }
    }

    /// The next pause: random between half and the whole, so that clients that failed together do not retry
    /// together.
    pub fn next(&mut self) -> Duration {
        let whole = self.next.min(self.max);
        self.next = whole.saturating_mul(2);
        let half_us = u64::try_from(whole.as_micros() / 2).unwrap_or(u64::MAX);
        whole / 2 + Duration::from_micros(self.jitter.next_number() % (half_us + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_never_the_same_for_all() {
        let ms = Duration::from_millis;
        let settings =
            Settings { first_pause: ms(10), longest_pause: ms(80), ..Settings::default() };
        let backoff = |seed| {
            let jitter = Jitter::new(Some(seed));
            let mut backoff = Backoff::new(&settings, &jitter);
            [(); 6].map(|()| backoff.next())
        };
        for (pause, whole) in backoff(1).into_iter().zip([10, 20, 40, 80, 80, 80]) {
            assert!(pause >= ms(whole) / 2 && pause <= ms(whole), "{pause:?} of {whole} ms");
        }
        assert_eq!(backoff(1), backoff(1));
        assert_ne!(backoff(1), backoff(2));
    }
}
