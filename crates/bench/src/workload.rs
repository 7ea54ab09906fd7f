//! Names, values and random numbers, created before the clock runs, so that the harness costs little.

/// Pseudo-random numbers for workloads (splitmix64): fast, and the same in every run.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// Every seed has its own sequence.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform number below `n` (with a bias of n in 2^64).
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// A random element.
    pub fn pick<'a>(&mut self, of: &'a [String]) -> &'a str {
        &of[self.below(of.len())]
    }
}

/// The name of cell number `n`.
pub fn name(n: u64) -> String {
    format!("cell:{n:010}")
}

/// The names of `count` cells.
pub fn names(count: usize) -> Vec<String> {
    (0..count as u64).map(name).collect()
}

/// Size of a value in bytes.
pub const VALUE_BYTES: usize = 100;

/// Values of 100 letters and digits that hardly compress.
pub fn values() -> Vec<String> {
    let mut random = Random::new(7);
    (0..256).map(|_| value(&mut random)).collect()
}

fn value(random: &mut Random) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    (0..VALUE_BYTES).map(|_| char::from(LETTERS[random.below(LETTERS.len())])).collect()
}

/// Visits 0..count once each, in an order without a pattern that matters to a tree.
pub fn scattered(count: u64) -> impl Iterator<Item = u64> {
    // A prime that divides none of our counts, so that its multiples form a permutation.
    const PRIME: u64 = 7_368_787;
    (0..count).map(move |n| n.wrapping_mul(PRIME) % count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_numbers_come_once_each() {
        for count in [10, 1_000, 100_000] {
            let mut seen: Vec<u64> = scattered(count).collect();
            assert_ne!(seen, (0..count).collect::<Vec<_>>());
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn chance_covers_everything_and_values_have_their_size() {
        let mut random = Random::new(1);
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|_| seen[random.below(10)] += 1);
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
        assert!(values().iter().all(|value| value.len() == VALUE_BYTES));
        assert_eq!(name(1234), "cell:0000001234");
    }
}
