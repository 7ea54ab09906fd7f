//! Deterministic random number generator (SplitMix64): the same seed gives the same sequence.

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Seeds an independent sequence from a list of numbers.
    pub fn of(parts: &[u64]) -> Random {
        Random(
            parts.iter().fold(0x6D61_696E, |state, part| {
                Random(state ^ part.wrapping_mul(0x2545_F491)).next()
            }),
        )
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "a stream without end is no iterator here")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns true with a probability of `percent`.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
